//===- Differentiate.cpp - From the forward to a micro-step ---------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Train/Activity.h"
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::train {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "passes/Train/Passes.h.inc"

using namespace mlir;

namespace {

/// The reads of one trainable parameter; usually one.
struct Parameter {
  StateOp state;
  SmallVector<ReadOp> reads;
};

/// Marks what the backward inserts with the block of the op it belongs to.
struct BackwardMarker : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    op->setDiscardableAttr(kBackwardAttr, UnitAttr::get(op->getContext()));
    if (block)
      op->setDiscardableAttr(kBlockAttr, block);
  }
  Attribute block;
};

/// The backward of one function, appended to it.
class Backward {
public:
  Backward(func::FuncOp function, ArrayRef<Parameter> parameters,
           const Activity &activity)
      : block(function.getBody().front()), parameters(parameters),
        activity(activity),
        builder(OpBuilder::atBlockTerminator(&block, &marker)) {}

  /// Emits it from `loss`, whose gradient is `seed`.
  LogicalResult build(Value loss, double seed);

private:
  LogicalResult visit(Operation *op);
  void add(Value value, Value gradient);
  LogicalResult finish(const Parameter &parameter);

  Block &block;
  ArrayRef<Parameter> parameters;
  const Activity &activity;
  BackwardMarker marker;
  OpBuilder builder;
  DenseMap<Value, Value> gradients;
};

LogicalResult Backward::build(Value loss, double seed) {
  // Before anything is appended: the ops to visit, and after which of them
  // each parameter's gradient is complete, that is its first use.
  SmallVector<Operation *> forward;
  for (Operation &op : block)
    if (activity.carries(&op))
      forward.push_back(&op);
  DenseMap<Operation *, SmallVector<const Parameter *>> complete;
  for (const Parameter &parameter : parameters) {
    Operation *first = nullptr;
    for (ReadOp read : parameter.reads)
      for (Operation *user : read->getUsers())
        if (activity.carries(user) && (!first || user->isBeforeInBlock(first)))
          first = user;
    complete[first].push_back(&parameter);
  }

  Operation *last = loss.getDefiningOp();
  marker.block = last->getDiscardableAttr(kBlockAttr);
  Value start = splat(builder, last->getLoc(), loss.getType(), seed);
  start.getDefiningOp()->setDiscardableAttr(kSeedAttr, builder.getUnitAttr());
  gradients[loss] = start;
  // A parameter may be the loss itself.
  for (const Parameter *parameter : complete.lookup(nullptr))
    if (failed(finish(*parameter)))
      return failure();

  for (Operation *op : llvm::reverse(forward)) {
    if (failed(visit(op)))
      return failure();
    for (const Parameter *parameter : complete.lookup(op))
      if (failed(finish(*parameter)))
        return failure();
  }
  return success();
}

LogicalResult Backward::visit(Operation *op) {
  SmallVector<Value> resultGrads;
  for (Value result : op->getResults())
    resultGrads.push_back(gradients.lookup(result));
  // Every path to the loss may have turned out to have a derivative of zero.
  if (llvm::none_of(resultGrads, [](Value gradient) { return !!gradient; }))
    return success();

  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable) {
    auto carried = llvm::find_if(op->getOperands(), [&](Value operand) {
      return activity.carries(operand);
    });
    ReadOp read = activity.parameterBehind(*carried);
    InFlightDiagnostic diag = op->emitError()
                              << describe(op) << " has no derivative";
    if (read)
      diag << ", but the loss depends on parameter " << read.getStateAttr()
           << " through it";
    return diag;
  }

  SmallVector<bool> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(activity.carries(operand));
  SmallVector<Value> operandGrads(op->getNumOperands());
  marker.block = op->getDiscardableAttr(kBlockAttr);
  if (failed(differentiable.buildBackward(builder, resultGrads, wanted,
                                          operandGrads)))
    return failure();
  for (auto [operand, want, gradient] :
       llvm::zip_equal(op->getOperands(), wanted, operandGrads))
    if (want && gradient)
      add(operand, gradient);
  return success();
}

