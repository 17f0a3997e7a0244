//===- UseGroups.h - Which uses one gather serves ---------------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_USEGROUPS_H
#define CIUIC_PASSES_COMM_USEGROUPS_H

#include "dialect/Comm/Comm.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace ciuic::comm {

/// The block that `op` says it belongs to; empty if it says nothing.
inline llvm::StringRef blockOf(mlir::Operation *op) {
  auto block = op->getAttrOfType<mlir::StringAttr>(train::kBlockAttr);
  return block ? block.getValue() : llvm::StringRef();
}

inline bool isBackward(mlir::Operation *op) {
  return op->hasAttr(train::kBackwardAttr);
}

/// "layers.3.fwd" or "layers.3.bwd".
inline std::string useGroup(llvm::StringRef block, bool backward) {
  return (block + (backward ? ".bwd" : ".fwd")).str();
}

/// Makes `op` a part of (block, direction), as the ops around it are.
inline void setUseGroup(mlir::Operation *op, llvm::StringRef block,
                        bool backward) {
  mlir::MLIRContext *context = op->getContext();
  op->setAttr(train::kBlockAttr, mlir::StringAttr::get(context, block));
  if (backward)
    op->setAttr(train::kBackwardAttr, mlir::UnitAttr::get(context));
}

/// Whether `op` computes a value of the forward of `block`: something that its
/// backward could compute again. Reads of states and views of buckets are not.
inline bool isForwardOf(mlir::Operation *op, llvm::StringRef block) {
  return op && !isBackward(op) && blockOf(op) == block &&
         !mlir::isa<train::ReadOp>(op) &&
         !mlir::isa<CommDialect>(op->getDialect()) && mlir::isPure(op);
}

/// Whether other blocks use `value` of `block`, which therefore lives on
/// whatever the block's own backward does.
inline bool isKeptForOthers(mlir::Value value, llvm::StringRef block) {
  return llvm::any_of(value.getUsers(), [&](mlir::Operation *user) {
    return blockOf(user) != block;
  });
}

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_USEGROUPS_H
