//===- Activity.h - Which values carry a gradient ---------------*- C++ -*-===//
#ifndef CIUIC_PASSES_TRAIN_ACTIVITY_H
#define CIUIC_PASSES_TRAIN_ACTIVITY_H

#include "dialect/Train/Train.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace ciuic::train {

/// Finds the values on a path from a trainable parameter to the loss. Only
/// they carry a gradient: a float that depends on no parameter needs none, and
/// one that the loss does not depend on has none.
class Activity {
public:
  /// `trainable` are the values of the parameters, read in `block`.
  Activity(mlir::Block &block, llvm::ArrayRef<ReadOp> trainable,
           mlir::Value loss);

  /// Whether `value` carries a gradient.
  bool carries(mlir::Value value) const {
    return varied.contains(value) && useful.contains(value);
  }

  /// Whether `op` needs a backward: a gradient arrives and one must leave.
  bool carries(mlir::Operation *op) const;

  /// One parameter that reaches `value`, which carries a gradient.
  ReadOp parameterBehind(mlir::Value value) const;

private:
  llvm::DenseSet<mlir::Value> varied; // depend on a parameter
  llvm::DenseSet<mlir::Value> useful; // the loss depends on them
};

} // namespace ciuic::train

#endif // CIUIC_PASSES_TRAIN_ACTIVITY_H
