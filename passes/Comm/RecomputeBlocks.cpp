//===- RecomputeBlocks.cpp - A block's forward again in its backward ------===//
#include "mlir/IR/Remarks.h"
#include "passes/Comm/BlockSlice.h"
#include "passes/Comm/Passes.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_RECOMPUTEBLOCKSPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
struct RecomputeBlocks : comm::impl::RecomputeBlocksPassBase<RecomputeBlocks> {
  using RecomputeBlocksPassBase::RecomputeBlocksPassBase;
  void runOnOperation() final;
};
} // namespace

void RecomputeBlocks::runOnOperation() {
  if (failed(checkBlockCount(getOperation(), count)))
    return signalPassFailure();
  auto step = getOperation().lookupSymbol<func::FuncOp>(train::kMicroStep);
  if (!step || step.isDeclaration())
    return;
  int64_t repeated = 0, left = 0;
  for (auto &[block, ops] : blocksOf(step)) {
    if (ops.isRepeated(block)) {
      step.emitError() << "block \"" << block << "\" is computed again already";
      return signalPassFailure();
    }
    if (ops.hasLoss) {
      remark::missed(step.getLoc(), commRemark("NotRecomputed"))
          << remark::reason("{0} holds the loss: its backward follows at once",
                            block);
      continue;
    }
    llvm::SetVector<Value> needed = keptForBackward(block, ops);
    if (needed.empty())
      continue;
    if (count >= 0 && repeated == count) {
      ++left;
      continue;
    }
    ++repeated;
    BlockSlice slice(block, ops, needed, [](Value) { return true; });
    train::RecomputeOp region = slice.build(block, /*beforeAll=*/true);
    remark::passed(region.getLoc(), commRemark("Recomputed")) << remark::add(
        "{0} keeps {1} bytes fewer until its backward, which "
        "repeats {2} ops of {3} flops",
        block, slice.getSaved(), slice.getOps().size(), slice.getFlops());
  }
  if (left > 0)
    remark::missed(step.getLoc(), commRemark("NotRecomputed"))
        << remark::reason("{0} more blocks could be computed again: {1} were "
                          "asked for",
                          left, count.getValue());
}
