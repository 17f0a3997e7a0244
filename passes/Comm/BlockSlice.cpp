//===- BlockSlice.cpp - Parts of a block's forward, again -----------------===//
#include "passes/Comm/BlockSlice.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Comm/UseGroups.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

bool BlockOps::isRepeated(StringRef block) const {
  return llvm::any_of(backward, [&](Operation *op) {
    auto region = dyn_cast<train::RecomputeOp>(op);
    return region && region.getLabel() == block;
  });
}

llvm::MapVector<StringRef, BlockOps> comm::blocksOf(func::FuncOp step) {
  llvm::MapVector<StringRef, BlockOps> blocks;
  for (Operation &op : step.front()) {
    StringRef block = blockOf(&op);
    if (block.empty())
      continue;
    BlockOps &ops = blocks[block];
    if (isBackward(&op))
      ops.backward.push_back(&op);
    else if (isForwardOf(&op, block))
      ops.forward.push_back(&op);
    ops.hasLoss |= isa<train::CrossEntropyOp>(op);
  }
  return blocks;
}

llvm::SetVector<Value> comm::keptForBackward(StringRef block,
                                             const BlockOps &ops) {
  llvm::SetVector<Value> kept;
  for (Operation *op : ops.backward)
    for (Value operand : op->getOperands())
      if (isForwardOf(operand.getDefiningOp(), block) &&
          !isKeptForOthers(operand, block))
        kept.insert(operand);
  return kept;
}

/// As the op says; a pointwise op of another dialect takes one an element.
static int64_t flopsOf(Operation *op) {
  if (auto cost = dyn_cast<train::CostOpInterface>(op))
    return cost.getFlops();
  auto type = op->getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                  : RankedTensorType();
  return type && op->hasTrait<OpTrait::Elementwise>() ? type.getNumElements()
                                                      : 0;
}

BlockSlice::BlockSlice(StringRef block, const BlockOps &ops,
                       llvm::SetVector<Value> needed,
                       llvm::function_ref<bool(Value)> repeats)
    : block(block), ops(ops), needed(std::move(needed)) {
  auto isRepeated = [&](Value value) {
    return isForwardOf(value.getDefiningOp(), block) &&
           !isKeptForOthers(value, block) && repeats(value);
  };
  // What must run: backwards from the needed values to the inputs.
  llvm::DenseSet<Operation *> members;
  for (Value value : this->needed)
    members.insert(value.getDefiningOp());
  for (Operation *op : llvm::reverse(ops.forward)) {
    if (!members.contains(op))
      continue;
    for (Value operand : op->getOperands())
      if (isRepeated(operand))
        members.insert(operand.getDefiningOp());
  }
  for (Operation *op : ops.forward)
    if (members.contains(op))
      slice.push_back(op);
  for (Operation *op : slice)
    for (Value operand : op->getOperands())
      if (!members.contains(operand.getDefiningOp()) ||
          isKeptForOthers(operand, block))
        outside.insert(operand);

  for (Value value : this->needed)
    freed += train::bytesOf(value.getType());
  for (Value value : outside) {
    Operation *op = value.getDefiningOp();
    bool lasts = !op || op->hasTrait<OpTrait::ConstantLike>() ||
                 isa<train::ReadOp, UnpackOp>(op);
    if (!lasts && llvm::none_of(value.getUsers(), isBackward))
      newlyKept += train::bytesOf(value.getType());
  }
  for (Operation *op : slice)
    flops += flopsOf(op);
}

/// The member that `unpack` views, from the gather of this block's backward
/// rather than from that of its forward.
Value BlockSlice::backwardView(UnpackOp unpack, AllGatherOp forward,
                               Operation *first) {
  std::string use = useGroup(block, /*backward=*/true);
  AllGatherOp gather;
  for (Operation *user : forward.getInput().getUsers())
    if (auto other = dyn_cast<AllGatherOp>(user);
        other && other.getUse() == use)
      gather = other;
  OpBuilder builder(first);
  if (gather) {
    if (first != gather && first->isBeforeInBlock(gather))
      gather->moveBefore(first);
    else if (first == gather)
      builder.setInsertionPointAfter(gather);
  } else {
    gather = AllGatherOp::create(
        builder, NameLoc::get(builder.getStringAttr(use)), forward.getType(),
        forward.getInput(), forward.getAxis(), use);
    setUseGroup(gather, block, true);
  }
  UnpackOp view;
  for (Operation *user : gather->getUsers())
    if (auto other = dyn_cast<UnpackOp>(user);
        other && other.getAt() == unpack.getAt() &&
        other.getType() == unpack.getType())
      view = other;
  if (!view) {
    builder.setInsertionPointAfter(gather);
    view = UnpackOp::create(builder, unpack.getLoc(), unpack.getType(), gather,
                            unpack.getAtAttr());
    setUseGroup(view, block, true);
  } else {
    view->moveAfter(gather);
  }
  return view;
}

Value BlockSlice::input(Value value, Operation *first) {
  if (auto unpack = value.getDefiningOp<UnpackOp>())
    if (auto gather = unpack.getBucket().getDefiningOp<AllGatherOp>();
        gather && gather.getUse() != useGroup(block, true))
      return backwardView(unpack, gather, first);
  return value;
}

train::RecomputeOp BlockSlice::build(StringRef label, Operation *first) {
  SmallVector<Value> inputs;
  for (Value value : outside)
    inputs.push_back(input(value, first));

  // After the gathers and views that were moved or made for it.
  Operation *at = first;
  for (Value value : inputs)
    if (Operation *op = value.getDefiningOp();
        op && op->getBlock() == at->getBlock() && !op->isBeforeInBlock(at))
      at = op->getNextNode();
  OpBuilder builder(at);
  auto region = train::RecomputeOp::create(
      builder,
      NameLoc::get(builder.getStringAttr(label), slice.front()->getLoc()),
      TypeRange(ValueRange(needed.getArrayRef())), inputs, label);
  setUseGroup(region, block, true);

  Block *body = builder.createBlock(&region.getBody());
  IRMapping mapping;
  for (Value value : outside)
    mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
  for (Operation *op : slice)
    builder.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value value : needed)
    yielded.push_back(mapping.lookup(value));
  train::YieldOp::create(builder, region.getLoc(), yielded);

  llvm::SmallPtrSet<Operation *, 32> readers(ops.backward.begin(),
                                             ops.backward.end());
  for (auto [value, again] : llvm::zip(needed, region.getResults()))
    Value(value).replaceUsesWithIf(again, [&](OpOperand &use) {
      return readers.contains(use.getOwner());
    });
  return region;
}
