//===- TrainAttrs.cpp - Verifiers of the train attributes -----------------===//
#include "dialect/Train/Train.h"

#include <cmath>

using namespace mlir;
using namespace ciuic::train;

LogicalResult
NormalInitAttr::verify(function_ref<InFlightDiagnostic()> emitError, Real std) {
  if (!(std >= 0.0) || std::isinf(std.value))
    return emitError() << "standard deviation is " << std.value
                       << ", expected a finite number of at least 0";
  return success();
}

LogicalResult RopeInitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   TablePart part, int64_t dim, Real theta,
                                   RopeScaling scaling, Real factor, Real low,
                                   Real high, int64_t original) {
  if (dim < 2 || dim % 2 != 0)
    return emitError() << "rotary dim is " << dim
                       << ", expected an even number of at least 2";
  if (!(theta > 0.0) || std::isinf(theta.value))
    return emitError() << "rotary theta is " << theta.value
                       << ", expected a finite positive number";
  if (!(factor >= 1.0) || std::isinf(factor.value))
    return emitError() << "rotary factor is " << factor.value
                       << ", expected a finite number of at least 1";
  if (scaling == RopeScaling::Llama3 &&
      (!(low > 0.0) || !(high > low) || original < 1))
    return emitError() << "llama3 scaling has low " << low.value << ", high "
                       << high.value << " and original " << original
                       << ", expected 0 < low < high and original of at least "
                          "1";
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ScheduleKind kind, Real base, Real min,
                                   Real max, int64_t warmup, int64_t total,
                                   bool logarithmic, Real warmupRatio,
                                   Real cosMinRatio) {
  for (Real real : {base, min, max, warmupRatio, cosMinRatio})
    if (!(real >= 0.0) || std::isinf(real.value))
      return emitError() << "schedule has a rate or ratio of " << real.value
                         << ", expected a finite number of at least 0";
  if (warmup < 0 || total < 0)
    return emitError() << "schedule has " << warmup << " warm-up steps of "
                       << total << ", expected at least 0 of at least 0";
  return success();
}
