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
  for (auto [place, op] : llvm::enumerate(step.front())) {
    StringRef block = blockOf(&op);
    if (block.empty())
      continue;
    BlockOps &ops = blocks[block];
    if (isBackward(&op))
      ops.backward.push_back(&op);
    else if (isForwardOf(&op, block))
      ops.forward.push_back(&op);
    ops.order[&op] = place;
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

BlockSlice::BlockSlice(StringRef block, BlockOps &ops,
                       llvm::SetVector<Value> needed,
                       llvm::function_ref<bool(Value)> repeats)
    : block(block), ops(ops), needed(std::move(needed)) {
  auto isRepeated = [&](Value value) {
    return isForwardOf(value.getDefiningOp(), block) &&
           !isKeptForOthers(value, block) && repeats(value);
  };
  // What must run: backwards from the needed values to the inputs.
  llvm::DenseSet<Operation *> members;
  auto add = [&](Operation *op) {
    if (members.insert(op).second)
      slice.push_back(op);
  };
  for (Value value : this->needed)
    add(value.getDefiningOp());
  for (size_t i = 0; i < slice.size(); ++i)
    for (Value operand : slice[i]->getOperands())
      if (isRepeated(operand))
        add(operand.getDefiningOp());
  llvm::sort(slice, [&](Operation *a, Operation *b) {
    return ops.order.lookup(a) < ops.order.lookup(b);
  });
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

bool BlockSlice::isOfBackward(Operation *op) const {
  return isBackward(op) && ops.order.contains(op);
}

/// Places in the function are known without asking it: an op that moves makes
/// it count anew.
void BlockSlice::bringBefore(Operation *op, Operation *anchor) {
  unsigned &place = ops.order.find(op)->second;
  if (place <= ops.order.lookup(anchor))
    return;
  place = ops.order.lookup(anchor);
  op->moveBefore(anchor);
}

/// The member that `unpack` views, from the gather of this block's backward
/// rather than from that of its forward.
Value BlockSlice::backwardView(UnpackOp unpack, AllGatherOp forward,
                               Operation *anchor) {
  std::string use = useGroup(block, /*backward=*/true);
  OpBuilder builder(anchor);
  auto make = [&](Operation *op) {
    setUseGroup(op, block, true);
    ops.order[op] = ops.order.lookup(anchor);
  };
  AllGatherOp gather;
  for (Operation *user : forward.getInput().getUsers())
    if (auto other = dyn_cast<AllGatherOp>(user);
        other && other.getUse() == use && isOfBackward(other))
      gather = other;
  if (gather) {
    bringBefore(gather, anchor);
  } else {
    gather = AllGatherOp::create(
        builder, NameLoc::get(builder.getStringAttr(use)), forward.getType(),
        forward.getInput(), forward.getAxis(), use);
    make(gather);
  }
  UnpackOp view;
  for (Operation *user : gather->getUsers())
    if (auto other = dyn_cast<UnpackOp>(user);
        other && other.getAt() == unpack.getAt() &&
        other.getType() == unpack.getType() && isOfBackward(other))
      view = other;
  if (view) {
    bringBefore(view, anchor);
  } else {
    view = UnpackOp::create(builder, unpack.getLoc(), unpack.getType(), gather,
                            unpack.getAtAttr());
    make(view);
  }
  return view;
}

Value BlockSlice::input(Value value, Operation *anchor) {
  if (auto unpack = value.getDefiningOp<UnpackOp>())
    if (auto gather = unpack.getBucket().getDefiningOp<AllGatherOp>();
        gather && gather.getUse() != useGroup(block, true))
      return backwardView(unpack, gather, anchor);
  return value;
}

/// What the region goes ahead of: no gather or view, which may come before it.
Operation *BlockSlice::findAnchor(bool beforeAll) const {
  if (beforeAll)
    return *llvm::find_if_not(ops.backward,
                              llvm::IsaPred<AllGatherOp, UnpackOp>);
  Operation *anchor = nullptr;
  for (Value value : needed)
    for (Operation *user : value.getUsers())
      if (isOfBackward(user) &&
          (!anchor || ops.order.lookup(user) < ops.order.lookup(anchor)))
        anchor = user;
  return anchor;
}

train::RecomputeOp BlockSlice::build(StringRef label, bool beforeAll) {
  Operation *anchor = findAnchor(beforeAll);
  SmallVector<Value> inputs;
  for (Value value : outside)
    inputs.push_back(input(value, anchor));

  OpBuilder builder(anchor);
  auto region = train::RecomputeOp::create(
      builder,
      NameLoc::get(builder.getStringAttr(label), slice.front()->getLoc()),
      TypeRange(ValueRange(needed.getArrayRef())), inputs, label);
  setUseGroup(region, block, true);
  ops.order[region] = ops.order.lookup(anchor);

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

  for (auto [value, again] : llvm::zip(needed, region.getResults()))
    Value(value).replaceUsesWithIf(again, [&](OpOperand &use) {
      return isOfBackward(use.getOwner()) && use.getOwner() != region;
    });
  return region;
}
