//===- RecomputePointwise.cpp - Cheap values, twice instead of kept -------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/ADT/DenseMap.h"

namespace ciuic::train {
#define GEN_PASS_DEF_RECOMPUTEPOINTWISEPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

bool isBackward(Operation *op) { return op->hasAttr(kBackwardAttr); }

struct RecomputePointwise
    : impl::RecomputePointwisePassBase<RecomputePointwise> {
  using RecomputePointwisePassBase::RecomputePointwisePassBase;

  void runOnOperation() final;

private:
  bool isKept(Value value);
  bool isRecomputed(Operation *op);
  Value recompute(Value value, Operation *before);

  DenseMap<Operation *, bool> decided;
  DenseMap<Operation *, Operation *> clones;
};

/// Whether the backward reads `value` whatever this pass does: some user of it
/// is an op of the backward that was there before.
bool RecomputePointwise::isKept(Value value) {
  return llvm::any_of(value.getUsers(),
                      [](Operation *user) { return isBackward(user); });
}

/// Whether the backward is to compute the result of `op`, an op of the forward,
/// again: only pointwise ops of its own block's backward read it, and all that
/// it is computed from is at hand there.
bool RecomputePointwise::isRecomputed(Operation *op) {
  if (isBackward(op) || !isPointwise(op))
    return false;
  auto [known, isNew] = decided.try_emplace(op, false);
  if (!isNew)
    return known->second;
  Attribute block = op->getDiscardableAttr(kBlockAttr);
  for (Operation *user : op->getUsers())
    if (isBackward(user) &&
        (!isPointwise(user) || user->getDiscardableAttr(kBlockAttr) != block))
      return false;
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    bool again = source && source->getDiscardableAttr(kBlockAttr) == block &&
                 isRecomputed(source);
    bool atHand = isa_and_nonnull<arith::ConstantOp>(source) || isKept(operand);
    if (!again && !atHand)
      return false;
  }
  // The recursion may have moved the map's entry.
  return decided[op] = true;
}

/// The value of the forward as the backward computes it, before `before`.
Value RecomputePointwise::recompute(Value value, Operation *before) {
  Operation *op = value.getDefiningOp();
  if (!op || !isRecomputed(op))
    return value;
  if (Operation *clone = clones.lookup(op))
    return clone->getResult(0);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(recompute(operand, before));
  Operation *clone = op->clone();
  clone->setOperands(operands);
  clone->setDiscardableAttr(kBackwardAttr, UnitAttr::get(op->getContext()));
  before->getBlock()->getOperations().insert(before->getIterator(), clone);
  clones[op] = clone;
  return clone->getResult(0);
}

void RecomputePointwise::runOnOperation() {
  FailureOr<func::FuncOp> found =
      lookupFunction(getOperation(), kMicroStep, "a differentiated module");
  if (failed(found))
    return signalPassFailure();
  Block &block = found->getBody().front();

  // Decide before anything changes: the decisions look at the users.
  SmallVector<Operation *> backward;
  for (Operation &op : block) {
    isRecomputed(&op);
    if (isBackward(&op))
      backward.push_back(&op);
  }
  for (Operation *op : backward)
    for (OpOperand &operand : op->getOpOperands())
      operand.set(recompute(operand.get(), op));

  int64_t bytes = 0;
  for (auto [op, clone] : clones)
    bytes += bytesOf(op->getResult(0).getType());
  remark::passed(found->getLoc(), trainRemark("PointwiseRecomputed"))
      << remark::add("the backward computes {0} pointwise values again and "
                     "keeps {1} less",
                     clones.size(), formatBytes(bytes));
}

} // namespace
} // namespace ciuic::train
