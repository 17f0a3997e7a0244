//===- VerifyScheduled.cpp - Checks that conflicting tasks are ordered ----===//
#include "mlir/IR/BuiltinOps.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyScheduled : impl::VerifyScheduledPassBase<VerifyScheduled> {
  using VerifyScheduledPassBase::VerifyScheduledPassBase;

  void runOnOperation() final {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(verify(program)))
        return signalPassFailure();
  }

  static LogicalResult verify(ProgramOp program) {
    TaskOrder order(program, /*withEvents=*/true);
    for (auto &[buffer, touches] : order.touches())
      for (auto [i, late] : llvm::enumerate(touches))
        for (const Touch &early : ArrayRef(touches).take_front(i)) {
          if (early.task == late.task || !late.conflicts(early) ||
              order.isBefore(early.task, late.task))
            continue;
          TaskOp first = order.tasks()[early.task];
          TaskOp second = order.tasks()[late.task];
          InFlightDiagnostic diag = second.emitOpError()
                                    << "\"" << second.getName() << "\" on "
                                    << stringifyStream(second.getStream())
                                    << " touches bytes of " << buffer
                                    << " that \"" << first.getName() << "\" on "
                                    << stringifyStream(first.getStream())
                                    << " touches too, and nothing orders them";
          diag.attachNote(first.getLoc()) << "the other task is here";
          return diag;
        }
    return success();
  }
};
} // namespace
} // namespace ciuic::sched
