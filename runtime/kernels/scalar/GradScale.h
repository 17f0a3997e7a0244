//===- GradScale.h - From a sum of squares to one factor --------*- C++ -*-===//
//
// Between the last backward and the update every gradient is multiplied once,
// in fp32: by what undoes the loss scale, by what turns the mean over token
// slots into the mean over labelled tokens, and by what clips the global norm.
// No dependencies but C++; devices run it too.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_SCALAR_GRADSCALE_H
#define CIUIC_RUNTIME_KERNELS_SCALAR_GRADSCALE_H

#include "runtime/kernels/scalar/HostDevice.h"

#include <cmath>
#include <cstdint>

namespace ciuic::rt {

struct GradScaleParams {
  /// Token slots of the global batch, labelled or not.
  int64_t totalSlots = 1;

  /// Largest global norm; 0 or less leaves the gradients as they are.
  double clip = 0.0;

  /// Skip the step when a gradient is inf or NaN.
  bool checkOverflow = false;
};

struct GradScale {
  /// Slots per labelled token: 1 without padding.
  double factor = 1.0;

  /// Norm of the true gradient: unscaled, before clipping.
  double norm = 0.0;

  /// What each accumulated gradient is multiplied by; 0 for a skipped step.
  double coefficient = 1.0;

  /// The step must leave parameters and optimizer state alone.
  bool skip = false;
};

/// `sumOfSquares` is over all scaled gradients of all ranks, each element
/// once; `labelledTokens` counts the global batch; `lossScale` is the scale
/// that the backward ran with. A NaN norm that is not checked for stays NaN:
/// it must be seen, not clipped away.
CIUIC_HOST_DEVICE inline GradScale gradScale(const GradScaleParams &params,
                                             double sumOfSquares,
                                             int64_t labelledTokens,
                                             double lossScale) {
  GradScale result;
  result.factor = static_cast<double>(params.totalSlots) /
                  static_cast<double>(greater<int64_t>(labelledTokens, 1));
  result.norm = std::sqrt(sumOfSquares) * result.factor / lossScale;
  if (params.checkOverflow && !std::isfinite(sumOfSquares)) {
    result.skip = true;
    result.coefficient = 0.0;
    return result;
  }
  result.coefficient = result.factor / lossScale;
  if (params.clip > 0.0) {
    double shrink = params.clip / (result.norm + 1e-6);
    if (!(shrink >= 1.0)) // Also true for NaN, which must pass through.
      result.coefficient *= shrink;
  }
  return result;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_SCALAR_GRADSCALE_H
