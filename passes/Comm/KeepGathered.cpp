//===- KeepGathered.cpp - One gather for a forward and its backward -------===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_KEEPGATHEREDPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
/// The gathers of one bucket by one block.
struct Pair {
  AllGatherOp forward, backward;
};

struct KeepGathered : comm::impl::KeepGatheredPassBase<KeepGathered> {
  using KeepGatheredPassBase::KeepGatheredPassBase;
  void runOnOperation() final;
};
} // namespace

/// What a block gathers in its forward and again in its backward, by block, in
/// the order of the forwards.
static llvm::MapVector<StringRef, SmallVector<Pair>>
findPairs(func::FuncOp step) {
  llvm::MapVector<StringRef, SmallVector<Pair>> pairs;
  llvm::SmallPtrSet<Operation *, 16> taken;
  for (auto forward : step.getOps<AllGatherOp>()) {
    StringRef block = blockOf(forward);
    if (block.empty() || isBackward(forward))
      continue;
    for (Operation *user : forward.getInput().getUsers())
      if (auto backward = dyn_cast<AllGatherOp>(user);
          backward && isBackward(backward) && blockOf(backward) == block &&
          backward.getAxis() == forward.getAxis() &&
          forward->isBeforeInBlock(backward) && taken.insert(backward).second) {
        pairs[block].push_back({forward, backward});
        break;
      }
  }
  return pairs;
}

void KeepGathered::runOnOperation() {
  if (failed(checkBlockCount(getOperation(), count)))
    return signalPassFailure();
  auto step = getOperation().lookupSymbol<func::FuncOp>(train::kMicroStep);
  if (!step || step.isDeclaration())
    return;
  auto blocks = findPairs(step).takeVector();
  size_t kept = blocks.size();
  if (count >= 0)
    kept = std::min<size_t>(kept, count);
  // The last forwards have the shortest way to their backwards.
  for (auto &[block, pairs] : MutableArrayRef(blocks).take_back(kept)) {
    int64_t bytes = 0;
    for (Pair pair : pairs) {
      bytes += train::bytesOf(pair.forward.getType());
      pair.backward.replaceAllUsesWith(pair.forward.getResult());
      pair.backward.erase();
    }
    remark::passed(pairs.front().forward.getLoc(), commRemark("GatheredKept"))
        << remark::add("{0} keeps {1} gathered bytes until its backward, which "
                       "gathers {2} buckets fewer",
                       block, bytes, pairs.size());
  }
  if (kept < blocks.size())
    remark::missed(step.getLoc(), commRemark("GatheredAgain"))
        << remark::reason("{0} blocks gather again in their backward: {1} were "
                          "to keep what they have",
                          blocks.size() - kept, count.getValue());
}
