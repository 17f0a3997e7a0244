//===- Evaluate.cpp - What a job takes, by compiling it -------------------===//
#include "tools/ciuicc/fit/Evaluate.h"
#include "frontend/model/ImportModel.h"
#include "mlir/Parser/Parser.h"
#include "passes/Analysis/Timeline.h"
#include "tools/RegisterAll.h"
#include "tools/ciuicc/Compiler.h"
#include "tools/ciuicc/MachineRates.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::fit;
using tool::CompileOptions;

/// Copies of the IR that are kept; those after `precision` and `shard` serve
/// most of what is tried.
static constexpr size_t kSnapshots = 6;

Evaluator::Evaluator(const CompileOptions &job) : job(job) {
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    if (message.empty() &&
        diagnostic.getSeverity() == DiagnosticSeverity::Error)
      message = diagnostic.str();
    return success();
  });
}

rt::Result<config::ResolvedConfig>
Evaluator::resolve(const CompileOptions &options, bool overFile) const {
  config::Overrides overrides = options.overrides;
  if (model)
    overrides.hiddenSize = model->hidden;
  overrides.overFile = overFile;
  return options.config.empty()
             ? config::resolveText("{}", "(no --config)", overrides)
             : config::resolve(options.config, overrides, options.strict);
}

std::optional<config::ResolvedConfig>
Evaluator::resolve(const CompileOptions &options, std::string &why) const {
  auto resolved = resolve(options, /*overFile=*/true);
  if (resolved.ok())
    return std::move(*resolved);
  why = resolved.takeStatus().str();
  return std::nullopt;
}

rt::Status Evaluator::checkGiven() const {
  CompileOptions given = job;
  if (settings.job.zero.offloadOptimizer.device != config::OffloadDevice::Nvme)
    given.overrides.nvmePath.reset();
  auto resolved = resolve(given, /*overFile=*/false);
  return resolved.ok() ? rt::Status() : resolved.takeStatus();
}

bool Evaluator::open() {
  if (!job.startFrom.empty())
    first = findPhase(job.startFrom).value_or(1);
  if (!StringRef(job.model).ends_with(".mlir")) {
    auto read = model::readModelConfig(job.model);
    if (!read.ok())
      return false;
    model = *read;
  }
  std::string why;
  auto resolved = resolve(job, why);
  if (!resolved)
    return false;
  settings = std::move(*resolved);
  return true;
}

/// The IR that the first phase is given.
Evaluator::Module Evaluator::load(int64_t microBatch) {
  if (!job.startFrom.empty())
    return parseSourceFile<ModuleOp>(job.model, &context);
  if (!model)
    return model::loadModel(context, job.model);
  return model::importModel(context, *model, microBatch,
                            tool::sequenceOf(job, *model));
}

void Evaluator::keep(std::string key, ModuleOp module) {
  snapshots.push_front({std::move(key), module.clone()});
  if (snapshots.size() > kSnapshots)
    snapshots.pop_back();
}

/// The IR after the phase `last`; null with the reason if one refuses it.
Evaluator::Module Evaluator::runTo(size_t last, const CompileOptions &options,
                                   const config::ResolvedConfig &resolved,
                                   std::string &why) {
  // No limits: what the job takes is asked, not whether it may.
  CompileOptions unlimited = options;
  unlimited.deviceMemory = unlimited.hostMemory = 0;
  unlimited.sharedMemory = unlimited.nvmeSpace = 0;
  unlimited.wholeHost = false;
  PhaseOptions phases = tool::phaseOptions(resolved.job, unlimited);
  message.clear();

  // What a phase does is its passes with all their options, as text.
  std::vector<std::string> keys(last + 1);
  std::string key = std::to_string(resolved.job.batch.microBatch);
  std::vector<std::unique_ptr<PassManager>> passes(last + 1);
  for (size_t i = first; i <= last; ++i) {
    passes[i] = std::make_unique<PassManager>(&context);
    passes[i]->enableVerifier(false); // The compilation itself verifies.
    getPhases()[i].build(*passes[i], phases);
    llvm::raw_string_ostream os(key);
    passes[i]->printAsTextualPipeline(os);
    keys[i] = key;
  }
  Module module;
  size_t next = first;
  for (size_t i = last + 1; i-- > first && !module;)
    for (auto it = snapshots.begin(); it != snapshots.end(); ++it)
      if (it->key == keys[i]) {
        snapshots.splice(snapshots.begin(), snapshots, it);
        module = it->module->clone();
        next = i + 1;
        break;
      }
  if (!module)
    module = load(resolved.job.batch.microBatch);
  if (!module) {
    why = message;
    return {};
  }
  for (size_t i = next; i <= last; ++i) {
    if (failed(passes[i]->run(*module))) {
      why = message;
      return {};
    }
    if (getPhases()[i].name == "precision" || getPhases()[i].name == "shard")
      keep(keys[i], *module);
  }
  return module;
}

Outcome Evaluator::evaluate(const CompileOptions &options) {
  Outcome outcome;
  auto resolved = resolve(options, outcome.why);
  if (!resolved)
    return outcome;
  Module module =
      runTo(*findPhase("allocate"), options, *resolved, outcome.why);
  if (!module)
    return outcome;
  outcome.possible = true;
  auto arena = [&](StringRef name) -> int64_t {
    auto attr = module->getOperation()->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  int64_t ranks = resolved->job.batch.worldSize;
  outcome.device = arena(sched::kDeviceArena);
  outcome.host =
      arena(sched::kHostArena) * ranks + tool::besideArenas(*module, options);
  outcome.nvme = arena(sched::kNvmeArena) * ranks;
  auto beyond = [](int64_t needs, int64_t has) {
    return has ? needs - has : 0;
  };
  outcome.beyond[Devices] =
      beyond(outcome.device, options.deviceMemory) * ranks;
  outcome.beyond[Host] = beyond(outcome.host, options.hostMemory);
  outcome.beyond[Files] = beyond(outcome.nvme, options.nvmeSpace);
  outcome.beyond[Together] =
      beyond(outcome.device * ranks + outcome.host, options.sharedMemory);
  sched::Rates rates =
      options.machine
          ? tool::ratesOf(*options.machine, options.target == "cuda", ranks)
          : sched::getRates(*module);
  outcome.seconds =
      1e-6 *
      sched::stepMicroseconds(*module, resolved->job.batch.accumulation, rates);
  for (auto program : module->getOps<sched::ProgramOp>())
    outcome.tasks +=
        std::distance(program.getBody().getOps<sched::TaskOp>().begin(),
                      program.getBody().getOps<sched::TaskOp>().end());
  return outcome;
}

std::string Evaluator::placed(const CompileOptions &options) {
  std::string why;
  size_t place = *findPhase("place");
  auto resolved = resolve(options, why);
  if (!resolved || first > place)
    return "";
  Module module = runTo(place, options, *resolved, why);
  return module ? tool::printModule(*module) : "";
}
