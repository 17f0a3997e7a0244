//===- AppendOptimizer.cpp - The optimizer step and its states ------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ciuic::train {
#define GEN_PASS_DEF_APPENDOPTIMIZERPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

/// A trainable parameter, its gradient and the block whose ops read it.
struct Trained {
  StateOp parameter;
  StateOp gradient;
  Attribute block;
  Value gradientValue;
};

/// Whether a `no-decay` pattern takes the parameter.
bool matchesPattern(StateOp parameter, StringRef pattern) {
  StringRef name = parameter.getSymName();
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  if (pattern == "norm")
    return parameter.getTensorType().getRank() == 1 &&
           llvm::any_of(parts, [](StringRef part) {
             return part.contains_insensitive("norm");
           });
  if (pattern == "bias")
    return parts.back() == "bias";
  return name.contains(pattern);
}

struct AppendOptimizer : impl::AppendOptimizerPassBase<AppendOptimizer> {
  using AppendOptimizerPassBase::AppendOptimizerPassBase;

  void runOnOperation() final {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult checkOptions();
  FailureOr<SmallVector<Trained>> collect(func::FuncOp microStep);
  LogicalResult declareScalars(StateDeclarer &declarer);
  LogicalResult declareMoments(StateDeclarer &declarer,
                               ArrayRef<Trained> trained);
  void emitUpdate(OpBuilder &builder, Trained &trained);
  double decayOf(StateOp parameter);

  /// A read of a state, emitted now.
  Value read(OpBuilder &builder, Location loc, StringRef state, Type type) {
    return ReadOp::create(builder, loc, type, state);
  }

  // Values that all updates share.
  Value lr, coef, step, skip;
  llvm::StringSet<> usedPatterns;
};

LogicalResult AppendOptimizer::checkOptions() {
  ModuleOp module = getOperation();
  auto refuse = [&](StringRef option, double value, StringRef expected) {
    return module.emitError()
           << option << " is " << value << ", expected " << expected;
  };
  // Written so that NaN fails.
  for (auto [option, beta] :
       {std::pair("beta1", beta1.getValue()), {"beta2", beta2.getValue()}})
    if (!(beta >= 0.0 && beta < 1.0))
      return refuse(option, beta, "a number in [0, 1)");
  for (auto [option, value] : {std::pair("base", base.getValue()),
                               {"min", min.getValue()},
                               {"max", max.getValue()},
                               {"eps", eps.getValue()},
                               {"momentum", momentum.getValue()},
                               {"decay", decay.getValue()},
                               {"clip", clip.getValue()},
                               {"warmup-ratio", warmupRatio.getValue()},
                               {"cos-min-ratio", cosMinRatio.getValue()}})
    if (!(value >= 0.0 && value <= std::numeric_limits<float>::max()))
      return refuse(option, value, "a finite number of 0 or more");
  if (accumulation < 1)
    return refuse("accumulation", static_cast<double>(accumulation),
                  "at least 1");
  bool ends = kind == ScheduleKind::WarmupDecayLR ||
              kind == ScheduleKind::WarmupCosineLR;
  if (warmup < 0 || total < 0 || (ends && total < 1))
    return module.emitError()
           << "schedule " << stringifyScheduleKind(kind) << " has warmup "
           << warmup.getValue() << " and total " << total.getValue()
           << ", expected a warmup of 0 or more and a total of at least "
           << (ends ? 1 : 0);
  return success();
}

LogicalResult AppendOptimizer::run() {
  ModuleOp module = getOperation();
  if (failed(checkOptions()))
    return failure();
  FailureOr<func::FuncOp> microStep =
      lookupFunction(module, kMicroStep, "a differentiated module");
  if (failed(microStep))
    return failure();
  if (Operation *taken = module.lookupSymbol(kApplyStep))
    return taken->emitError() << "there is an @" << kApplyStep << " already";
  if (microStep->getNumArguments() != 2)
    return microStep->emitError()
           << "@" << kMicroStep << " has " << microStep->getNumArguments()
           << " arguments, expected tokens and labels";
  auto labels = dyn_cast<RankedTensorType>(microStep->getArgumentTypes()[1]);
  if (!labels || !labels.hasStaticShape() || labels.getNumElements() == 0)
    return microStep->emitError()
           << "labels have type " << microStep->getArgumentTypes()[1]
           << ", expected tensor<BxTxi32>";
  FailureOr<SmallVector<Trained>> trained = collect(*microStep);
  if (failed(trained))
    return failure();
  StateDeclarer declarer(module);
  if (failed(declareMoments(declarer, *trained)) ||
      failed(declareScalars(declarer)))
    return failure();

  Location loc = microStep->getLoc();
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(*microStep);
  auto function = func::FuncOp::create(builder, loc, kApplyStep,
                                       builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(function.addEntryBlock());
  auto f32 = RankedTensorType::get({}, builder.getF32Type());
  auto f64 = RankedTensorType::get({}, builder.getF64Type());
  auto i32 = RankedTensorType::get({}, builder.getI32Type());

  // What all updates share: the norm over every gradient, the rate.
  Value lossSum = read(builder, loc, kLossMetric, f32);
  Value tokens = read(builder, loc, kTokensMetric, f32);
  SmallVector<Value> gradients;
  for (Trained &one : *trained) {
    auto gradient =
        ReadOp::create(builder, one.parameter.getLoc(), one.gradient.getType(),
                       one.gradient.getSymName());
    if (one.block)
      gradient->setDiscardableAttr(kBlockAttr, one.block);
    one.gradientValue = gradient;
    gradients.push_back(gradient);
  }
  Value squares = SquareSumOp::create(builder, loc, f64, gradients);
  Value one = splat(builder, loc, f32, 1.0);
  double slots = static_cast<double>(labels.getNumElements()) *
                 static_cast<double>(accumulation);
  auto scale = GradScaleOp::create(
      builder, loc, f32, f32, f32, squares, tokens, one,
      builder.getF64FloatAttr(slots), builder.getF64FloatAttr(clip),
      checkOverflow ? builder.getUnitAttr() : nullptr);
  coef = scale.getCoef();
  skip = scale.getSkip();
  step = read(builder, loc, kStep, i32);
  lr = LearningRateOp::create(
      builder, loc, f32, step,
      ScheduleAttr::get(&getContext(), kind, Real(base), Real(min), Real(max),
                        warmup, total, logarithmic, Real(warmupRatio),
                        Real(cosMinRatio)));

  for (Trained &each : *trained)
    emitUpdate(builder, each);

  auto write = [&](Value value, StringRef state) {
    WriteOp::create(builder, loc, value, state);
  };
  write(AdvanceOp::create(builder, loc, i32, step, skip), kStep);
  Value labelled = arith::MaximumFOp::create(builder, loc, tokens, one);
  write(arith::DivFOp::create(builder, loc, lossSum, labelled), kLossReport);
  write(scale.getNorm(), kNormReport);
  write(lr, kRateReport);
  write(skip, kSkipReport);
  func::ReturnOp::create(builder, loc);

  for (const std::string &pattern : noDecay)
    if (!usedPatterns.contains(pattern) && pattern != "norm" &&
        pattern != "bias")
      module.emitWarning() << "no-decay pattern '" << pattern
                           << "' matches no trainable parameter";
  return success();
}

/// Every trainable parameter with its gradient, in the order of the states.
FailureOr<SmallVector<Trained>>
AppendOptimizer::collect(func::FuncOp microStep) {
  llvm::StringMap<Attribute> blocks;
  for (ReadOp op : microStep.getBody().front().getOps<ReadOp>())
    if (Attribute block = op->getDiscardableAttr(kBlockAttr))
      blocks.try_emplace(op.getState(), block);
  llvm::StringMap<StateOp> gradients;
  for (StateOp state : statesOf(getOperation()))
    if (state.getRole() == Role::Gradient)
      gradients[*state.getOf()] = state;

  SmallVector<Trained> trained;
  for (StateOp state : statesOf(getOperation())) {
    if (!state.getTrainable())
      continue;
    StringRef name = state.getSymName();
    StateOp gradient = gradients.lookup(name);
    if (!gradient)
      return state.emitError() << "trainable parameter @" << name
                               << " has no gradient state; expected a "
                                  "differentiated module";
    trained.push_back({state, gradient, blocks.lookup(name), nullptr});
  }
  if (trained.empty())
    return getOperation().emitError() << "holds no trainable parameter";
  return trained;
}

LogicalResult AppendOptimizer::declareMoments(StateDeclarer &declarer,
                                              ArrayRef<Trained> trained) {
  SmallVector<StringRef> slots = {"exp_avg", "exp_avg_sq"};
  if (optimizer == OptimizerKind::Sgd)
    slots = {"momentum_buffer"};
  int64_t bytes = 0;
  for (const Trained &each : trained)
    for (StringRef slot : slots) {
      StateOp parameter = each.parameter;
      StringRef name = parameter.getSymName();
      if (failed(declarer.declare(parameter.getLoc(), Role::Moment,
                                  (name + "." + slot).str(), name, slot,
                                  parameter.getType(), 0.0)))
        return failure();
      bytes += bytesOf(parameter.getType());
    }
  remark::passed(getOperation().getLoc(), trainRemark("OptimizerAppended"))
      << remark::add("{0} parameters, {1} of moments", trained.size(),
                     formatBytes(bytes));
  return success();
}

LogicalResult AppendOptimizer::declareScalars(StateDeclarer &declarer) {
  MLIRContext *context = &getContext();
  Location loc = getOperation().getLoc();
  auto f32 = RankedTensorType::get({}, Float32Type::get(context));
  auto i32 = RankedTensorType::get({}, IntegerType::get(context, 32));
  if (failed(declarer.declare(loc, Role::Scalar, kStep, "", "", i32, 0.0)))
    return failure();
  for (StringRef report : {kLossReport, kNormReport, kRateReport, kSkipReport})
    if (failed(declarer.declare(loc, Role::Scalar, report, "", "", f32, 0.0)))
      return failure();
  return success();
}

double AppendOptimizer::decayOf(StateOp parameter) {
  for (const std::string &pattern : noDecay)
    if (matchesPattern(parameter, pattern)) {
      usedPatterns.insert(pattern);
      remark::passed(parameter.getLoc(), trainRemark("DecayExcluded"))
          << remark::add("@{0} takes no weight decay: it matches '{1}'",
                         parameter.getSymName(), pattern);
      return 0.0;
    }
  return decay;
}

void AppendOptimizer::emitUpdate(OpBuilder &builder, Trained &trained) {
  StateOp parameter = trained.parameter;
  Location loc = parameter.getLoc();
  Type type = parameter.getType();
  StringRef name = parameter.getSymName();
  auto number = [&](double value) { return builder.getF64FloatAttr(value); };
  auto flag = [&](bool set) { return set ? builder.getUnitAttr() : nullptr; };
  // All that belongs to a parameter carries its block.
  SmallVector<Operation *> ops;
  auto readState = [&](StringRef suffix) -> Value {
    auto op = ReadOp::create(builder, loc, type, (name + suffix).str());
    ops.push_back(op);
    return op;
  };
  auto write = [&](Value value, StringRef suffix) {
    ops.push_back(WriteOp::create(builder, loc, value, (name + suffix).str()));
  };

  Value p = readState("");
  FloatAttr decayAttr = number(decayOf(parameter));
  if (optimizer == OptimizerKind::Sgd) {
    Value m = readState(".momentum_buffer");
    auto sgd =
        SGDOp::create(builder, loc, type, type, p, trained.gradientValue, m, lr,
                      coef, skip, number(momentum), decayAttr, flag(nesterov));
    ops.push_back(sgd);
    write(sgd.getNextP(), "");
    write(sgd.getNextM(), ".momentum_buffer");
  } else {
    Value m = readState(".exp_avg");
    Value v = readState(".exp_avg_sq");
    auto adam = AdamOp::create(
        builder, loc, type, type, type, p, trained.gradientValue, m, v, lr,
        coef, step, skip, number(beta1), number(beta2), number(eps), decayAttr,
        flag(optimizer == OptimizerKind::AdamW), flag(biasCorrection));
    ops.push_back(adam);
    write(adam.getNextP(), "");
    write(adam.getNextM(), ".exp_avg");
    write(adam.getNextV(), ".exp_avg_sq");
  }
  if (trained.block)
    for (Operation *op : ops)
      op->setDiscardableAttr(kBlockAttr, trained.block);
}

} // namespace
} // namespace ciuic::train
