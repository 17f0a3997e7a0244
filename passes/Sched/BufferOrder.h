//===- BufferOrder.h - When each buffer of a module lives -------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_BUFFERORDER_H
#define CIUIC_PASSES_SCHED_BUFFERORDER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {

/// When each buffer of a module lives.
class BufferOrder {
public:
  explicit BufferOrder(mlir::ModuleOp module);

  /// When a buffer of a program lives; null if it lives all the time, or no
  /// task touches it.
  const Life *find(BufferOp buffer) const;

private:
  llvm::DenseMap<mlir::StringAttr, Life> lives;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_BUFFERORDER_H
