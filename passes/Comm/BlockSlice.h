//===- BlockSlice.h - Parts of a block's forward, again ---------*- C++ -*-===//
//
// What recomputation of whole blocks and of single ops have in common: which
// ops give a set of values, what those save and cost, and the region that
// computes them again.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_COMM_BLOCKSLICE_H
#define CIUIC_PASSES_COMM_BLOCKSLICE_H

#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace ciuic::comm {

/// The ops of one block of @micro_step, in its order.
struct BlockOps {
  /// What the backward could compute again, as isForwardOf() says.
  llvm::SmallVector<mlir::Operation *> forward;
  llvm::SmallVector<mlir::Operation *> backward;
  /// Where each of them stands. What is moved or made ahead of an op of the
  /// backward has the place of that op.
  llvm::DenseMap<mlir::Operation *, unsigned> order;
  bool hasLoss = false;

  /// Whether the whole of it has been computed again by an earlier pass.
  bool isRepeated(llvm::StringRef block) const;
};

/// By name, in the order in which the blocks begin.
llvm::MapVector<llvm::StringRef, BlockOps> blocksOf(mlir::func::FuncOp step);

/// The forward's values that the backward of the block reads and nobody else
/// keeps.
llvm::SetVector<mlir::Value> keptForBackward(llvm::StringRef block,
                                             const BlockOps &ops);

/// The ops of a block that give some values of its forward.
class BlockSlice {
public:
  /// `repeats(value)` says of an operand of an op of the slice, a value of the
  /// block's forward, whether the slice computes it too; else it is an input.
  BlockSlice(llvm::StringRef block, BlockOps &ops,
             llvm::SetVector<mlir::Value> needed,
             llvm::function_ref<bool(mlir::Value)> repeats);

  llvm::ArrayRef<mlir::Operation *> getOps() const { return slice; }
  /// Bytes of the values that need not be kept.
  int64_t getFreed() const { return freed; }
  /// Bytes of inputs that nothing else keeps until the backward.
  int64_t getNewlyKept() const { return newlyKept; }
  int64_t getSaved() const { return freed - newlyKept; }
  int64_t getFlops() const { return flops; }

  /// Computes the values again in a fenced region ahead of the first op of the
  /// backward that reads them, or of all of it, and lets the backward read
  /// those. Parameters come from the gather of the backward.
  train::RecomputeOp build(llvm::StringRef label, bool beforeAll);

private:
  mlir::Operation *findAnchor(bool beforeAll) const;
  mlir::Value input(mlir::Value value, mlir::Operation *anchor);
  mlir::Value backwardView(UnpackOp unpack, AllGatherOp forward,
                           mlir::Operation *anchor);
  bool isOfBackward(mlir::Operation *op) const;
  void bringBefore(mlir::Operation *op, mlir::Operation *anchor);

  llvm::StringRef block;
  BlockOps &ops;
  llvm::SetVector<mlir::Value> needed;
  llvm::SmallVector<mlir::Operation *> slice;
  /// Values that enter the region, as the forward names them.
  llvm::SetVector<mlir::Value> outside;
  int64_t freed = 0, newlyKept = 0, flops = 0;
};

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_BLOCKSLICE_H
