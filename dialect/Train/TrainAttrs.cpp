//===- TrainAttrs.cpp - Verifiers of the train attributes -----------------===//
#include "dialect/Train/Train.h"

using namespace mlir;
using namespace ciuic::train;

LogicalResult
NormalInitAttr::verify(function_ref<InFlightDiagnostic()> emitError, Real std) {
  if (!(std >= 0.0))
    return emitError() << "standard deviation is " << std.value
                       << ", expected 0 or more";
  return success();
}

LogicalResult RopeInitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   TablePart part, int64_t dim, Real theta,
                                   RopeScaling scaling, Real factor, Real low,
                                   Real high, int64_t original) {
  if (dim < 2 || dim % 2 != 0)
    return emitError() << "rotary dim is " << dim
                       << ", expected an even number of at least 2";
  if (!(theta > 0.0))
    return emitError() << "rotary theta is " << theta.value
                       << ", expected a positive number";
  if (!(factor >= 1.0))
    return emitError() << "rotary factor is " << factor.value
                       << ", expected 1 or more";
  if (scaling == RopeScaling::Llama3 &&
      (!(low > 0.0) || !(high > low) || original < 1))
    return emitError() << "llama3 scaling has low " << low.value << ", high "
                       << high.value << " and original " << original
                       << ", expected 0 < low < high and original of at least "
                          "1";
  return success();
}
