//===- Timeline.h - When each task runs -------------------------*- C++ -*-===//
//
// Plays a program as its streams and events order it, each task taking what
// the rates say. Streams do not slow each other down here: the memory that
// they share is not divided among them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_ANALYSIS_TIMELINE_H
#define CIUIC_PASSES_ANALYSIS_TIMELINE_H

#include "dialect/Sched/Rates.h"
#include "dialect/Sched/Sched.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <vector>

namespace ciuic::sched {

/// Microseconds from the program's start.
struct Timeline {
  std::vector<double> start, end; ///< Of each task, in program order.
  /// The sum of what the tasks of each Stream take.
  std::array<double, getMaxEnumValForStream() + 1> busy{};
  double total = 0; ///< The end of the last task.

  /// What the busiest stream leaves of the whole: the time that is lost to
  /// waiting. 0 if one stream is never idle.
  double idle() const;
};

/// What a timeline is made from. `waits` are numbers of earlier tasks.
struct TimedTask {
  unsigned stream = 0;
  double microseconds = 0;
  llvm::ArrayRef<unsigned> waits;
};
Timeline playTasks(llvm::ArrayRef<TimedTask> tasks);

/// The program's tasks with the events that it has.
Timeline playProgram(ProgramOp program, const Rates &rates);

/// Microseconds of a training step of `accumulation` micro-steps: the first,
/// the others, then the update, one after the other.
double stepMicroseconds(mlir::ModuleOp module, int64_t accumulation,
                        const Rates &rates);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_ANALYSIS_TIMELINE_H
