//===- CompileCommand.cpp - ciuicc compile --------------------------------===//
#include "frontend/model/ImportModel.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "tools/RegisterAll.h"
#include "tools/ciuicc/Compiler.h"
#include "tools/ciuicc/fit/Fit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

#include <chrono>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::tool;

static constexpr int64_t kDefaultSequence = 512;

std::string tool::inUnits(double value, const char *unit) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const char *prefix = "";
  if (value >= 1e9) {
    value /= 1e9;
    prefix = *unit ? "G" : " B";
  } else if (value >= 1e6) {
    value /= 1e6;
    prefix = *unit ? "M" : " M";
  } else if (value >= 1e3) {
    value /= 1e3;
    prefix = *unit ? "k" : " k";
  }
  os << llvm::format("%.*f", value < 10 ? 2 : 1, value) << (*unit ? " " : "")
     << prefix << unit;
  return text;
}

static int fail(const std::string &message, int code = 1) {
  llvm::errs() << "ciuicc: error: " << message << "\n";
  return code;
}

int tool::report(const rt::Status &status) {
  return fail(status.str(), status.exitCode());
}

rt::Result<config::ResolvedConfig>
tool::resolveSettings(const CompileOptions &options,
                      std::optional<int64_t> hiddenSize) {
  config::Overrides overrides = options.overrides;
  overrides.hiddenSize = hiddenSize;
  auto resolved =
      options.config.empty()
          ? config::resolveText("{}", "(no --config)", overrides)
          : config::resolve(options.config, overrides, options.strict);
  if (!resolved.ok())
    return resolved;
  for (const std::string &warning : resolved->warnings)
    llvm::errs() << "ciuicc: warning: " << warning << "\n";
  if (!options.quiet)
    for (const std::string &note : resolved->notes)
      llvm::errs() << "ciuicc: note: " << note << "\n";
  const config::SchedulerSettings &scheduler = resolved->job.scheduler;
  if (scheduler.totalStepsFromJob && scheduler.rate.totalSteps == 0)
    return rt::Status::invalid(
        "the learning rate's schedule is as long as the training, and nothing "
        "says how long that is; give --steps");
  return resolved;
}

int64_t tool::sequenceOf(const CompileOptions &options,
                         const model::ModelConfig &model) {
  return options.sequence.value_or(
      std::min(model.maxPositions, kDefaultSequence));
}

/// What a location says to the user: a place in a file, or a tensor's name.
static std::string placeOf(Location loc) {
  std::string place;
  loc->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      place = (file.getFilename().getValue() + ":" + Twine(file.getLine()) +
               ":" + Twine(file.getColumn()) + ": ")
                  .str();
      return WalkResult::interrupt();
    }
    if (auto name = dyn_cast<NameLoc>(inner); name && place.empty())
      place = name.getName().str() + ": ";
    return WalkResult::advance();
  });
  return place;
}

namespace {
/// Says how long a phase took, when it ends.
class PhaseTimer {
public:
  PhaseTimer(StringRef name, bool on)
      : name(name), on(on), start(std::chrono::steady_clock::now()) {}
  ~PhaseTimer() {
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    if (on)
      llvm::errs() << "ciuicc: timing: " << name << " "
                   << llvm::format("%.3f s", took.count()) << "\n";
  }

private:
  StringRef name;
  bool on;
  std::chrono::steady_clock::time_point start;
};
} // namespace

/// Prints a message of the compiler as the command prints its own.
static LogicalResult printDiagnostic(Diagnostic &diagnostic) {
  const char *severity = "error";
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    break;
  case DiagnosticSeverity::Warning:
    severity = "warning";
    break;
  case DiagnosticSeverity::Note:
    severity = "note";
    break;
  case DiagnosticSeverity::Remark:
    severity = "remark";
    break;
  }
  llvm::errs() << "ciuicc: " << severity << ": "
               << placeOf(diagnostic.getLocation()) << diagnostic << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "  note: " << placeOf(note.getLocation()) << note << "\n";
  return success();
}

