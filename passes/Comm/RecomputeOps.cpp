//===- RecomputeOps.cpp - A block's cheap ops again in its backward -------===//
#include "mlir/IR/Remarks.h"
#include "passes/Comm/BlockSlice.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_RECOMPUTEOPSPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
struct RecomputeOps : comm::impl::RecomputeOpsPassBase<RecomputeOps> {
  using RecomputeOpsPassBase::RecomputeOpsPassBase;
  void runOnOperation() final;
  void recompute(StringRef block, BlockOps &ops, llvm::SetVector<Value> kept);
};
} // namespace

/// Products cost too much to be repeated alone, and a table would have to be
/// gathered for it.
static bool isAlwaysKept(Operation *op) {
  return isa<train::LinearOp, train::MatmulOp, train::EmbeddingOp>(op);
}

/// Whether `slice` frees at least as many bytes a flop as `whole`.
static bool isWorthIt(const BlockSlice &slice, const BlockSlice &whole) {
  // Products of two counts can be beyond 64 bits.
  return slice.getSaved() > 0 &&
         double(slice.getSaved()) * double(whole.getFlops()) >=
             double(whole.getSaved()) * double(slice.getFlops());
}

/// Repeats op by op what is worth it. An op that is repeated is no longer at
/// hand in the backward, so a later one that reads it repeats it as well.
void RecomputeOps::recompute(StringRef block, BlockOps &ops,
                             llvm::SetVector<Value> kept) {
  BlockSlice whole(block, ops, kept, [](Value) { return true; });
  auto isMissing = [](Value value) {
    return !isAlwaysKept(value.getDefiningOp()) &&
           llvm::none_of(value.getUsers(), isBackward);
  };
  for (Operation *op : ops.forward) {
    llvm::SetVector<Value> needed;
    for (Value result : op->getResults())
      if (kept.contains(result))
        needed.insert(result);
    if (needed.empty() || isAlwaysKept(op))
      continue;
    std::string label = (block + "." + op->getName().stripDialect()).str();
    BlockSlice slice(block, ops, needed, isMissing);
    if (!isWorthIt(slice, whole)) {
      remark::missed(op->getLoc(), commRemark("OpNotRecomputed"))
          << remark::reason("{0} keeps {1} bytes: {2} flops and {3} bytes kept "
                            "instead would free them; the whole block frees "
                            "{4} bytes by {5} flops",
                            label, slice.getFreed(), slice.getFlops(),
                            slice.getNewlyKept(), whole.getSaved(),
                            whole.getFlops());
      continue;
    }
    train::RecomputeOp region = slice.build(label, /*beforeAll=*/false);
    remark::passed(region.getLoc(), commRemark("OpRecomputed")) << remark::add(
        "{0} keeps {1} bytes fewer until its backward, which "
        "repeats {2} ops of {3} flops",
        label, slice.getSaved(), slice.getOps().size(), slice.getFlops());
  }
}

void RecomputeOps::runOnOperation() {
  if (failed(checkBlockCount(getOperation(), count)))
    return signalPassFailure();
  auto step = getOperation().lookupSymbol<func::FuncOp>(train::kMicroStep);
  if (!step || step.isDeclaration())
    return;
  int64_t left = count;
  for (auto &[block, ops] : blocksOf(step)) {
    if (ops.hasLoss || ops.isRepeated(block))
      continue;
    llvm::SetVector<Value> kept = keptForBackward(block, ops);
    if (kept.empty())
      continue;
    if (count >= 0 && left-- == 0)
      return;
    recompute(block, ops, std::move(kept));
  }
}
