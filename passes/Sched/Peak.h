//===- Peak.h - Where a program holds most bytes ----------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_PEAK_H
#define CIUIC_PASSES_SCHED_PEAK_H

#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {

/// A buffer of a program, from the first task that touches it to the last.
struct Lifetime {
  BufferOp buffer;
  unsigned first, last;
};

/// The lifetimes of the buffers of a program, in program order.
llvm::SmallVector<Lifetime> lifetimesOf(const TaskOrder &order,
                                        const mlir::SymbolTable &symbols);

/// The first task at which most bytes of `arena` are live, by program order.
struct Peak {
  int64_t bytes = 0;
  unsigned task = 0;
  llvm::SmallVector<BufferOp> holders; ///< Largest first.
};
Peak findPeak(llvm::ArrayRef<Lifetime> lifetimes, unsigned tasks, Arena arena);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_PEAK_H