namespace {
/// One compilation, from its files to its bundle.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : asGiven(options), options(options) {}
  int run();

private:
  int readModel();
  int checkSettingsFit();
  int checkPhasesFit();
  int checkTargetFits();
  int runPhases();
  int emit();
  LogicalResult dump(size_t phase);
  void remarkDecisions();
  void sayWhatIsReserved();
  void sayWhatWasMade();

  const CompileOptions asGiven;
  CompileOptions options; ///< With what --fit chose.
  std::vector<fit::Decision> decisions;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::optional<model::ModelConfig> model;
  config::ResolvedConfig settings;
  std::vector<codegen::BundleFile> ir;
  OwningOpRef<ModuleOp> module;
  int64_t parameters = 0, layers = 0;
  size_t first = 1, last = 0;
};
} // namespace

std::string tool::printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  flags.printNameLocAsPrefix();
  module.print(os, flags);
  os << "\n";
  return text;
}

LogicalResult Compilation::dump(size_t phase) {
  // A bundle holds the IR of all phases; who stops before wants no other.
  if (options.dump.empty() && last + 1 < getPhases().size())
    return success();
  std::string name = dumpName(phase);
  ir.push_back({"ir/" + name, printModule(*module)});
  if (options.dump.empty())
    return success();
  if (std::error_code error = llvm::sys::fs::create_directories(
          options.dump, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
    return module->emitError()
           << "cannot make " << options.dump << ": " << error.message();
  SmallString<256> path(options.dump);
  llvm::sys::path::append(path, name);
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return module->emitError() << message;
  file->os() << ir.back().text;
  file->keep();
  return success();
}

/// The ZeRO stage that sharded IR was laid out for, by what it keeps in
/// chunks; none if no bucket of it tells.
static std::optional<int> stageOf(ModuleOp module) {
  std::optional<int> stage;
  for (auto bucket : module.getOps<comm::BucketOp>()) {
    if (bucket.getAxis().getSize() == 1 || bucket.getPersistent() ||
        !bucket.getTrainable())
      continue;
    stage = stage.value_or(0);
    for (auto state : module.getOps<train::StateOp>()) {
      if (!state.getSharded() || state.getOf() != bucket.getSymName())
        continue;
      if (state.getRole() == train::Role::Parameter)
        stage = std::max(*stage, 3);
      else if (state.getRole() == train::Role::Gradient)
        stage = std::max(*stage, 2);
      else if (state.getRole() == train::Role::Moment)
        stage = std::max(*stage, 1);
    }
    break; // All such buckets are laid out alike.
  }
  return stage;
}

/// The element type of the parameters under a precision.
static Type parameterType(MLIRContext *context, config::Precision precision) {
  switch (precision) {
  case config::Precision::Fp32:
    return Float32Type::get(context);
  case config::Precision::Bf16:
    return BFloat16Type::get(context);
  case config::Precision::Fp16:
    return Float16Type::get(context);
  }
  return {};
}

/// What earlier phases built into a file must be what the settings say too;
/// else the bundle would describe another job than it runs.
int Compilation::checkPhasesFit() {
  if (auto stage = stageOf(*module); stage && *stage != settings.job.zero.stage)
    return fail(options.model + " is made for ZeRO stage " +
                std::to_string(*stage) + ", but the settings ask for stage " +
                std::to_string(settings.job.zero.stage));
  if (first <= *findPhase("precision"))
    return 0;
  Type wanted = parameterType(&context, settings.job.precision.compute);
  for (auto state : module->getOps<train::StateOp>()) {
    Type found = state.getTensorType().getElementType();
    if (state.getRole() != train::Role::Parameter || !state.getTrainable() ||
        found == wanted)
      continue;
    std::string type;
    llvm::raw_string_ostream(type) << found;
    return fail(options.model + " is made with parameters of " + type +
                ", but the settings ask for " +
                config::name(settings.job.precision.compute));
  }
  return 0;
}

/// Lowered IR has its target built in.
int Compilation::checkTargetFits() {
  auto list = module->getOperation()->getAttrOfType<StringAttr>(
      sched::kArchitecturesAttr);
  std::string made =
      sched::isForCuda(*module) ? "cuda on " + list.str() : "cpu";
  std::string wanted =
      options.target == "cuda" ? "cuda on " + architecturesOf(options) : "cpu";
  if (made == wanted)
    return 0;
  return fail(options.model + " is made for " + made +
              ", but the settings ask for " + wanted + " (--target, --arch)");
}

/// A phase's file has its devices and batch built in, and what its phases
/// decided.
int Compilation::checkSettingsFit() {
  if (module->getOperation()->hasAttr(sched::kRanksAttr))
    if (int code = checkTargetFits())
      return code;
  int64_t ranks = 0;
  if (auto attr =
          module->getOperation()->getAttrOfType<IntegerAttr>(sched::kRanksAttr))
    ranks = attr.getInt();
  else
    for (auto bucket : module->getOps<comm::BucketOp>())
      ranks = bucket.getAxis().getSize();
  if (ranks != 0 && ranks != settings.job.batch.worldSize)
    return fail(options.model + " is made for " + std::to_string(ranks) +
                " devices, but the settings ask for " +
                std::to_string(settings.job.batch.worldSize) + " (--devices)");
  if (!options.startFrom.empty())
    if (int code = checkPhasesFit())
      return code;
  auto step = module->lookupSymbol<func::FuncOp>("micro_step");
  if (!step)
    step = module->lookupSymbol<func::FuncOp>("forward");
  if (!step || step.getNumArguments() == 0)
    return 0;
  auto tokens = dyn_cast<RankedTensorType>(step.getArgumentTypes().front());
  if (tokens && tokens.getRank() == 2 &&
      tokens.getDimSize(0) != settings.job.batch.microBatch)
    return fail(options.model + " is made for micro-batches of " +
                std::to_string(tokens.getDimSize(0)) +
                " sequences, but the settings ask for " +
                std::to_string(settings.job.batch.microBatch));
  if (tokens && tokens.getRank() == 2 && options.sequence &&
      tokens.getDimSize(1) != *options.sequence)
    return fail(options.model + " is made for sequences of " +
                std::to_string(tokens.getDimSize(1)) +
                " tokens, but --seq-len is " +
                std::to_string(*options.sequence));
  return 0;
}

/// Reads the model and the settings; makes the module.
int Compilation::readModel() {
  PhaseTimer timer(getPhases().front().name, options.timing);
  StringRef path = options.model;
  bool isIr = path.ends_with(".mlir");
  if (!options.startFrom.empty() && !isIr)
    return fail("--start-from goes on from a phase's .mlir file; give it as "
                "--model",
                2);
  if (isIr) {
    if (!options.startFrom.empty()) {
      module = parseSourceFile<ModuleOp>(path, &context);
      if (!module)
        return 1;
    } else {
      module = model::loadModel(context, path);
      if (!module)
        return 1;
      if (failed(model::batchShape(*module)))
        return 1;
    }
    auto resolved = resolveSettings(options, std::nullopt);
    if (!resolved.ok())
      return report(resolved.takeStatus());
    settings = *resolved;
    if (int code = checkSettingsFit())
      return code;
  } else {
    auto read = model::readModelConfig(options.model);
    if (!read.ok())
      return report(read.takeStatus());
    model = *read;
    for (const std::string &warning : model->warnings)
      llvm::errs() << "ciuicc: warning: " << warning << "\n";
    auto resolved = resolveSettings(options, model->hidden);
    if (!resolved.ok())
      return report(resolved.takeStatus());
    settings = *resolved;
    int64_t microBatch = settings.job.batch.microBatch;
    int64_t sequence = sequenceOf(options, *model);
    layers = model->layers;
    module = model::importModel(context, *model, microBatch, sequence);
    if (!module)
      return 1;
    if (failed(model::verifyImported(*module)))
      return 1;
  }
  if (int64_t ranks = settings.job.batch.worldSize; options.processes > ranks)
    return fail("--processes " + std::to_string(options.processes) +
                ": the job has " + std::to_string(ranks) +
                (ranks == 1 ? " device" : " devices") +
                ", expected at most one process for each");
  for (auto state : module->getOps<train::StateOp>())
    if (state.getRole() == train::Role::Parameter && !state.getOf())
      parameters += state.getTensorType().getNumElements();
  return 0;
}

int Compilation::runPhases() {
  PhaseOptions phases = phaseOptions(settings.job, options);
  if (options.startFrom.empty() && failed(dump(0)))
    return 3;
  for (size_t i = first; i <= last; ++i) {
    const Phase &phase = getPhases()[i];
    if (!phase.build)
      continue;
    PhaseTimer timer(phase.name, options.timing);
    PassManager pm(&context);
    // Once a phase, not after each pass: graphs may have a million ops.
    pm.enableVerifier(false);
    phase.build(pm, phases);
    if (failed(pm.run(*module)) || failed(verify(*module))) {
      if (phase.name == "allocate") {
        sayWhatIsReserved();
        fit::printNearest(asGiven);
      }
      return fail("the phase " + phase.name.str() + " refused the job");
    }
    if (failed(dump(i)))
      return 3;
  }
  return 0;
}

int Compilation::emit() {
  // A file given to --start-from may have been edited since it was checked.
  PassManager gates(&context);
  gates.addPass(sched::createVerifyScheduledPass());
  gates.addPass(sched::createVerifyAllocatedPass());
  gates.addPass(codegen::createVerifyEmittedPass());
  if (failed(gates.run(*module)))
    return fail("the phase emit refused the job");
  if (std::string why = whatIsTooLarge(*module, options); !why.empty())
    return fail(options.model + ": " + why);
  PhaseTimer timer(getPhases().back().name, options.timing);
  codegen::BundleOptions bundle;
  bundle.folder = options.output;
  bundle.facts.model = module->getName().value_or("model").str();
  bundle.facts.accumulation = settings.job.batch.accumulation;
  const config::ZeroSettings &zero = settings.job.zero;
  bundle.facts.nvmePath = zero.offloadOptimizer.nvmePath;
  bundle.facts.diskBlock = zero.disk.blockSize;
  bundle.facts.diskDepth = zero.disk.queueDepth;
  bundle.facts.process = processFactsOf(options);
  bundle.build = options.build;
  bundle.extra = std::move(ir);
  bundle.extra.push_back({"plan/config.txt", printResolved(settings)});
  if (model)
    bundle.extra.push_back({"config.json", model->text});
  codegen::InputFacts inputs = codegen::readInputs(*module);
  bundle.manifest["micro_batch"] = inputs.microBatch;
  bundle.manifest["sequence"] = inputs.sequence;
  bundle.manifest["accumulation"] = settings.job.batch.accumulation;
  bundle.manifest["zero_stage"] = settings.job.zero.stage;
  bundle.manifest["precision"] = config::name(settings.job.precision.compute);
  bundle.manifest["parameters"] = parameters;
  bundle.manifest["device_memory"] = options.deviceMemory;
  bundle.manifest["host_memory"] = options.hostMemory;
  bundle.manifest["nvme_space"] = options.nvmeSpace;
  bundle.manifest["wall_clock_breakdown"] = settings.job.wallClockBreakdown;
  bundle.manifest["steps_per_print"] = settings.job.stepsPerPrint;
  return failed(codegen::writeBundle(*module, std::move(bundle))) ? 3 : 0;
}

/// What --fit did, for --remarks.
void Compilation::remarkDecisions() {
  for (const fit::Decision &decision : decisions)
    if (decision.chosen)
      remark::passed(module->getLoc(),
                     remark::RemarkOpts::name("Chosen").category("fit"))
          << decision.text;
    else
      remark::missed(module->getLoc(),
                     remark::RemarkOpts::name("NotChosen").category("fit"))
          << decision.text;
}

static const char *reservedWhere(machine::Where where) {
  switch (where) {
  case machine::Where::Device:
    return " of each device";
  case machine::Where::Host:
    return " of the host";
  case machine::Where::Process:
    return " of the host for each process,";
  case machine::Where::Thread:
    return " of the host for each thread of a process,";
  }
  return "";
}

/// Of the machine's memory, what the job cannot have, and for whom it is.
void Compilation::sayWhatIsReserved() {
  if (!options.machine)
    return;
  for (const machine::Reserve &entry : options.machine->reserve)
    llvm::errs() << "ciuicc: note: machine " << options.machine->name << ": "
                 << inUnits(entry.bytes, "B") << reservedWhere(entry.where)
                 << " for " << entry.name << "\n";
}

void Compilation::sayWhatWasMade() {
  auto arena = [&](StringRef name) -> int64_t {
    auto attr = module->getOperation()->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  int64_t ranks = settings.job.batch.worldSize;
  if (layers)
    llvm::outs() << layers << " layers, ";
  llvm::outs() << inUnits(parameters, "") << " parameters, ZeRO-"
               << settings.job.zero.stage << " on " << ranks
               << (ranks == 1 ? " device, " : " devices, ");
  auto memory = [](int64_t bytes, int64_t limit) {
    return inUnits(bytes, "B") +
           (limit ? " of " + inUnits(limit, "B") : std::string());
  };
  llvm::outs() << memory(arena(sched::kDeviceArena), options.deviceMemory)
               << (ranks == 1 ? ", host " : " each, host ")
               << memory(arena(sched::kHostArena) * ranks +
                             besideArenas(*module, options),
                         options.hostMemory);
  if (int64_t files = arena(sched::kNvmeArena))
    llvm::outs() << ", files " << memory(files * ranks, options.nvmeSpace);
  llvm::outs() << "\n";
}

int Compilation::run() {
  last = getPhases().size() - 1;
  if (!options.stopAfter.empty()) {
    auto found = findPhase(options.stopAfter);
    if (!found)
      return fail("--stop-after names no phase: \"" + options.stopAfter +
                      "\"; the phases are " + listPhases(),
                  2);
    last = *found;
  }
  if (!options.startFrom.empty()) {
    auto found = findPhase(options.startFrom);
    if (!found || *found == 0)
      return fail("--start-from names no phase that takes IR: \"" +
                      options.startFrom + "\"; the phases are " + listPhases(),
                  2);
    first = *found;
  }
  if (!options.startFrom.empty() && first > last)
    return fail("--start-from " + options.startFrom + " comes after " +
                    "--stop-after " + options.stopAfter +
                    ": there is no phase to run",
                2);
  if (options.target == "cuda") {
    std::string message;
    if (sched::parseArchitectures(architecturesOf(options), message).empty())
      return fail("--arch " + options.architectures + ": " + message, 2);
  } else if (!options.architectures.empty()) {
    return fail("--arch " + options.architectures +
                    " is of no effect without --target cuda",
                2);
  }
  if (options.output.empty() && last == getPhases().size() - 1)
    return fail("give the bundle's folder with -o", 2);
  if (options.fit) {
    if (!options.deviceMemory && !options.hostMemory && !options.sharedMemory)
      return fail("--fit needs to know what there is: give --machine, "
                  "--device-memory or --host-memory",
                  2);
    if (int code = fit::chooseWhatFits(options, decisions))
      return code;
  }

  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  // A message on the module must not print the module.
  context.printOpOnDiagnostic(false);
  context.getDiagEngine().registerHandler(printDiagnostic);
  if (!options.remarks.empty()) {
    remark::RemarkCategories categories{std::nullopt, options.remarks,
                                        options.remarks, options.remarks,
                                        options.remarks};
    (void)remark::enableOptimizationRemarks(
        context, nullptr, std::make_unique<remark::RemarkEmittingPolicyAll>(),
        categories,
        /*printAsEmitRemarks=*/true);
  }

  if (int code = readModel())
    return code;
  if (!options.quiet)
    for (const std::string &flag : flagsWithoutEffect(options, settings.job))
      llvm::errs() << "ciuicc: note: " << flag << "\n";
  remarkDecisions();
  if (int code = runPhases())
    return code;
  if (last != getPhases().size() - 1)
    return 0;
  if (int code = emit())
    return code;
  if (!options.quiet)
    sayWhatWasMade();
  return 0;
}

std::string tool::phaseNames() { return listPhases(); }

int tool::runCompile(const CompileOptions &options) {
  return Compilation(options).run();
}
