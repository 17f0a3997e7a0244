//===- InspectCommand.cpp - ciuicc inspect --------------------------------===//
#include "passes/Pipelines/Phases.h"
#include "tools/ciuicc/Commands.h"
#include "tools/ciuicc/plan/PlanText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace ciuic;
using namespace ciuic::tool;

static int fail(const Twine &message) {
  errs() << "ciuicc: error: " << message << "\n";
  return 1;
}

/// The text of a file of the bundle; says what is wrong if there is none.
static std::unique_ptr<MemoryBuffer> readFile(const std::string &path) {
  auto file = MemoryBuffer::getFile(path);
  if (file)
    return std::move(*file);
  fail("cannot read " + path + ": " + file.getError().message());
  return nullptr;
}

static int print(const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return 1;
  outs() << file->getBuffer();
  return 0;
}

/// A line a task; with `onlyComm` those that cross ranks or memories.
static int inspectSchedule(const std::string &bundle, bool onlyComm) {
  auto plan = readPlan(bundle);
  if (!plan.ok())
    return report(plan.takeStatus());
  for (const PlanProgram &program : plan->programs) {
    outs() << program.name << ": " << program.tasks.size() << " tasks\n";
    for (const auto &[number, task] : enumerate(program.tasks)) {
      if (onlyComm && (task.stream == "compute" || task.stream == "host"))
        continue;
      std::string waits;
      for (uint32_t wait : task.waits)
        waits += (waits.empty() ? "  after " : ", ") + std::to_string(wait);
      outs() << formatv("  {0,5} {1,-8} {2,-18} {3,12} bytes  {4}{5}\n", number,
                        task.stream, task.kind, task.bytes, task.name, waits);
    }
  }
  return 0;
}

/// What holds memory, all over or at one task, as a table or as CSV.
static int inspectMemory(const InspectOptions &options) {
  auto plan = readPlan(options.bundle);
  if (!plan.ok())
    return report(plan.takeStatus());
  std::optional<PlanPlace> place;
  if (!options.at.empty()) {
    auto found = findPlace(*plan, options.at);
    if (!found.ok())
      return report(found.takeStatus());
    place = *found;
  }
  if (options.csv)
    outs() << memoryCsv(*plan, place);
  else if (place)
    outs() << memoryTableAt(*plan, *place);
  else
    outs() << memoryTable(*plan);
  return 0;
}

static int inspectParameter(const std::string &bundle,
                            const std::string &name) {
  auto plan = readPlan(bundle);
  if (!plan.ok())
    return report(plan.takeStatus());
  auto life = parameterLife(*plan, name);
  if (!life.ok())
    return report(life.takeStatus());
  outs() << *life;
  return 0;
}

/// The sources of kernels: CUDA's, if the bundle is for it, then those that the
/// CPU runs.
static int inspectKernels(const std::string &bundle) {
  std::string host = bundle + "/src/kernels.cpp";
  bool any = false;
  for (StringRef name : {"kernels.cu", "library.cu", "attention.cu"}) {
    std::string path = bundle + "/src/" + name.str();
    if (!sys::fs::exists(path))
      continue;
    any = true;
    if (int code = print(path))
      return code;
    outs() << "\n";
  }
  return any && !sys::fs::exists(host) ? 0 : print(host);
}

int tool::runInspect(const InspectOptions &options) {
  const auto &[bundle, what, name, at, csv] = options;
  if (!sys::fs::exists(bundle + "/manifest.json"))
    return fail(bundle + " is no bundle: it has no manifest.json");
  if ((!at.empty() || csv) && what != "memory") {
    errs() << "ciuicc: error: --at and --csv go with inspect BUNDLE memory\n";
    return 2;
  }
  if (what.empty())
    return print(bundle + "/manifest.json");
  if (what == "config")
    return print(bundle + "/plan/config.txt");
  if (what == "memory")
    return inspectMemory(options);
  if (what == "schedule" || what == "comm")
    return inspectSchedule(bundle, what == "comm");
  if (what == "kernels")
    return inspectKernels(bundle);
  if ((what == "phase" || what == "param") && name.empty()) {
    errs() << "ciuicc: error: inspect BUNDLE " << what << " takes a name"
           << (what == "phase" ? ": " + listPhases() : std::string()) << "\n";
    return 2;
  }
  if (what == "phase") {
    auto phase = findPhase(name);
    if (!phase)
      return fail("no phase \"" + Twine(name) + "\"; the phases are " +
                  listPhases());
    return print(bundle + "/ir/" + dumpName(*phase));
  }
  if (what == "param")
    return inspectParameter(bundle, name);
  errs() << "ciuicc: error: cannot inspect \"" << what
         << "\"; expected config, memory, schedule, comm, kernels, phase NAME "
            "or param NAME\n";
  return 2;
}
