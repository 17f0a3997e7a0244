//===- ElideTrivialCollectives.cpp - What one rank says to itself ---------===//
#include "dialect/Comm/Comm.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Passes.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_ELIDETRIVIALCOLLECTIVESPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;

namespace {
struct ElideTrivialCollectives
    : comm::impl::ElideTrivialCollectivesPassBase<ElideTrivialCollectives> {
  using ElideTrivialCollectivesPassBase::ElideTrivialCollectivesPassBase;

  void runOnOperation() final {
    int64_t elided = 0;
    getOperation()->walk([&](Operation *op) {
      TypeSwitch<Operation *>(op)
          .Case<AllGatherOp, ReduceScatterOp, AllReduceOp, ChunkOp>(
              [&](auto collective) {
                if (collective.getAxis().getSize() != 1)
                  return;
                op->getResult(0).replaceAllUsesWith(op->getOperand(0));
                op->erase();
                ++elided;
              });
    });
    if (elided > 0)
      remark::passed(
          getOperation()->getLoc(),
          remark::RemarkOpts::name("CollectivesElided").category("comm"))
          << remark::add("{0} collectives over one rank moved nothing", elided);
  }
};
} // namespace
