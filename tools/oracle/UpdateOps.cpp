//===- UpdateOps.cpp - The optimizer step ---------------------------------===//
//
// Rates, scales and counters come from the formulas that the runtime and the
// compiled program use too.
//
//===----------------------------------------------------------------------===//
#include "dialect/Comm/Comm.h"
#include "runtime/kernels/scalar/GradScale.h"
#include "runtime/kernels/scalar/LearningRate.h"
#include "runtime/kernels/scalar/LossScale.h"
#include "tools/oracle/Kernels.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

/// A counter as an integer; what does not fit (inf, NaN) is 0.
static int64_t toInteger(double value) {
  return std::fabs(value) < 0x1p62 ? static_cast<int64_t>(value) : 0;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

static LogicalResult squareSum(const Invocation &call) {
  double sum = 0.0;
  for (const TensorRef &tensor : call.in)
    for (double value : tensor->data)
      sum += value * value;
  call.out[0].data[0] = sum;
  return success();
}

static LogicalResult gradScale(const Invocation &call) {
  auto op = cast<train::GradScaleOp>(call.op);
  rt::GradScaleParams params;
  params.totalSlots = toInteger(op.getSlots().convertToDouble());
  params.clip = op.getClip().convertToDouble();
  params.checkOverflow = op.getCheck();
  rt::GradScale scale = rt::gradScale(
      params, call.number(0), toInteger(call.number(1)), call.number(2));
  call.out[0].data[0] = scale.coefficient;
  call.out[1].data[0] = scale.norm;
  call.out[2].data[0] = scale.skip ? 1.0 : 0.0;
  return success();
}

static LogicalResult learningRate(const Invocation &call) {
  train::ScheduleAttr schedule =
      cast<train::LearningRateOp>(call.op).getSchedule();
  rt::LearningRateParams params;
  switch (schedule.getKind()) {
  case train::ScheduleKind::Constant:
    params.kind = rt::LearningRateKind::Constant;
    break;
  case train::ScheduleKind::WarmupLR:
    params.kind = rt::LearningRateKind::WarmupLR;
    break;
  case train::ScheduleKind::WarmupDecayLR:
    params.kind = rt::LearningRateKind::WarmupDecayLR;
    break;
  case train::ScheduleKind::WarmupCosineLR:
    params.kind = rt::LearningRateKind::WarmupCosineLR;
    break;
  }
  params.curve = schedule.getLogarithmic() ? rt::WarmupCurve::Log
                                           : rt::WarmupCurve::Linear;
  params.lr = schedule.getBase();
  params.warmupMinLr = schedule.getMin();
  params.warmupMaxLr = schedule.getMax();
  params.warmupMinRatio = schedule.getWarmupRatio();
  params.cosMinRatio = schedule.getCosMinRatio();
  params.warmupSteps = schedule.getWarmup();
  params.totalSteps = schedule.getTotal();
  call.out[0].data[0] = rt::learningRate(params, toInteger(call.number(0)));
  return success();
}

static LogicalResult advance(const Invocation &call) {
  call.out[0].data[0] = call.number(0) + (call.number(1) != 0.0 ? 0.0 : 1.0);
  return success();
}

static LogicalResult updateLossScale(const Invocation &call) {
  auto op = cast<train::UpdateLossScaleOp>(call.op);
  rt::LossScaleParams params;
  params.dynamic = true;
  params.window = static_cast<int64_t>(op.getWindow());
  params.hysteresis = static_cast<int64_t>(op.getHysteresis());
  params.consecutiveHysteresis = op.getConsecutive();
  params.minScale = op.getMin().convertToDouble();
  rt::LossScaleState state = {call.number(0), toInteger(call.number(1)),
                              toInteger(call.number(2)),
                              toInteger(call.number(3))};
  bool stopped = rt::updateLossScale(state, params, call.number(4) != 0.0);
  call.out[0].data[0] = state.scale;
  call.out[1].data[0] = static_cast<double>(state.iteration);
  call.out[2].data[0] = static_cast<double>(state.lastOverflow);
  call.out[3].data[0] = static_cast<double>(state.hysteresis);
  call.out[4].data[0] = stopped ? 1.0 : 0.0;
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

/// Whether an element of a tensor or bucket is in one of the ranges.
static bool contains(ArrayRef<int64_t> ranges, int64_t element) {
  for (size_t i = 0; i + 1 < ranges.size(); i += 2)
    if (element >= ranges[i] && element < ranges[i + 1])
      return true;
  return false;
}

/// Whether `moment`, an operand of `op`, is one rank's chunk of a bucket: the
/// op says so, or where the value comes from.
static bool isChunk(Operation *op, Value moment) {
  if (op->hasAttr(comm::kChunkedAttr))
    return true;
  Operation *source = moment.getDefiningOp();
  while (auto transfer = dyn_cast_or_null<comm::TransferOp>(source))
    source = transfer.getInput().getDefiningOp();
  if (auto read = dyn_cast_or_null<train::ReadOp>(source)) {
    auto state = SymbolTable::lookupNearestSymbolFrom<train::StateOp>(
        read, read.getStateAttr());
    return state && state.getSharded();
  }
  return isa_and_nonnull<comm::ChunkOp, comm::ReduceScatterOp>(source);
}

/// The element of the whole bucket or tensor at which this rank's part starts.
static int64_t firstElement(const Invocation &call, Value moment) {
  return isChunk(call.op, moment) ? call.rank * call.operand(0).size() : 0;
}

static LogicalResult adam(const Invocation &call) {
  auto op = cast<train::AdamOp>(call.op);
  const Tensor &p = call.operand(0), &grad = call.operand(1);
  const Tensor &m = call.operand(2), &v = call.operand(3);
  double lr = call.number(4), coef = call.number(5);
  double step = call.number(6) + 1.0;
  bool skip = call.number(7) != 0.0;
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double eps = op.getEps().convertToDouble();
  double correction1 =
      op.getBiasCorrection() ? 1.0 - std::pow(beta1, step) : 1.0;
  double correction2 =
      op.getBiasCorrection() ? 1.0 - std::pow(beta2, step) : 1.0;
  int64_t first = firstElement(call, op.getM());

  for (int64_t i = 0; i < p.size(); ++i) {
    double value = p.data[i], mean = m.data[i], square = v.data[i];
    if (!skip) {
      double decay = contains(op.getUndecayed(), first + i)
                         ? 0.0
                         : op.getDecay().convertToDouble();
      double g = coef * grad.data[i];
      if (op.getDecoupled())
        value -= lr * decay * value;
      else
        g += decay * value;
      mean = beta1 * mean + (1.0 - beta1) * g;
      square = beta2 * square + (1.0 - beta2) * g * g;
      value -= lr / correction1 * mean /
               (std::sqrt(square) / std::sqrt(correction2) + eps);
    }
    call.out[0].data[i] = value;
    call.out[1].data[i] = mean;
    call.out[2].data[i] = square;
  }
  return success();
}

static LogicalResult sgd(const Invocation &call) {
  auto op = cast<train::SGDOp>(call.op);
  const Tensor &p = call.operand(0), &grad = call.operand(1);
  const Tensor &m = call.operand(2);
  double lr = call.number(3), coef = call.number(4);
  bool skip = call.number(5) != 0.0;
  double momentum = op.getMomentum().convertToDouble();
  int64_t first = firstElement(call, op.getM());

  for (int64_t i = 0; i < p.size(); ++i) {
    double value = p.data[i], mean = m.data[i];
    if (!skip) {
      double decay = contains(op.getUndecayed(), first + i)
                         ? 0.0
                         : op.getDecay().convertToDouble();
      double g = coef * grad.data[i] + decay * value;
      mean = momentum * mean + g;
      value -= lr * (op.getNesterov() ? g + momentum * mean : mean);
    }
    call.out[0].data[i] = value;
    call.out[1].data[i] = mean;
  }
  return success();
}

Kernel oracle::findUpdateKernel(Operation *op) {
  return llvm::TypeSwitch<Operation *, Kernel>(op)
      .Case([](train::SquareSumOp) { return squareSum; })
      .Case([](train::GradScaleOp) { return gradScale; })
      .Case([](train::LearningRateOp) { return learningRate; })
      .Case([](train::AdvanceOp) { return advance; })
      .Case([](train::UpdateLossScaleOp) { return updateLossScale; })
      .Case([](train::AdamOp) { return adam; })
      .Case([](train::SGDOp) { return sgd; })
      .Default([](Operation *) { return nullptr; });
}
