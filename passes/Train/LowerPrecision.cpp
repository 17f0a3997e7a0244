//===- LowerPrecision.cpp - 16-bit compute over f32 masters ---------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Train/Passes.h"
#include "passes/Train/PrecisionRewriter.h"
#include "passes/Train/Support.h"
#include <cmath>

namespace ciuic::train {
#define GEN_PASS_DEF_LOWERPRECISIONPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

struct LowerPrecision : impl::LowerPrecisionPassBase<LowerPrecision> {
  using LowerPrecisionPassBase::LowerPrecisionPassBase;

  void runOnOperation() final {
    if (computeType != ComputeType::F32 && failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult checkOptions();
  LogicalResult lowerParameters(StateDeclarer &declarer, FloatType compute);
  LogicalResult updateMasters();
  LogicalResult scaleLoss(StateDeclarer &declarer);
  void updateScale();

  func::FuncOp microStep, applyStep, evalStep;
  GradScaleOp gradScale;
};

LogicalResult LowerPrecision::checkOptions() {
  ModuleOp module = getOperation();
  // Written so that NaN fails.
  if (!(lossScale >= 0.0 && lossScale <= std::numeric_limits<float>::max()))
    return module.emitError()
           << "loss-scale is " << lossScale.getValue()
           << ", expected 0 for a dynamic scale or a finite positive number";
  if (initialScalePower < 0 || initialScalePower > 127)
    return module.emitError()
           << "initial-scale-power is " << initialScalePower.getValue()
           << ", expected 0 to 127";
  if (window < 1 || hysteresis < 1 || !(min > 0.0) ||
      min > std::numeric_limits<float>::max())
    return module.emitError()
           << "loss scaling has window " << window.getValue() << ", hysteresis "
           << hysteresis.getValue() << " and min " << min.getValue()
           << ", expected at least 1, at least 1 and a positive number";
  return success();
}

LogicalResult LowerPrecision::run() {
  ModuleOp module = getOperation();
  if (failed(checkOptions()))
    return failure();
  FailureOr<StepFunctions> steps = lookupSteps(module);
  if (failed(steps))
    return failure();
  std::tie(microStep, applyStep, evalStep) =
      std::tie(steps->micro, steps->apply, steps->eval);
  auto scales = llvm::to_vector(applyStep.getOps<GradScaleOp>());
  if (scales.size() != 1)
    return applyStep.emitError() << "@" << kApplyStep << " scales gradients "
                                 << scales.size() << " times, expected once";
  gradScale = scales.front();

  FloatType compute = computeType == ComputeType::BF16
                          ? FloatType(BFloat16Type::get(&getContext()))
                          : FloatType(Float16Type::get(&getContext()));
  StateDeclarer declarer(module);
  if (failed(lowerParameters(declarer, compute)))
    return failure();
  for (func::FuncOp function : {evalStep, microStep}) {
    PrecisionRewriter rewriter(function, compute);
    if (failed(rewriter.rewrite()))
      return failure();
    int64_t dropped = rewriter.dropRoundTrips();
    remark::passed(function.getLoc(), trainRemark("RoundTripsDropped"))
        << remark::add("@{0}: {1} values stay f32 between two pointwise ops",
                       function.getSymName(), dropped);
  }
  if (failed(updateMasters()))
    return failure();
  if (checkOverflow || computeType == ComputeType::F16)
    gradScale.setCheck(true);
  return computeType == ComputeType::F16 ? scaleLoss(declarer) : success();
}

/// Parameters take the compute type; the trainable ones get a master.
LogicalResult LowerPrecision::lowerParameters(StateDeclarer &declarer,
                                              FloatType compute) {
  int64_t masters = 0, bytes = 0;
  for (StateOp state : statesOf(getOperation())) {
    if (state.getRole() != Role::Parameter)
      continue;
    RankedTensorType type = state.getTensorType();
    StringRef name = state.getSymName();
    if (!type.getElementType().isF32())
      return state.emitError() << "parameter @" << name << " has type " << type
                               << ", expected elements of f32; is precision "
                                  "lowered already?";
    state.setType(type.clone(compute));
    if (!state.getTrainable())
      continue;
    if (failed(declarer.declare(state.getLoc(), Role::Master,
                                (name + kMasterSuffix).str(), name, "", type,
                                state.getInit())))
      return failure();
    ++masters;
    bytes += bytesOf(type);
  }
  remark::passed(getOperation().getLoc(), trainRemark("MastersAdded"))
      << remark::add("{0} parameters keep an f32 master, {1} in all", masters,
                     formatBytes(bytes));
  return success();
}

/// The update reads and writes the master; the parameter is its rounding.
LogicalResult LowerPrecision::updateMasters() {
  SymbolTable symbols(getOperation());
  auto isTrained = [&](StringRef name) {
    auto state = symbols.lookup<StateOp>(name);
    return state.getRole() == Role::Parameter && state.getTrainable();
  };
  WalkResult walk = applyStep.walk([&](Operation *op) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      if (isTrained(read.getState()))
        read.setState((read.getState() + kMasterSuffix).str());
    } else if (auto write = dyn_cast<WriteOp>(op)) {
      StringRef name = write.getState();
      if (!isTrained(name))
        return WalkResult::advance();
      auto parameter = symbols.lookup<StateOp>(name);
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(write);
      auto rounded = arith::TruncFOp::create(
          builder, write.getLoc(), parameter.getType(), write.getValue());
      auto next = WriteOp::create(builder, write.getLoc(), rounded, name);
      for (Operation *made : {rounded.getOperation(), next.getOperation()})
        if (Attribute block = write->getDiscardableAttr(kBlockAttr))
          made->setDiscardableAttr(kBlockAttr, block);
      write.setState((name + kMasterSuffix).str());
      // The walk goes on behind the pair: the new write is not visited.
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Loss scaling
//===----------------------------------------------------------------------===//

LogicalResult LowerPrecision::scaleLoss(StateDeclarer &declarer) {
  ModuleOp module = getOperation();
  Location loc = module.getLoc();
  auto f32 = RankedTensorType::get({}, Float32Type::get(&getContext()));
  auto i32 = RankedTensorType::get({}, IntegerType::get(&getContext(), 32));
  bool dynamic = lossScale == 0.0;
  double initial = dynamic ? std::ldexp(1.0, initialScalePower) : lossScale;
  auto scalar = [&](StringRef name, Type type, double value) {
    return declarer.declare(loc, Role::Scalar, name, "", "", type, value);
  };
  if (failed(scalar(kLossScale, f32, initial)))
    return failure();
  if (dynamic && (failed(scalar(kScalerIteration, i32, 0.0)) ||
                  failed(scalar(kScalerLastOverflow, i32, -1.0)) ||
                  failed(scalar(kScalerHysteresis, i32,
                                static_cast<double>(hysteresis))) ||
                  failed(scalar(kStoppedReport, f32, 0.0))))
    return failure();

  // The backward starts from the seed times the scale.
  SmallVector<arith::ConstantOp> seeds;
  for (auto constant : microStep.getOps<arith::ConstantOp>())
    if (constant->hasAttr(kSeedAttr))
      seeds.push_back(constant);
  if (seeds.size() != 1)
    return microStep.emitError() << "@" << kMicroStep << " has " << seeds.size()
                                 << " constants marked '" << kSeedAttr
                                 << "', expected the one that starts the "
                                    "backward";
  Operation *seed = seeds.front();
  for (Operation *user : seed->getUsers())
    if (!user->hasAttr(kBackwardAttr))
      return user->emitError() << describe(user)
                               << " of the forward reads the backward's seed; "
                                  "were equal constants merged?";
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(seed);
  auto scale = ReadOp::create(builder, seed->getLoc(), f32, kLossScale);
  auto scaled =
      arith::MulFOp::create(builder, seed->getLoc(), seed->getResult(0), scale);
  for (Operation *made : {scale.getOperation(), scaled.getOperation()})
    for (StringRef name : {kBlockAttr, kBackwardAttr})
      if (Attribute attr = seed->getDiscardableAttr(name))
        made->setDiscardableAttr(name, attr);
  seed->getResult(0).replaceAllUsesExcept(scaled, scaled);

  builder.setInsertionPoint(gradScale);
  gradScale.getScaleMutable().assign(
      ReadOp::create(builder, gradScale.getLoc(), f32, kLossScale));
  remark::passed(loc, trainRemark("LossScaled")) << remark::add(
      "the loss is scaled by {0}{1}", initial, dynamic ? " at first" : "");
  if (dynamic)
    updateScale();
  return success();
}

/// Runs the loss scale's machine at the end of the step.
void LowerPrecision::updateScale() {
  OpBuilder builder(applyStep.getBody().front().getTerminator());
  Location loc = gradScale.getLoc();
  auto f32 = RankedTensorType::get({}, builder.getF32Type());
  auto i32 = RankedTensorType::get({}, builder.getI32Type());
  auto read = [&](StringRef name) {
    return ReadOp::create(builder, loc, i32, name);
  };
  Value iteration = read(kScalerIteration);
  Value lastOverflow = read(kScalerLastOverflow);
  Value left = read(kScalerHysteresis);
  auto update = UpdateLossScaleOp::create(
      builder, loc, f32, i32, i32, i32, f32, gradScale.getScale(), iteration,
      lastOverflow, left, gradScale.getSkip(),
      builder.getI64IntegerAttr(window), builder.getI64IntegerAttr(hysteresis),
      builder.getF64FloatAttr(min),
      consecutive ? builder.getUnitAttr() : nullptr);
  auto write = [&](Value value, StringRef name) {
    WriteOp::create(builder, loc, value, name);
  };
  write(update.getNextScale(), kLossScale);
  write(update.getNextIteration(), kScalerIteration);
  write(update.getNextLastOverflow(), kScalerLastOverflow);
  write(update.getNextHysteresis(), kScalerHysteresis);
  write(update.getStopped(), kStoppedReport);
}

} // namespace
} // namespace ciuic::train
