//===- OffloadActivations.cpp - Kept activations wait on the host ---------===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_OFFLOADACTIVATIONSPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Space;

namespace {
/// What a block keeps of the forward for its backward.
struct Kept {
  llvm::SetVector<Value> values;
  int64_t down = 0; ///< Bytes that it sends to the host, others not before.
};

class Offload {
public:
  Offload(func::FuncOp function, int64_t most, int64_t ahead)
      : function(function), most(most), ahead(ahead) {}
  void run();

private:
  void findKept();
  bool isOffloaded(Value value) const;
  void moveDown(Value value, StringRef block);
  void moveUp(Value value, StringRef block);
  Operation *startOf(StringRef block, Operation *firstUse, Operation *down);

  func::FuncOp function;
  const int64_t most;  ///< Blocks, from the first; -1: all.
  const int64_t ahead; ///< Blocks before its own that a copy up may start.
  /// The first op of each block's backward, in their order.
  llvm::MapVector<StringRef, Operation *> backwards;
  /// By block, in the order of their forwards.
  llvm::MapVector<StringRef, Kept> blocks;
  llvm::StringSet<> chosen;
  /// What is on the host, by the value that the forward computes.
  llvm::DenseMap<Value, TransferOp> onHost;
};

struct OffloadActivations
    : comm::impl::OffloadActivationsPassBase<OffloadActivations> {
  using OffloadActivationsPassBase::OffloadActivationsPassBase;
  void runOnOperation() final;
};
} // namespace

/// Whether `op` works element by element: kernels compute such values where
/// they need them.
static bool isPointwise(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<train::SigmoidOp>(op);
}

/// Whether `value` is an activation of the forward that gets storage.
static bool isStoredForward(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!op || !type || type.getRank() == 0 ||
      !isa<FloatType>(type.getElementType()) || type.getElementType().isF64() ||
      isBackward(op) || !isPure(op) ||
      isa<train::ReadOp, arith::ConstantOp>(op) ||
      isa<CommDialect>(op->getDialect()))
    return false;
  return !isPointwise(op) ||
         llvm::any_of(value.getUsers(),
                      [](Operation *user) { return !isPointwise(user); });
}

void Offload::findKept() {
  llvm::StringSet<> withLoss;
  for (Operation &op : function.front()) {
    StringRef block = blockOf(&op);
    if (block.empty())
      continue;
    if (!isBackward(&op))
      blocks.try_emplace(block);
    if (isa<train::CrossEntropyOp>(op))
      withLoss.insert(block);
    // The seed is a constant, which may stand anywhere.
    if (isBackward(&op) && !isa<arith::ConstantOp>(op))
      backwards.try_emplace(block, &op);
    if (isBackward(&op))
      for (Value operand : op.getOperands())
        if (isStoredForward(operand))
          blocks[block].values.insert(operand);
  }
  blocks.remove_if([&](auto &entry) {
    auto &[block, kept] = entry;
    if (withLoss.contains(block) && !kept.values.empty())
      remark::missed(function.getLoc(), commRemark("ActivationsNotOffloaded"))
          << remark::reason("{0} holds the loss: its backward follows at once",
                            block);
    return withLoss.contains(block) || kept.values.empty();
  });
}

/// Whether all blocks that keep `value` send it to the host.
bool Offload::isOffloaded(Value value) const {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return !isBackward(user) || chosen.contains(blockOf(user));
  });
}

/// Copies `value` down as soon as a task is made that no kernel of `value`
/// joins: between the two, what is fused would fall apart.
void Offload::moveDown(Value value, StringRef block) {
  Operation *at = value.getDefiningOp()->getNextNode();
  while (
      isPointwise(at) ||
      isa<train::RMSNormOp, train::ReadOp, UnpackOp, ChunkOp, TransferOp>(at))
    at = at->getNextNode();
  OpBuilder builder(at);
  auto copy = TransferOp::create(
      builder, value.getLoc(), value, Space::Host,
      builder.getStringAttr(useGroup(block, /*backward=*/false)));
  setUseGroup(copy, block, /*backward=*/false);
  onHost[value] = copy;
}

/// Where the copies up for `block` stand, which is when they may start: where
/// the backward `ahead` blocks before begins.
Operation *Offload::startOf(StringRef block, Operation *firstUse,
                            Operation *down) {
  auto *own = backwards.find(block);
  int64_t place = own - backwards.begin();
  Operation *start =
      ahead == 0
          ? firstUse
          : backwards.begin()[std::max<int64_t>(0, place - ahead)].second;
  bool known = down->isBeforeInBlock(start);
  return known && start->isBeforeInBlock(firstUse) ? start : firstUse;
}

/// Gives the backward of `block` a copy of its own.
void Offload::moveUp(Value value, StringRef block) {
  SmallVector<OpOperand *> uses;
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (!isBackward(user) || blockOf(user) != block)
      continue;
    uses.push_back(&use);
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  OpBuilder builder(startOf(block, first, onHost[value]));
  auto copy = TransferOp::create(
      builder, value.getLoc(), onHost[value], Space::Device,
      builder.getStringAttr(useGroup(block, /*backward=*/true)));
  setUseGroup(copy, block, /*backward=*/true);
  for (OpOperand *use : uses)
    use->set(copy);
}

void Offload::run() {
  findKept();
  int64_t count = 0;
  for (auto &[block, kept] : blocks)
    if (most < 0 || count++ < most)
      chosen.insert(block);
  // Down in the order of the forwards, up in that of the backwards: in which
  // they are needed.
  for (auto &[block, kept] : blocks)
    if (chosen.contains(block))
      for (Value value : kept.values)
        if (!onHost.contains(value) && isOffloaded(value)) {
          moveDown(value, block);
          kept.down += train::bytesOf(value.getType());
        }
  for (auto &[block, start] : backwards)
    if (chosen.contains(block))
      for (Value value : blocks[block].values)
        if (onHost.contains(value))
          moveUp(value, block);
  for (auto &[block, kept] : blocks) {
    if (!chosen.contains(block))
      continue;
    int64_t up = 0, values = 0;
    for (Value value : kept.values)
      if (onHost.contains(value)) {
        up += train::bytesOf(value.getType());
        ++values;
      }
    remark::passed(function.getLoc(), commRemark("ActivationsOffloaded"))
        << remark::add("{0} keeps {1} values on the host until its backward: a "
                       "micro-step copies {2} bytes down and {3} up",
                       block, values, kept.down, up);
  }
}

void OffloadActivations::runOnOperation() {
  if (blocks < -1) {
    getOperation().emitError() << "option blocks is " << blocks.getValue()
                               << ", expected -1 (all) or more";
    return signalPassFailure();
  }
  if (ahead < 0) {
    getOperation().emitError()
        << "option ahead is " << ahead.getValue() << ", expected 0 or more";
    return signalPassFailure();
  }
  auto function = getOperation().lookupSymbol<func::FuncOp>(train::kMicroStep);
  if (blocks == 0 || !function || function.isDeclaration())
    return;
  for (auto copy : function.getOps<TransferOp>())
    if (copy.getSpace() == Space::Host) {
      copy.emitOpError() << "sends an activation to the host already";
      return signalPassFailure();
    }
  Offload(function, blocks, ahead).run();
}
