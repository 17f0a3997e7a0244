//===- Scalars.cuh - The few numbers of an optimizer step -------*- CUDA
//-*-===//
//
// One thread each: what runtime/kernels/scalar computes, on the device, so
// that a step never waits for the host.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_SCALARS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_SCALARS_CUH

#include "runtime/kernels/cuda/Arguments.cuh"
#include "runtime/kernels/scalar/GradScale.h"
#include "runtime/kernels/scalar/LearningRate.h"
#include "runtime/kernels/scalar/LossScale.h"

namespace ciuic::cuda {

static __global__ void __launch_bounds__(1)
    gradScaleKernel(rt::GradScaleParams params, const double *squareSum,
                    const float *count, const float *scale, float *coef,
                    float *norm, float *skip, const float *taskSkip) {
  if (isSkipped(taskSkip))
    return;
  float labelled = *count;
  // A sum of counts is finite; anything else would be undefined to convert.
  int64_t labels =
      labelled >= 0 && labelled < 0x1p62f ? static_cast<int64_t>(labelled) : 0;
  rt::GradScale result =
      rt::gradScale(params, *squareSum, labels, static_cast<double>(*scale));
  *coef = static_cast<float>(result.coefficient);
  *norm = static_cast<float>(result.norm);
  *skip = result.skip ? 1.0f : 0.0f;
}

/// squareSum, count, scale -> coef, norm, skip; ints: check; reals: slots,
/// clip.
inline cudaError_t launchGradScale(const abi::CudaLaunch &launch) {
  double *sum = nullptr;
  float *f[5] = {};
  if (!hasCounts(launch, 6, 1, 2) || !takeScalar(launch, 0, sum))
    return cudaErrorInvalidValue;
  for (uint32_t i = 0; i < 5; ++i)
    if (!takeScalar(launch, i + 1, f[i]))
      return cudaErrorInvalidValue;
  if (!(launch.reals[0] >= 1 && launch.reals[0] < 0x1p62) ||
      !(launch.reals[1] >= 0))
    return cudaErrorInvalidValue;
  rt::GradScaleParams params;
  params.totalSlots = static_cast<int64_t>(launch.reals[0]);
  params.clip = launch.reals[1];
  params.checkOverflow = launch.ints[0] != 0;
  return cuda::launch(gradScaleKernel, dim3(1), dim3(1), 0, streamOf(launch),
                      params, sum, f[0], f[1], f[2], f[3], f[4], launch.skip);
}

static __global__ void __launch_bounds__(1)
    learningRateKernel(rt::LearningRateParams params, const int32_t *step,
                       float *lr, const float *taskSkip) {
  if (isSkipped(taskSkip))
    return;
  *lr = static_cast<float>(rt::learningRate(params, *step));
}

/// step -> lr; ints: kind, warmup, total, logarithmic; reals: base, min, max,
/// warmupRatio, cosMinRatio.
inline cudaError_t launchLearningRate(const abi::CudaLaunch &launch) {
  int32_t *step = nullptr;
  float *lr = nullptr;
  if (!hasCounts(launch, 2, 4, 5) || !takeScalar(launch, 0, step) ||
      !takeScalar(launch, 1, lr) || launch.ints[0] < 0 || launch.ints[0] > 3)
    return cudaErrorInvalidValue;
  rt::LearningRateParams params;
  params.kind = static_cast<rt::LearningRateKind>(launch.ints[0]);
  params.warmupSteps = launch.ints[1];
  params.totalSteps = launch.ints[2];
  params.curve =
      launch.ints[3] ? rt::WarmupCurve::Log : rt::WarmupCurve::Linear;
  params.lr = launch.reals[0];
  params.warmupMinLr = launch.reals[1];
  params.warmupMaxLr = launch.reals[2];
  params.warmupMinRatio = launch.reals[3];
  params.cosMinRatio = launch.reals[4];
  return cuda::launch(learningRateKernel, dim3(1), dim3(1), 0, streamOf(launch),
                      params, step, lr, launch.skip);
}

static __global__ void __launch_bounds__(1)
    advanceKernel(const int32_t *step, const float *skip, int32_t *next,
                  const float *taskSkip) {
  if (isSkipped(taskSkip))
    return;
  int32_t now = *step;
  *next = now + (*skip == 0.0f && now < INT32_MAX ? 1 : 0);
}

/// step, skip -> next step.
inline cudaError_t launchAdvance(const abi::CudaLaunch &launch) {
  int32_t *step = nullptr, *next = nullptr;
  float *skip = nullptr;
  if (!hasCounts(launch, 3, 0, 0) || !takeScalar(launch, 0, step) ||
      !takeScalar(launch, 1, skip) || !takeScalar(launch, 2, next))
    return cudaErrorInvalidValue;
  return cuda::launch(advanceKernel, dim3(1), dim3(1), 0, streamOf(launch),
                      step, skip, next, launch.skip);
}

/// Scalars of the loss-scale machine: before the step, or after.
struct LossScalePointers {
  float *scale;
  int32_t *iteration, *lastOverflow, *hysteresis;
};

static __global__ void __launch_bounds__(1)
    updateLossScaleKernel(rt::LossScaleParams params, LossScalePointers now,
                          const float *skip, LossScalePointers next,
                          float *stopped, const float *taskSkip) {
  if (isSkipped(taskSkip))
    return;
  rt::LossScaleState state;
  state.scale = *now.scale;
  state.iteration = *now.iteration;
  state.lastOverflow = *now.lastOverflow;
  state.hysteresis = *now.hysteresis;
  bool stop = rt::updateLossScale(state, params, *skip != 0.0f);
  *next.scale = static_cast<float>(state.scale);
  *next.iteration = static_cast<int32_t>(state.iteration);
  *next.lastOverflow = static_cast<int32_t>(state.lastOverflow);
  *next.hysteresis = static_cast<int32_t>(state.hysteresis);
  *stopped = stop ? 1.0f : 0.0f;
}

/// scale, iteration, lastOverflow, hysteresis, skip -> next scale, next
/// iteration, next lastOverflow, next hysteresis, stopped; ints: window,
/// hysteresis, consecutive; reals: min.
inline cudaError_t launchUpdateLossScale(const abi::CudaLaunch &launch) {
  LossScalePointers now{}, next{};
  float *skip = nullptr, *stopped = nullptr;
  if (!hasCounts(launch, 10, 3, 1) || !takeScalar(launch, 0, now.scale) ||
      !takeScalar(launch, 1, now.iteration) ||
      !takeScalar(launch, 2, now.lastOverflow) ||
      !takeScalar(launch, 3, now.hysteresis) || !takeScalar(launch, 4, skip) ||
      !takeScalar(launch, 5, next.scale) ||
      !takeScalar(launch, 6, next.iteration) ||
      !takeScalar(launch, 7, next.lastOverflow) ||
      !takeScalar(launch, 8, next.hysteresis) ||
      !takeScalar(launch, 9, stopped))
    return cudaErrorInvalidValue;
  rt::LossScaleParams params;
  params.dynamic = true;
  params.window = launch.ints[0];
  params.hysteresis = launch.ints[1];
  params.consecutiveHysteresis = launch.ints[2] != 0;
  params.minScale = launch.reals[0];
  if (params.window < 1 || params.hysteresis < 1)
    return cudaErrorInvalidValue;
  return cuda::launch(updateLossScaleKernel, dim3(1), dim3(1), 0,
                      streamOf(launch), params, now, skip, next, stopped,
                      launch.skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_SCALARS_CUH