/// Contributions are added in the order in which they arise.
void Backward::add(Value value, Value gradient) {
  Value &sum = gradients[value];
  sum = sum ? arith::AddFOp::create(builder, gradient.getLoc(), sum, gradient)
                  .getResult()
            : gradient;
}

LogicalResult Backward::finish(const Parameter &parameter) {
  Value sum;
  for (ReadOp read : parameter.reads)
    if (Value gradient = gradients.lookup(read))
      sum = sum ? arith::AddFOp::create(builder, read.getLoc(), sum, gradient)
                      .getResult()
                : gradient;
  StateOp state = parameter.state;
  StringRef name = state.getSymName();
  if (!sum)
    return state.emitError()
           << "trainable parameter @" << name
           << " has a gradient of zero on every path to the loss";
  AccumulateOp::create(builder, sum.getLoc(), sum, (name + kGradSuffix).str());
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct Differentiate : impl::DifferentiatePassBase<Differentiate> {
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() final {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult checkForward(func::FuncOp forward);
  FailureOr<SmallVector<Parameter>> collectParameters(func::FuncOp forward);
  LogicalResult declareStates(func::FuncOp forward,
                              ArrayRef<Parameter> parameters);
  void remarkKept(func::FuncOp microStep);
};

LogicalResult Differentiate::run() {
  ModuleOp module = getOperation();
  if (accumulation < 1)
    return module.emitError() << "accumulation is " << accumulation.getValue()
                              << ", expected at least 1";
  FailureOr<func::FuncOp> found =
      lookupFunction(module, kForward, "an imported model");
  if (failed(found) || failed(checkForward(*found)))
    return failure();
  func::FuncOp forward = *found;
  FailureOr<SmallVector<Parameter>> parameters = collectParameters(forward);
  if (failed(parameters))
    return failure();

  Block &block = forward.getBody().front();
  Operation *end = block.getTerminator();
  // Scalars, so they are no arguments: ops give them.
  Value loss = end->getOperand(0), count = end->getOperand(1);
  SmallVector<ReadOp> reads;
  for (const Parameter &parameter : *parameters)
    llvm::append_range(reads, parameter.reads);
  Activity activity(block, reads, loss);

  // A parameter that the loss does not depend on cannot be trained.
  SmallVector<Parameter> trained;
  for (Parameter &parameter : *parameters) {
    if (llvm::any_of(parameter.reads, [&](ReadOp read) {
          return activity.carries(read.getResult());
        })) {
      trained.push_back(parameter);
      continue;
    }
    StateOp state = parameter.state;
    state.emitWarning() << "the loss does not depend on trainable parameter @"
                        << state.getSymName() << "; it stays as it is";
    state.setTrainable(false);
    remark::missed(state.getLoc(), trainRemark("ParameterUnused"))
        << remark::reason("@{0} has no path to the loss", state.getSymName());
  }
  if (trained.empty())
    return forward.emitError() << "the loss depends on no trainable parameter; "
                                  "there is nothing to train";
  if (failed(declareStates(forward, trained)))
    return failure();

  // One copy ends with the forward, the other goes on to the backward.
  forward.setFunctionType(
      FunctionType::get(&getContext(), forward.getArgumentTypes(), {}));
  forward.removeResAttrsAttr();
  end->setOperands({});
  auto accumulate = [&](func::FuncOp function, IRMapping &mapping, Value value,
                        StringRef metric) {
    OpBuilder builder(function.getBody().front().getTerminator());
    auto op = AccumulateOp::create(builder, value.getLoc(),
                                   mapping.lookupOrDefault(value), metric);
    Operation *source = value.getDefiningOp();
    if (Attribute name = source->getDiscardableAttr(kBlockAttr))
      op->setDiscardableAttr(kBlockAttr, name);
  };
  IRMapping copied, same;
  auto eval = cast<func::FuncOp>(forward->clone(copied));
  eval.setSymName(kEvalStep);
  module.insert(forward, eval);
  accumulate(eval, copied, loss, kEvalLossMetric);
  accumulate(eval, copied, count, kEvalTokensMetric);
  forward.setSymName(kMicroStep);
  accumulate(forward, same, loss, kLossMetric);
  accumulate(forward, same, count, kTokensMetric);

  auto labels = cast<RankedTensorType>(forward.getArgumentTypes()[1]);
  double slots = static_cast<double>(labels.getNumElements()) *
                 static_cast<double>(accumulation);
  if (failed(Backward(forward, trained, activity).build(loss, 1.0 / slots)))
    return failure();
  remarkKept(forward);
  return success();
}

LogicalResult Differentiate::checkForward(func::FuncOp forward) {
  auto isIds = [](Type type) {
    auto ids = dyn_cast<RankedTensorType>(type);
    return ids && ids.hasStaticShape() && ids.getRank() == 2 &&
           ids.getNumElements() > 0 && ids.getElementType().isInteger(32);
  };
  FunctionType type = forward.getFunctionType();
  auto scalar = RankedTensorType::get({}, Float32Type::get(&getContext()));
  if (type.getNumInputs() != 2 || !isIds(type.getInput(0)) ||
      type.getInput(0) != type.getInput(1) || type.getNumResults() != 2 ||
      type.getResult(0) != scalar || type.getResult(1) != scalar)
    return forward.emitError()
           << "@" << kForward << " has type " << type
           << ", expected (tensor<BxTxi32>, tensor<BxTxi32>) -> (" << scalar
           << ", " << scalar << ")";
  for (Operation &op : forward.getBody().front())
    if (isa<WriteOp, AccumulateOp>(op))
      return op.emitError()
             << describe(&op) << " changes a state, which a forward does not";
  return success();
}

/// The trainable parameters that are read, in the order of their states.
FailureOr<SmallVector<Parameter>>
Differentiate::collectParameters(func::FuncOp forward) {
  llvm::StringMap<SmallVector<ReadOp>> reads;
  for (ReadOp read : forward.getBody().front().getOps<ReadOp>())
    reads[read.getState()].push_back(read);
  SmallVector<Parameter> parameters;
  for (StateOp state : statesOf(getOperation())) {
    if (state.getRole() != Role::Parameter)
      continue;
    if (!state.getTrainable()) {
      remark::analysis(state.getLoc(), trainRemark("ParameterFrozen"))
          << remark::add("@{0} takes no gradient", state.getSymName());
      continue;
    }
    if (!state.getTensorType().getElementType().isF32())
      return state.emitError()
             << "trainable parameter @" << state.getSymName() << " has type "
             << state.getType() << ", expected elements of f32; precision is "
             << "lowered after differentiation";
    parameters.push_back({state, reads.lookup(state.getSymName())});
  }
  return parameters;
}

LogicalResult Differentiate::declareStates(func::FuncOp forward,
                                           ArrayRef<Parameter> parameters) {
  StateDeclarer declarer(getOperation());
  for (const Parameter &parameter : parameters) {
    StateOp state = parameter.state;
    StringRef name = state.getSymName();
    if (failed(declarer.declare(state.getLoc(), Role::Gradient,
                                (name + kGradSuffix).str(), name, "",
                                state.getType(), 0.0)))
      return failure();
  }
  auto scalar = RankedTensorType::get({}, Float32Type::get(&getContext()));
  for (StringRef metric :
       {kLossMetric, kTokensMetric, kEvalLossMetric, kEvalTokensMetric})
    if (failed(declarer.declare(forward.getLoc(), Role::Metric, metric, "", "",
                                scalar, 0.0)))
      return failure();
  return success();
}

/// Says what the backward reads of the forward: what stays in memory between.
void Differentiate::remarkKept(func::FuncOp microStep) {
  int64_t kept = 0, bytes = 0, ops = 0;
  for (Operation &op : microStep.getBody().front()) {
    if (op.hasAttr(kBackwardAttr)) {
      ++ops;
      continue;
    }
    if (isa<ReadOp>(op))
      continue;
    for (Value result : op.getResults())
      if (llvm::any_of(result.getUsers(), [](Operation *user) {
            return user->hasAttr(kBackwardAttr);
          })) {
        ++kept;
        bytes += bytesOf(result.getType());
      }
  }
  remark::passed(microStep.getLoc(), trainRemark("Differentiated"))
      << remark::add("{0} ops in the backward; {1} values of the forward, {2}, "
                     "are kept for it",
                     ops, kept, formatBytes(bytes));
}

} // namespace
} // namespace ciuic::train
