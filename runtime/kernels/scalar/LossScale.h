//===- LossScale.h - ZeRO's loss-scale machine ------------------*- C++ -*-===//
//
// fp16 gradients are computed from a scaled loss. A dynamic scale halves after
// overflows and doubles after a run of good steps; this is the machine that
// DeepSpeed uses under ZeRO, with hysteresis and a floor at which training
// stops. Here it serves every stage, on devices too. No dependencies but C++.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_SCALAR_LOSSSCALE_H
#define CIUIC_RUNTIME_KERNELS_SCALAR_LOSSSCALE_H

#include "runtime/kernels/scalar/HostDevice.h"

#include <cstdint>

namespace ciuic::rt {

struct LossScaleParams {
  /// False: the scale stays what it is; an overflow still skips its step.
  bool dynamic = false;

  /// The scale of the first step; 1 where the precision needs none.
  double initialScale = 1.0;

  /// Good steps in a row after which the scale doubles.
  int64_t window = 1000;

  /// The overflow with this number, counted since the last refill, halves
  /// the scale; those before it only skip their step.
  int64_t hysteresis = 2;

  /// Refill the hysteresis at every good step, not only when the scale grows.
  bool consecutiveHysteresis = false;

  /// The floor: an overflow at this scale ends the training.
  double minScale = 1.0;
};

/// What a checkpoint keeps of the machine.
struct LossScaleState {
  double scale = 1.0;
  int64_t iteration = 0;
  int64_t lastOverflow = -1;
  int64_t hysteresis = 2;
};

inline LossScaleState initialLossScale(const LossScaleParams &params) {
  return {params.initialScale, 0, -1, params.hysteresis};
}

/// Moves the machine over one step, of which `overflow` says whether any
/// gradient of any rank was inf or NaN. Returns true when training must stop:
/// an overflow at the smallest scale allowed. The state is then unchanged.
CIUIC_HOST_DEVICE inline bool updateLossScale(LossScaleState &state,
                                              const LossScaleParams &params,
                                              bool overflow) {
  if (!params.dynamic) {
    ++state.iteration;
    return false;
  }
  if (overflow) {
    if (params.hysteresis == 1 || state.hysteresis == 1) {
      if (state.scale <= params.minScale)
        return true;
      state.scale = greater(state.scale / 2.0, params.minScale);
    } else {
      --state.hysteresis;
    }
    state.lastOverflow = state.iteration;
  } else {
    if (params.consecutiveHysteresis)
      state.hysteresis = params.hysteresis;
    int64_t good = state.iteration - state.lastOverflow - 1;
    if (good > 0 && good % params.window == 0) {
      state.hysteresis = params.hysteresis;
      state.scale *= 2.0;
    }
  }
  ++state.iteration;
  return false;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_SCALAR_LOSSSCALE_H
