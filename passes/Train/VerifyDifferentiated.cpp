//===- VerifyDifferentiated.cpp - The gate after differentiation ----------===//
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::train {
#define GEN_PASS_DEF_VERIFYDIFFERENTIATEDPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

/// The ops of one kind in a function, by the state they name.
template <typename Op>
llvm::StringMap<SmallVector<Op>> accessesIn(func::FuncOp function) {
  llvm::StringMap<SmallVector<Op>> accesses;
  function.walk([&](Op op) { accesses[op.getState()].push_back(op); });
  return accesses;
}

struct VerifyDifferentiated
    : impl::VerifyDifferentiatedPassBase<VerifyDifferentiated> {
  using VerifyDifferentiatedPassBase::VerifyDifferentiatedPassBase;

  void runOnOperation() final {
    if (failed(verifyFunctions()) || failed(verifyGradients()) ||
        failed(verifyUpdates()) || failed(verifyBlocks()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verifyFunctions();
  LogicalResult verifyGradients();
  LogicalResult verifyUpdates();
  LogicalResult verifyBlocks();

  func::FuncOp microStep, applyStep, evalStep;
};

LogicalResult VerifyDifferentiated::verifyFunctions() {
  ModuleOp module = getOperation();
  if (Operation *forward = module.lookupSymbol(kForward))
    return forward->emitError() << "@" << kForward << " is still there";
  FailureOr<StepFunctions> steps = lookupSteps(module);
  if (failed(steps))
    return failure();
  std::tie(microStep, applyStep, evalStep) =
      std::tie(steps->micro, steps->apply, steps->eval);
  for (func::FuncOp function : {microStep, applyStep, evalStep})
    if (function.getNumResults() != 0)
      return function.emitError()
             << "@" << function.getSymName() << " has "
             << function.getNumResults() << " results, expected none";
  return success();
}

/// Emits that `op` does what its function may not.
LogicalResult refuse(Operation *op, StringRef function, StringRef why) {
  return op->emitError() << describe(op) << " in @" << function << ": " << why;
}

LogicalResult VerifyDifferentiated::verifyGradients() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  llvm::StringMap<SmallVector<StateOp>> gradients;
  for (StateOp state : statesOf(module)) {
    if (state.getRole() != Role::Gradient)
      continue;
    auto parameter = symbols.lookup<StateOp>(*state.getOf());
    if (!parameter || !parameter.getTrainable())
      return state.emitError()
             << "gradient @" << state.getSymName() << " belongs to @"
             << *state.getOf() << ", which is no trainable parameter";
    if (!state.getTensorType().getElementType().isF32() ||
        state.getTensorType().getShape() !=
            parameter.getTensorType().getShape())
      return state.emitError()
             << "gradient @" << state.getSymName() << " has type "
             << state.getType() << ", expected f32 and the shape of "
             << parameter.getType();
    gradients[*state.getOf()].push_back(state);
  }

  auto sums = accessesIn<AccumulateOp>(microStep);
  for (StateOp state : statesOf(module)) {
    if (!state.getTrainable())
      continue;
    StringRef name = state.getSymName();
    ArrayRef<StateOp> own = gradients[name];
    if (own.size() != 1)
      return state.emitError() << "trainable parameter @" << name << " has "
                               << own.size() << " gradients, expected 1";
    StateOp gradient = own.front();
    size_t count = sums[gradient.getSymName()].size();
    if (count != 1)
      return state.emitError()
             << "the gradient of trainable parameter @" << name
             << " is accumulated " << count << " times in @" << kMicroStep
             << ", expected once";
  }

  for (func::FuncOp function : {microStep, evalStep}) {
    WalkResult walk = function.walk([&](WriteOp op) {
      (void)refuse(op, function.getSymName(), "only @apply_step writes states");
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  WalkResult walk = evalStep.walk([&](Operation *op) {
    if (op->hasAttr(kBackwardAttr)) {
      (void)refuse(op, kEvalStep, "an evaluation has no backward");
      return WalkResult::interrupt();
    }
    if (auto sum = dyn_cast<AccumulateOp>(op)) {
      auto state = symbols.lookup<StateOp>(sum.getState());
      if (state.getRole() != Role::Metric) {
        (void)refuse(op, kEvalStep, "an evaluation accumulates only metrics");
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult VerifyDifferentiated::verifyUpdates() {
  auto writes = accessesIn<WriteOp>(applyStep);
  for (StateOp state : statesOf(getOperation())) {
    bool moves = state.getTrainable() || state.getRole() == Role::Moment;
    bool still = state.getRole() == Role::Parameter && !state.getTrainable();
    size_t count = writes[state.getSymName()].size();
    if ((moves && count != 1) || (still && count != 0))
      return state.emitError()
             << (state.getTrainable() ? "trainable " : "")
             << stringifyRole(state.getRole()) << " @" << state.getSymName()
             << " is written " << count << " times in @" << kApplyStep
             << ", expected " << (moves ? "once" : "never");
  }
  auto sums = accessesIn<AccumulateOp>(applyStep);
  if (!sums.empty())
    return refuse(sums.begin()->second.front(), kApplyStep,
                  "only steps over data accumulate");
  return success();
}

LogicalResult VerifyDifferentiated::verifyBlocks() {
  Block &block = microStep.getBody().front();
  bool named = llvm::any_of(block, [](Operation &op) {
    return !op.hasAttr(kBackwardAttr) && op.hasAttr(kBlockAttr);
  });
  for (Operation &op : block)
    if (named && op.hasAttr(kBackwardAttr) && !op.hasAttr(kBlockAttr))
      return refuse(&op, kMicroStep, "it names no block");
  return success();
}

} // namespace
} // namespace ciuic::train
