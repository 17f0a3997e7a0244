//===- PrecisionRewriter.cpp - One function in 16-bit types ---------------===//
#include "passes/Train/PrecisionRewriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ciuic::train {

static bool isFloatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Where an op belongs: its block of the model and the side of the loss.
static std::pair<const void *, bool> groupOf(Operation *op) {
  Attribute block = op->getDiscardableAttr(kBlockAttr);
  return {block.getAsOpaquePointer(), op->hasAttr(kBackwardAttr)};
}

/// A cast belongs where the op does that it is made for.
static void copyGroup(Operation *from, Operation *to) {
  for (StringRef name : {kBlockAttr, kBackwardAttr})
    if (Attribute attr = from->getDiscardableAttr(name))
      to->setDiscardableAttr(name, attr);
}

bool PrecisionRewriter::isCompute(Value value) const {
  return getElementTypeOrSelf(value.getType()) == compute;
}

LogicalResult PrecisionRewriter::rewrite() {
  // Casts are added on the way: visit only what is there now.
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(rewrite(*op)))
      return failure();
  return success();
}

LogicalResult PrecisionRewriter::rewrite(Operation &op) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto state = symbols.lookup<StateOp>(read.getState());
    read.getResult().setType(cast<RankedTensorType>(state.getType()));
    return success();
  }
  if (auto sum = dyn_cast<AccumulateOp>(op)) {
    // Gradients travel in the compute type and are added in f32.
    auto state = symbols.lookup<StateOp>(sum.getState());
    cast(op, 0,
         state.getRole() == Role::Gradient ? Type(compute)
                                           : builder.getF32Type());
    return success();
  }
  if (isPointwise(&op)) {
    rewritePointwise(op);
    return success();
  }
  if (auto signature = dyn_cast<SignatureOpInterface>(op)) {
    for (OpOperand &operand : op.getOpOperands())
      if (isFloatTensor(operand.get()))
        cast(op, operand.getOperandNumber(),
             signature.isComputeOperand(operand.getOperandNumber())
                 ? Type(compute)
                 : builder.getF32Type());
    for (OpResult result : op.getResults())
      if (isFloatTensor(result) &&
          signature.isComputeResult(result.getResultNumber()))
        result.setType(cast<RankedTensorType>(result.getType()).clone(compute));
    return success();
  }
  // Constants stay f32: they are exact there, and free.
  if (isa<arith::ConstantOp>(op))
    return success();
  if (llvm::any_of(op.getOperands(), isFloatTensor) ||
      llvm::any_of(op.getResults(), isFloatTensor))
    return op.emitError() << describe(&op)
                          << " does not say which of its types are 16-bit";
  return success();
}

/// Computes in f32. The result is rounded unless all that went into it was f32
/// by nature: the loss, statistics of rows, tables, constants.
void PrecisionRewriter::rewritePointwise(Operation &op) {
  bool rounds = llvm::any_of(op.getOperands(),
                             [&](Value value) { return isCompute(value); });
  for (OpOperand &operand : op.getOpOperands())
    if (isFloatTensor(operand.get()))
      cast(op, operand.getOperandNumber(), builder.getF32Type());
  Value result = op.getResult(0);
  if (!rounds || !isFloatTensor(result))
    return;
  builder.setInsertionPointAfter(&op);
  auto rounded = arith::TruncFOp::create(
      builder, op.getLoc(),
      cast<RankedTensorType>(result.getType()).clone(compute), result);
  copyGroup(&op, rounded);
  result.replaceAllUsesExcept(rounded, rounded);
}

void PrecisionRewriter::cast(Operation &op, unsigned index, Type element) {
  Value value = op.getOperand(index);
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return;
  auto [block, backward] = groupOf(&op);
  Value &made = casts[{value.getAsOpaquePointer(), block, backward}];
  if (!made) {
    builder.setInsertionPoint(&op);
    Operation *created =
        element == compute ? arith::TruncFOp::create(builder, op.getLoc(),
                                                     type.clone(element), value)
                                 .getOperation()
                           : arith::ExtFOp::create(builder, op.getLoc(),
                                                   type.clone(element), value)
                                 .getOperation();
    copyGroup(&op, created);
    made = created->getResult(0);
  }
  op.setOperand(index, made);
}

int64_t PrecisionRewriter::dropRoundTrips() {
  int64_t dropped = 0;
  for (auto rounding : llvm::make_early_inc_range(
           function.getBody().front().getOps<arith::TruncFOp>())) {
    bool seen = llvm::any_of(rounding->getUsers(), [&](Operation *user) {
      return !isa<arith::ExtFOp>(user) || groupOf(user) != groupOf(rounding);
    });
    if (seen)
      continue;
    for (Operation *user : llvm::make_early_inc_range(rounding->getUsers())) {
      user->getResult(0).replaceAllUsesWith(rounding.getIn());
      user->erase();
      ++dropped;
    }
    rounding.erase();
  }
  return dropped;
}

} // namespace ciuic::train
