//===- RecomputeBlocks.cpp - A block's forward again in its backward ------===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_RECOMPUTEBLOCKSPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
/// The ops of one block, in the order of the function.
struct BlockOps {
  SmallVector<Operation *> forward, backward;
  bool hasLoss = false;
};

class Recompute {
public:
  Recompute(StringRef block, BlockOps &ops) : block(block), ops(ops) {}
  void run();

private:
  void findNeeded();
  void findSlice();
  Value input(Value value);
  Value backwardView(UnpackOp unpack, AllGatherOp forward);
  void build();
  void report(Operation *at);

  StringRef block;
  BlockOps &ops;
  /// Forward values that the backward reads, and the ops that give them.
  llvm::SetVector<Value> needed;
  SmallVector<Operation *> slice;
  /// Values that enter the region, as the forward names them.
  llvm::SetVector<Value> outside;
  /// Of those, what only the region keeps alive into the backward.
  llvm::DenseSet<Value> newlyKept;
};

struct RecomputeBlocks : comm::impl::RecomputeBlocksPassBase<RecomputeBlocks> {
  using RecomputeBlocksPassBase::RecomputeBlocksPassBase;
  void runOnOperation() final;
};
} // namespace

/// The forward's values that the backward of the block reads, but those that
/// live on for other blocks anyway.
void Recompute::findNeeded() {
  for (Operation *op : ops.backward)
    for (Value operand : op->getOperands())
      if (isForwardOf(operand.getDefiningOp(), block) &&
          !isKeptForOthers(operand, block))
        needed.insert(operand);
}

/// What must run to have them: backwards from the needed values to those that
/// come from outside or are kept.
void Recompute::findSlice() {
  llvm::DenseSet<Operation *> members;
  for (Value value : needed)
    members.insert(value.getDefiningOp());
  for (Operation *op : llvm::reverse(ops.forward)) {
    if (!members.contains(op))
      continue;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (isForwardOf(producer, block) && !isKeptForOthers(operand, block))
        members.insert(producer);
    }
  }
  for (Operation *op : ops.forward)
    if (members.contains(op))
      slice.push_back(op);
  for (Operation *op : slice)
    for (Value operand : op->getOperands())
      if (!members.contains(operand.getDefiningOp()) ||
          isKeptForOthers(operand, block))
        outside.insert(operand);
}

/// The member that `unpack` views, from the gather of this block's backward
/// rather than from that of its forward.
Value Recompute::backwardView(UnpackOp unpack, AllGatherOp forward) {
  Operation *first = ops.backward.front();
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

Value Recompute::input(Value value) {
  if (auto unpack = value.getDefiningOp<UnpackOp>())
    if (auto gather = unpack.getBucket().getDefiningOp<AllGatherOp>();
        gather && gather.getUse() != useGroup(block, true))
      return backwardView(unpack, gather);
  return value;
}

void Recompute::build() {
  for (Value value : outside) {
    Operation *op = value.getDefiningOp();
    bool state = !op || isa<train::ReadOp, UnpackOp>(op);
    if (!state && llvm::none_of(value.getUsers(), isBackward))
      newlyKept.insert(value);
  }
  SmallVector<Value> inputs;
  for (Value value : outside)
    inputs.push_back(input(value));

  // After the gathers and views that were moved or made for it.
  Operation *at = ops.backward.front();
  for (Value value : inputs)
    if (Operation *op = value.getDefiningOp();
        op && op->getBlock() == at->getBlock() && !op->isBeforeInBlock(at))
      at = op->getNextNode();
  OpBuilder builder(at);
  auto region = train::RecomputeOp::create(
      builder,
      NameLoc::get(builder.getStringAttr(block), slice.front()->getLoc()),
      TypeRange(ValueRange(needed.getArrayRef())), inputs, block);
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
  report(region);
}

void Recompute::report(Operation *at) {
  int64_t freed = 0, kept = 0, flops = 0;
  for (Value value : needed)
    freed += train::bytesOf(value.getType());
  for (Value value : newlyKept)
    kept += train::bytesOf(value.getType());
  for (Operation *op : slice)
    if (auto cost = dyn_cast<train::CostOpInterface>(op))
      flops += cost.getFlops();
  remark::passed(at->getLoc(),
                 remark::RemarkOpts::name("Recomputed").category("comm"))
      << remark::add("{0} keeps {1} bytes fewer until its backward, which "
                     "repeats {2} ops of {3} flops",
                     block, freed - kept, slice.size(), flops);
}

void Recompute::run() {
  if (ops.backward.empty() || ops.hasLoss)
    return;
  findNeeded();
  if (needed.empty())
    return;
  findSlice();
  build();
}

void RecomputeBlocks::runOnOperation() {
  if (policy != "none" && policy != "block") {
    getOperation().emitError() << "option policy is \"" << policy.getValue()
                               << "\", expected none or block";
    return signalPassFailure();
  }
  auto function = getOperation().lookupSymbol<func::FuncOp>(train::kMicroStep);
  if (policy == "none" || !function || function.isDeclaration())
    return;
  llvm::MapVector<StringRef, BlockOps> blocks;
  for (Operation &op : function.front()) {
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
  for (auto &[block, ops] : blocks) {
    if (llvm::any_of(ops.backward, llvm::IsaPred<train::RecomputeOp>)) {
      function.emitError() << "block \"" << block
                           << "\" is computed again already";
      return signalPassFailure();
    }
    if (ops.hasLoss)
      remark::missed(function.getLoc(),
                     remark::RemarkOpts::name("NotRecomputed").category("comm"))
          << remark::reason("{0} holds the loss: its backward follows at once",
                            block);
    Recompute(block, ops).run();
  }
}
