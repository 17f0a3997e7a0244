//===- Shard.h - The steps of ciuic-comm-shard-states -----------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_SHARD_H
#define CIUIC_PASSES_COMM_SHARD_H

#include "mlir/IR/Builders.h"
#include "passes/Comm/BucketPlan.h"

namespace ciuic::comm {

struct ShardContext {
  LogicalParameters &parameters;
  const BucketPlan &plan;
  AxisAttr axis;
  int64_t stage = 0;
  /// In which gradients travel; null: as the stage's row says.
  mlir::Type communicationType;
  mlir::SymbolTable &symbols;

  /// The bucket and member of a parameter; null if `name` is none.
  const Bucket *bucketOf(llvm::StringRef name) const {
    auto it = plan.placeOf.find(name);
    return it == plan.placeOf.end() ? nullptr : &plan.buckets[it->second.first];
  }
};

/// The state that `read` reads, if it has `role`.
train::StateOp readState(mlir::Value value, train::Role role,
                         mlir::SymbolTable &symbols);

/// `value` in another float type, itself if it has that type already.
mlir::Value convertFloat(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value value, mlir::Type element);

/// A location that carries `name` into dumps and error messages.
mlir::Location named(mlir::Operation *near, llvm::StringRef name);

/// Rewrites the parameters and gradients of a function other than
/// @apply_step. Fails after emitting an error.
mlir::LogicalResult shardMicroStep(mlir::func::FuncOp function,
                                   const ShardContext &context);

/// Rewrites @apply_step. Fails after emitting an error.
mlir::LogicalResult shardApplyStep(mlir::func::FuncOp function,
                                   const ShardContext &context);

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_SHARD_H
