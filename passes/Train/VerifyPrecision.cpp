//===- VerifyPrecision.cpp - The gate after precision ---------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::train {
#define GEN_PASS_DEF_VERIFYPRECISIONPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

struct VerifyPrecision : impl::VerifyPrecisionPassBase<VerifyPrecision> {
  using VerifyPrecisionPassBase::VerifyPrecisionPassBase;

  void runOnOperation() final {
    if (failed(run()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult run();
  LogicalResult verifyStates();
  LogicalResult verifyOp(Operation *op);
  LogicalResult verifyUpdates();
  LogicalResult verifyLossScale();
  LogicalResult expect(Operation *op, StringRef what, Value value,
                       Type element);

  func::FuncOp microStep, applyStep, evalStep;
  FloatType compute; // of the parameters
  FloatType f32;
  llvm::StringMap<Role> roles; // of the states
};

LogicalResult VerifyPrecision::run() {
  ModuleOp module = getOperation();
  f32 = Float32Type::get(&getContext());
  FailureOr<StepFunctions> steps = lookupSteps(module);
  if (failed(steps))
    return failure();
  std::tie(microStep, applyStep, evalStep) =
      std::tie(steps->micro, steps->apply, steps->eval);
  if (failed(verifyStates()))
    return failure();
  for (func::FuncOp function : {microStep, evalStep}) {
    WalkResult walk = function.walk([&](Operation *op) {
      return failed(verifyOp(op)) ? WalkResult::interrupt()
                                  : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  if (compute != f32 && failed(verifyUpdates()))
    return failure();
  return compute.isF16() ? verifyLossScale() : success();
}

/// One type for all parameters; what follows a parameter is f32.
LogicalResult VerifyPrecision::verifyStates() {
  llvm::StringMap<SmallVector<StateOp>> masters;
  roles.clear();
  for (StateOp state : statesOf(getOperation())) {
    roles[state.getSymName()] = state.getRole();
    Type element = state.getTensorType().getElementType();
    switch (state.getRole()) {
    case Role::Parameter:
      if (!compute)
        compute = dyn_cast<FloatType>(element);
      if (element != compute ||
          !(compute.isF32() || compute.isBF16() || compute.isF16()))
        return state.emitError()
               << "parameter @" << state.getSymName() << " has type "
               << state.getType() << ", expected one of f32, bf16 and f16 "
               << "for all parameters";
      break;
    case Role::Master:
      masters[*state.getOf()].push_back(state);
      [[fallthrough]];
    case Role::Gradient:
    case Role::Moment:
    case Role::Table:
    case Role::Metric:
      if (element != f32)
        return state.emitError()
               << stringifyRole(state.getRole()) << " @" << state.getSymName()
               << " has type " << state.getType()
               << ", expected elements of f32";
      break;
    case Role::Scalar:
      break;
    }
  }
  if (!compute)
    return getOperation().emitError() << "holds no parameter";
  for (StateOp state : statesOf(getOperation())) {
    if (state.getRole() != Role::Parameter)
      continue;
    ArrayRef<StateOp> own = masters[state.getSymName()];
    size_t expected = state.getTrainable() && compute != f32 ? 1 : 0;
    if (own.size() != expected)
      return state.emitError()
             << "parameter @" << state.getSymName() << " has " << own.size()
             << " masters, expected " << expected;
    StateOp master = own.empty() ? nullptr : own.front();
    if (master && (master.getTensorType().getShape() !=
                       state.getTensorType().getShape() ||
                   master.getInit() != state.getInit()))
      return master.emitError()
             << "master @" << master.getSymName()
             << " differs in shape or initialiser from @" << state.getSymName();
  }
  return success();
}

LogicalResult VerifyPrecision::expect(Operation *op, StringRef what,
                                      Value value, Type element) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !isa<FloatType>(type.getElementType()) ||
      type.getElementType() == element)
    return success();
  return op->emitError() << describe(op) << " has " << what << " of type "
                         << type << ", expected elements of " << element;
}

/// An op of a micro-step or evaluation has the types that it declares.
LogicalResult VerifyPrecision::verifyOp(Operation *op) {
  if (auto sum = dyn_cast<AccumulateOp>(op)) {
    bool ofGradient = roles.lookup(sum.getState()) == Role::Gradient;
    return expect(op, "a value", sum.getValue(), ofGradient ? compute : f32);
  }
  auto extend = dyn_cast<arith::ExtFOp>(op);
  auto round = dyn_cast<arith::TruncFOp>(op);
  if (extend || round) {
    if (failed(expect(op, "its operand", op->getOperand(0),
                      extend ? compute : f32)))
      return failure();
    return expect(op, "its result", op->getResult(0), extend ? f32 : compute);
  }
  auto signature = dyn_cast<SignatureOpInterface>(op);
  if (!signature && !isPointwise(op))
    return success();
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    bool narrow = signature && signature.isComputeOperand(index);
    std::string what = "operand " + std::to_string(index);
    if (failed(expect(op, what, operand.get(), narrow ? compute : f32)))
      return failure();
  }
  for (OpResult result : op->getResults()) {
    unsigned index = result.getResultNumber();
    bool narrow = signature && signature.isComputeResult(index);
    std::string what = "result " + std::to_string(index);
    if (failed(expect(op, what, result, narrow ? compute : f32)))
      return failure();
  }
  return success();
}

/// The update writes each master, and the parameter as its rounding.
LogicalResult VerifyPrecision::verifyUpdates() {
  llvm::StringMap<SmallVector<WriteOp>> writes;
  applyStep.walk([&](WriteOp op) { writes[op.getState()].push_back(op); });
  for (StateOp state : statesOf(getOperation())) {
    if (state.getRole() != Role::Master)
      continue;
    StringRef name = *state.getOf();
    ArrayRef<WriteOp> own = writes[state.getSymName()];
    ArrayRef<WriteOp> rounded = writes[name];
    if (own.size() != 1 || rounded.size() != 1)
      return state.emitError()
             << "@" << kApplyStep << " writes master @" << state.getSymName()
             << " " << own.size() << " times and its parameter "
             << rounded.size() << " times, expected once each";
    WriteOp masterWrite = own.front(), parameterWrite = rounded.front();
    auto rounding = parameterWrite.getValue().getDefiningOp<arith::TruncFOp>();
    if (!rounding || rounding.getIn() != masterWrite.getValue())
      return parameterWrite.emitError()
             << describe(parameterWrite) << " gives @" << name
             << " a value that is not the rounding of its master's";
  }
  return success();
}

/// fp16: the seed and the update both read the loss scale, inf is checked.
LogicalResult VerifyPrecision::verifyLossScale() {
  auto readsScale = [](Value value) {
    auto read = value.getDefiningOp<ReadOp>();
    return read && read.getState() == kLossScale;
  };
  WalkResult walk = applyStep.walk([&](GradScaleOp op) {
    if (op.getCheck() && readsScale(op.getScale()))
      return WalkResult::advance();
    op.emitError() << describe(op) << " does not "
                   << (op.getCheck() ? "divide by @loss_scale"
                                     : "check for inf and NaN")
                   << ", which f16 gradients need";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto seed : microStep.getOps<arith::ConstantOp>()) {
    if (!seed->hasAttr(kSeedAttr))
      continue;
    for (Operation *user : seed->getUsers()) {
      auto scaled = dyn_cast<arith::MulFOp>(user);
      if (!scaled ||
          !(readsScale(scaled.getLhs()) || readsScale(scaled.getRhs())))
        return user->emitError()
               << describe(user)
               << " reads the backward's seed without @loss_scale";
    }
  }
  return success();
}

} // namespace
} // namespace ciuic::train
