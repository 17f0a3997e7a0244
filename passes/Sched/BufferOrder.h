//===- BufferOrder.h - Which buffers are never live together ----*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_BUFFERORDER_H
#define CIUIC_PASSES_SCHED_BUFFERORDER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {

/// For each buffer of a program: the last task of each stream that touches
/// it, and what is certainly done before any task that touches it starts.
class BufferOrder {
public:
  explicit BufferOrder(mlir::ModuleOp module);

  /// Whether all tasks that touch the one come before all that touch the
  /// other. Buffers of different programs always are; a buffer that no task
  /// touches is, too.
  bool areOrdered(BufferOp a, BufferOp b) const;

private:
  struct Life {
    mlir::StringAttr program;
    Clock last;  ///< Position + 1 of the last touching task, by stream.
    Clock start; ///< Least clock of all touching tasks.
  };
  static bool isBefore(const Life &a, const Life &b);

  llvm::DenseMap<mlir::StringAttr, Life> lives;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_BUFFERORDER_H
