//===- LearningRate.h - DeepSpeed's learning-rate schedules -----*- C++ -*-===//
//
// The rate of one optimizer step as a pure function of how many steps were
// applied before it. Plain numbers and no dependencies, so that the oracle,
// the runtime and emitted programs share one text.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_SCALAR_LEARNINGRATE_H
#define CIUIC_RUNTIME_KERNELS_SCALAR_LEARNINGRATE_H

#include "runtime/kernels/scalar/HostDevice.h"

#include <cmath>
#include <cstdint>

namespace ciuic::rt {

enum class LearningRateKind : int32_t {
  Constant = 0,
  WarmupLR = 1,
  WarmupDecayLR = 2,
  WarmupCosineLR = 3,
};

/// How the rate climbs from its minimum during warm-up: with ln(t + 1) / ln(W),
/// or with t / W.
enum class WarmupCurve : int32_t { Log = 0, Linear = 1 };

/// Every parameter of every kind; a kind reads only its own.
struct LearningRateParams {
  LearningRateKind kind = LearningRateKind::Constant;
  WarmupCurve curve = WarmupCurve::Log;

  /// Constant: the rate. WarmupCosineLR: what its ratios multiply.
  double lr = 1e-3;

  /// WarmupLR, WarmupDecayLR: the rate before and after warm-up.
  double warmupMinLr = 0.0;
  double warmupMaxLr = 1e-3;

  /// WarmupCosineLR: shares of `lr` at the start of warm-up and at the end.
  double warmupMinRatio = 0.0;
  double cosMinRatio = 1e-4;

  /// Steps of warm-up; fewer than 2 count as 2, as in DeepSpeed.
  int64_t warmupSteps = 1000;

  /// WarmupDecayLR, WarmupCosineLR: the steps of the whole schedule.
  int64_t totalSteps = 0;
};

/// cos(pi * x), by the function of devices that needs no stack.
CIUIC_HOST_DEVICE inline double cosOfPi(double x) {
#ifdef __CUDA_ARCH__
  return cospi(x);
#else
  return std::cos(3.141592653589793 * x);
#endif
}

/// The rate of the step before which `appliedSteps` steps were applied; steps
/// skipped for an overflow do not count.
///
/// DeepSpeed sets the first rate when the schedule is built and moves on after
/// each applied step, so step n + 1 reads the curve at t = n - 1 and the first
/// two steps of a warm-up run at its minimum. WarmupCosineLR starts one step
/// earlier, at rate 0.
CIUIC_HOST_DEVICE inline double learningRate(const LearningRateParams &params,
                                             int64_t appliedSteps) {
  if (params.kind == LearningRateKind::Constant)
    return params.lr;

  const bool cosine = params.kind == LearningRateKind::WarmupCosineLR;
  if (appliedSteps <= 0)
    return cosine ? 0.0 : params.warmupMinLr;

  const double t = static_cast<double>(appliedSteps - 1);
  const double warmup =
      static_cast<double>(greater<int64_t>(2, params.warmupSteps));
  const double total = static_cast<double>(params.totalSteps);

  double climb = 1.0;
  if (t < warmup)
    climb = params.curve == WarmupCurve::Linear
                ? t / warmup
                : std::log(t + 1.0) / std::log(warmup);

  if (cosine) {
    if (t < warmup)
      return params.lr *
             (params.warmupMinRatio + (1.0 - params.warmupMinRatio) * climb);
    double progress =
        lesser(1.0, (t - warmup + 1.0) / greater(1.0, total - warmup));
    double wave = (1.0 + cosOfPi(progress)) / 2.0;
    return params.lr *
           greater(0.0, params.cosMinRatio + (1.0 - params.cosMinRatio) * wave);
  }

  if (params.kind == LearningRateKind::WarmupDecayLR && t >= warmup)
    climb = greater(0.0, (total - t) / greater(1.0, total - warmup));
  return params.warmupMinLr + (params.warmupMaxLr - params.warmupMinLr) * climb;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_SCALAR_LEARNINGRATE_H
