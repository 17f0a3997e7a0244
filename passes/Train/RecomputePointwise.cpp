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

/// Whether the first result of `op` takes little to compute: a pass over its
/// operands. A norm's second, its scale of each row, is kept.
bool isCheap(Operation *op) { return isPointwise(op) || isa<RMSNormOp>(op); }

struct RecomputePointwise
    : impl::RecomputePointwisePassBase<RecomputePointwise> {
  using RecomputePointwisePassBase::RecomputePointwisePassBase;

  void runOnOperation() final;

private:
  bool isKept(Value value);
  bool isRecomputed(Operation *op);
  Value recompute(Value value, Operation *before);
  bool joinsPointwise(Operation *op);

  DenseMap<Operation *, bool> decided;
  DenseMap<Operation *, Operation *> clones;
};

/// Whether the backward reads `value` whatever this pass does: some user of it
/// is an op of the backward that was there before.
bool RecomputePointwise::isKept(Value value) {
  return llvm::any_of(value.getUsers(),
                      [](Operation *user) { return isBackward(user); });
}

/// Whether the backward is to compute the first result of `op`, an op of the
/// forward, again: only its own block's backward reads it, and all that it is
/// computed from is at hand there.
bool RecomputePointwise::isRecomputed(Operation *op) {
  if (isBackward(op) || !isCheap(op))
    return false;
  auto [known, isNew] = decided.try_emplace(op, false);
  if (!isNew)
    return known->second;
  Attribute block = op->getDiscardableAttr(kBlockAttr);
  for (Operation *user : op->getResult(0).getUsers())
    if (isBackward(user) && user->getDiscardableAttr(kBlockAttr) != block)
      return false;
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    bool again = source && operand == source->getResult(0) &&
                 source->getDiscardableAttr(kBlockAttr) == block &&
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
  if (!op || value != op->getResult(0) || !isRecomputed(op))
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

/// Whether an op that is not pointwise reads pointwise values that are computed
/// again.
bool RecomputePointwise::joinsPointwise(Operation *op) {
  return !isPointwise(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           Operation *source = operand.getDefiningOp();
           return source && isPointwise(source) && isRecomputed(source);
         });
}

/// Moves the pointwise ops that follow in front of an op: what it reads is then
/// computed beside them, in one pass over what they have in common.
static void movePointwiseBefore(Operation *op) {
  Operation *next = op->getNextNode();
  while (isBackward(next) && (isPointwise(next) || isa<AccumulateOp>(next))) {
    Operation *following = next->getNextNode();
    if (isPointwise(next)) {
      if (llvm::is_contained(op->getUsers(), next))
        return;
      next->moveBefore(op);
    }
    next = following;
  }
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
    if (joinsPointwise(op))
      movePointwiseBefore(op);
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isBackward(&op))
      for (OpOperand &operand : op.getOpOperands())
        operand.set(recompute(operand.get(), &op));

  int64_t bytes = 0;
  for (auto [op, clone] : clones)
    bytes += bytesOf(op->getResult(0).getType());
  remark::passed(found->getLoc(), trainRemark("PointwiseRecomputed"))
      << remark::add("the backward computes {0} cheap values again and keeps "
                     "{1} less",
                     clones.size(), formatBytes(bytes));
}

} // namespace
} // namespace ciuic::train
