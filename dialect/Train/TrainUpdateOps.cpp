//===- TrainUpdateOps.cpp - The optimizer step's mathematics --------------===//
#include "dialect/Train/Train.h"

using namespace mlir;
using namespace ciuic::train;

/// One shape of f32 for all of `types`.
static LogicalResult verifySameF32(Operation *op, TypeRange types) {
  auto first = cast<RankedTensorType>(types.front());
  for (Type type : types)
    if (type != first || !first.getElementType().isF32())
      return op->emitOpError()
             << "has tensors " << first << " and " << type
             << "; expected one shape of f32 for parameter, gradient, moments "
                "and results";
  return success();
}

/// Pairs [begin, end), rising and disjoint.
static LogicalResult verifyRanges(Operation *op, ArrayRef<int64_t> ranges) {
  if (ranges.size() % 2 != 0)
    return op->emitOpError() << "has " << ranges.size()
                             << " bounds in 'undecayed', expected pairs";
  int64_t last = 0;
  for (size_t i = 0; i < ranges.size(); i += 2) {
    if (ranges[i] < last || ranges[i + 1] <= ranges[i])
      return op->emitOpError()
             << "range [" << ranges[i] << ", " << ranges[i + 1]
             << ") in 'undecayed' is empty or starts before " << last;
    last = ranges[i + 1];
  }
  return success();
}

LogicalResult GradScaleOp::verify() {
  // (C1)
  double slots = getSlots().convertToDouble();
  double clip = getClip().convertToDouble();
  if (!(slots > 0.0) || !(clip >= 0.0))
    return emitOpError() << "has slots " << slots << " and clip " << clip
                         << "; expected slots > 0 and clip >= 0";
  return success();
}

LogicalResult UpdateLossScaleOp::verify() {
  // (C1)
  double min = getMin().convertToDouble();
  auto window = static_cast<int64_t>(getWindow());
  auto hysteresis = static_cast<int64_t>(getHysteresis());
  if (window < 1 || hysteresis < 1 || !(min > 0.0))
    return emitOpError() << "has window " << window << ", hysteresis "
                         << hysteresis << " and min " << min
                         << "; expected at least 1, at least 1 and positive";
  return success();
}

LogicalResult AdamOp::verify() {
  // (C1)
  if (failed(verifySameF32(*this, {getP().getType(), getGrad().getType(),
                                   getM().getType(), getV().getType(),
                                   getNextP().getType(), getNextM().getType(),
                                   getNextV().getType()})))
    return failure();
  // (C3)
  auto isBeta = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  double beta1 = getBeta1().convertToDouble();
  double beta2 = getBeta2().convertToDouble();
  double eps = getEps().convertToDouble();
  double decay = getDecay().convertToDouble();
  if (!isBeta(beta1) || !isBeta(beta2) || !(eps >= 0.0) || !(decay >= 0.0))
    return emitOpError() << "has betas " << beta1 << " and " << beta2
                         << ", eps " << eps << " and decay " << decay
                         << "; expected betas in [0, 1), eps and decay >= 0";
  // (C2)
  return verifyRanges(*this, getUndecayed());
}

LogicalResult SGDOp::verify() {
  // (C1)
  if (failed(verifySameF32(*this, {getP().getType(), getGrad().getType(),
                                   getM().getType(), getNextP().getType(),
                                   getNextM().getType()})))
    return failure();
  // (C3)
  double momentum = getMomentum().convertToDouble();
  double decay = getDecay().convertToDouble();
  if (!(momentum >= 0.0) || !(decay >= 0.0))
    return emitOpError() << "has momentum " << momentum << " and decay "
                         << decay << "; expected both >= 0";
  // (C2)
  return verifyRanges(*this, getUndecayed());
}

//===----------------------------------------------------------------------===//
// Cost: a few operations an element
//===----------------------------------------------------------------------===//

static int64_t elements(Type type) {
  return cast<ShapedType>(type).getNumElements();
}

int64_t SquareSumOp::getFlops() {
  int64_t flops = 0;
  for (Type type : getValues().getTypes())
    flops += 2 * elements(type);
  return flops;
}
int64_t GradScaleOp::getFlops() { return 10; }
int64_t LearningRateOp::getFlops() { return 10; }
int64_t AdvanceOp::getFlops() { return 1; }
int64_t UpdateLossScaleOp::getFlops() { return 5; }
int64_t AdamOp::getFlops() { return 16 * elements(getP().getType()); }
int64_t SGDOp::getFlops() { return 6 * elements(getP().getType()); }
