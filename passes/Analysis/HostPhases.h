//===- HostPhases.h - Host memory of a process beside arenas ----*- C++ -*-===//
//
// A run starts, makes steps, saves, resumes and exports. In each of these its
// processes hold memory besides the arenas that are planned: what is read,
// converted and sent on its way, what tasks use while they run, the tasks
// themselves, libraries. All of it is of a size that can be told before.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_ANALYSIS_HOSTPHASES_H
#define CIUIC_PASSES_ANALYSIS_HOSTPHASES_H

#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace ciuic::sched {

/// Memory that a process takes whatever it runs, as who knows it says.
struct ProcessReserve {
  std::string name;
  std::string source;
  int64_t bytes = 0;
  bool ofThread = false; ///< For each of its threads.
};

/// How a job is run.
struct ProcessFacts {
  int64_t processes = 1; ///< On one host; each has some of the ranks.
  int64_t threads = 1;   ///< Of each, for the tasks of the host.
  std::vector<ProcessReserve> reserve;
};

struct HostPart {
  std::string name;
  std::string source; ///< Who says how much it is.
  int64_t bytes = 0;
};

struct HostPhase {
  std::string name; ///< "start", "step", "checkpoint", "resume", "export".
  std::vector<HostPart> parts;
  int64_t bytes() const;
};

/// What the process that has most ranks holds beside its arenas in each part
/// of a run, at most.
std::vector<HostPhase> findHostPhases(mlir::ModuleOp module,
                                      const ProcessFacts &facts);

/// The first of those with most bytes.
const HostPhase &highestPhase(const std::vector<HostPhase> &phases);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_ANALYSIS_HOSTPHASES_H
