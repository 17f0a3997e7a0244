//===- PrecisionRewriter.h - One function in 16-bit types -------*- C++ -*-===//
#ifndef CIUIC_PASSES_TRAIN_PRECISIONREWRITER_H
#define CIUIC_PASSES_TRAIN_PRECISIONREWRITER_H

#include "passes/Train/Support.h"
#include <map>
#include <tuple>

namespace ciuic::train {

/// Rewrites a micro-step or evaluation step from f32 to a 16-bit compute type.
/// The states have their new types already.
class PrecisionRewriter {
public:
  PrecisionRewriter(mlir::func::FuncOp function, mlir::FloatType compute)
      : function(function), compute(compute), builder(function.getContext()),
        symbols(function->getParentOfType<mlir::ModuleOp>()) {}

  /// Retypes every op and puts casts where the types of a value and of its
  /// use differ. Emits at the first op that declares no types.
  mlir::LogicalResult rewrite();

  /// Drops the round trips f32 -> 16-bit -> f32 that no one else sees and
  /// that stay inside one block's forward or backward. Returns how many.
  int64_t dropRoundTrips();

private:
  mlir::LogicalResult rewrite(mlir::Operation &op);
  void rewritePointwise(mlir::Operation &op);

  /// Makes operand `index` of `op` have elements of `element`.
  void cast(mlir::Operation &op, unsigned index, mlir::Type element);
  bool isCompute(mlir::Value value) const;

  mlir::func::FuncOp function;
  mlir::FloatType compute;
  mlir::OpBuilder builder;
  mlir::SymbolTable symbols;

  /// One cast of a value for all its uses in one block's forward or backward:
  /// a cast that served both would keep the wide value alive in between.
  std::map<std::tuple<void *, const void *, bool>, mlir::Value> casts;
};

} // namespace ciuic::train

#endif // CIUIC_PASSES_TRAIN_PRECISIONREWRITER_H
