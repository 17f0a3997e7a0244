//===- TaskOrder.h - What must happen before what ---------------*- C++ -*-===//
//
// A program's tasks are partially ordered by their streams and events. The
// order is kept as vector clocks: for each task and stream, how many tasks of
// that stream are certainly done when the task starts (Fidge and Mattern,
// 1988). So "a before b" is one comparison.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_SCHED_TASKORDER_H
#define CIUIC_PASSES_SCHED_TASKORDER_H

#include "dialect/Sched/Sched.h"
#include "passes/Sched/Lives.h"
#include "llvm/ADT/MapVector.h"

namespace ciuic::sched {

/// Bytes of a buffer that a task touches, over all ranks.
struct Touch {
  unsigned task;
  int64_t begin, end;
  bool writes;

  bool conflicts(const Touch &other) const {
    return (writes || other.writes) && begin < other.end && other.begin < end;
  }
};

/// The tasks of a program and which buffers they touch.
class TaskOrder {
public:
  /// Reads the program; `withEvents` also reads the events that are there.
  TaskOrder(ProgramOp program, bool withEvents);

  llvm::ArrayRef<TaskOp> tasks() const { return list; }
  unsigned streamOf(unsigned task) const {
    return static_cast<unsigned>(TaskOp(list[task]).getStream());
  }
  /// All touches of each buffer, in program order.
  const llvm::MapVector<mlir::StringAttr, llvm::SmallVector<Touch>> &
  touches() const {
    return byBuffer;
  }

  /// Makes `task` wait for `earlier` unless that is implied; true if added.
  /// Tasks must be given their waits in program order.
  bool addWait(unsigned task, unsigned earlier);
  /// Fixes the clock of `task` once all its waits are added.
  void finish(unsigned task);

  bool isBefore(unsigned a, unsigned b) const {
    return position[a] < clocks[b][streamOf(a)];
  }
  int32_t positionOf(unsigned task) const { return position[task]; }
  const Clock &clockOf(unsigned task) const { return clocks[task]; }

  /// From the first start of a task that touches a buffer until all are done;
  /// the buffer's bytes are left to the caller.
  Life lifeOf(llvm::ArrayRef<Touch> touches) const;

private:
  llvm::SmallVector<TaskOp> list;
  llvm::MapVector<mlir::StringAttr, llvm::SmallVector<Touch>> byBuffer;
  llvm::SmallVector<int32_t> position; ///< In its stream, from 0.
  llvm::SmallVector<Clock> clocks;     ///< When the task starts.
  std::array<int32_t, kStreams> last;  ///< Latest finished task of a stream.
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_TASKORDER_H
