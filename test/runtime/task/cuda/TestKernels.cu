//===- TestKernels.cu - Launchers for programs made by hand ---------------===//
#include "test/runtime/task/cuda/TestKernels.h"

#include "runtime/kernels/cuda/Launch.h"
#include "runtime/kernels/cuda/RankReduce.cuh"

namespace ciuic::rt::test {

__global__ void stepKernel(const float *x, float *out, int64_t n, int64_t k,
                           const float *skip) {
  if (skip && *skip != 0)
    return;
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = floorf(fmodf(x[i] * 3 + static_cast<float>(k), 64.0f));
}

int launchStep(const abi::CudaLaunch &launch) {
  int64_t n = launch.views[1].shape[0] * launch.views[1].shape[1];
  return cuda::launch(
      stepKernel, dim3(static_cast<unsigned>((n + 31) / 32)), dim3(32), 0,
      cuda::streamOf(launch), cuda::pointer<float>(launch, 0),
      cuda::pointer<float>(launch, 1), n, launch.ints[0], launch.skip);
}

int launchFailure(const abi::CudaLaunch &) {
  return cudaErrorInvalidConfiguration;
}

__global__ void outsideKernel(float *x) { x[1 << 20] = 1; }

int launchOutside(const abi::CudaLaunch &launch) {
  return cuda::launch(outsideKernel, dim3(1), dim3(1), 0,
                      cuda::streamOf(launch), cuda::pointer<float>(launch, 0));
}

int reduceOnDevice(abi::DType dtype, const void *const *inputs, uint32_t ranks,
                   void *out, uint64_t elements, int mean, void *stream) {
  return cuda::reduceRanks(dtype, inputs, ranks, out, elements, mean, stream);
}

} // namespace ciuic::rt::test
