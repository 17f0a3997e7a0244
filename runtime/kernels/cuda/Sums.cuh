//===- Sums.cuh - Sums of squares and of slots ------------------*- CUDA
//-*-===//
//
// In double, and in an order that the shape alone gives. Inf and NaN anywhere
// end up in the sum: it is the check for finite gradients as well.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_SUMS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_SUMS_CUH

#include "runtime/kernels/cuda/Elements.cuh"

namespace ciuic::cuda {

/// Blocks whose partial sums are added at the end: on any device the same.
inline constexpr int64_t mostSquareSums = 1024;
/// Blocks that a multiprocessor holds at once, at the least.
inline constexpr int squareSumBlocks = 5;

/// Grid: one block a partial sum. Reads x once.
template <typename X, int Width>
__global__ void __launch_bounds__(elementThreads, squareSumBlocks)
    squareSumKernel(const X *x, int64_t stride, Items items, double *parts,
                    const float *skip) {
  if (isSkipped(skip))
    return;
  double sum = 0;
  forItems<Width>(items, int64_t(blockIdx.x) * elementThreads + threadIdx.x,
                  int64_t(gridDim.x) * elementThreads,
                  [&](int64_t row, int64_t column, auto width) {
                    constexpr int n = decltype(width)::value;
                    Vector<X, n> values =
                        loadVector<n>(x + row * stride + column);
#pragma unroll
                    for (int i = 0; i < n; ++i) {
                      double value = toFloat(values[i]);
                      sum += value * value;
                    }
                  });
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sum;
}

/// One block: out = the sum of `count` parts.
static __global__ void __launch_bounds__(elementThreads)
    sumPartsKernel(const double *parts, int64_t count, double *out,
                   const float *skip) {
  if (isSkipped(skip))
    return;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += elementThreads)
    sum += parts[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    *out = sum;
}

/// x -> out (f64 scalar). Scratch: a double a partial sum, at most 8 KiB.
template <typename X>
cudaError_t launchSquareSum(const abi::CudaLaunch &launch) {
  Matrix<X> x;
  double *out = nullptr;
  if (!hasCounts(launch, 2, 0, 0) || !take(launch, 0, x) ||
      !takeScalar(launch, 1, out))
    return cudaErrorInvalidValue;
  constexpr int width = 32 / static_cast<int>(sizeof(X));
  bool aligned = hasAlignedRows(x);
  Items items = itemsOf(x.rows, x.columns, x.isDense(), aligned ? width : 1);
  // At least two items a thread, or the sum of the sums takes longer.
  int64_t count =
      (items.count() + 2 * elementThreads - 1) / (2 * int64_t(elementThreads));
  count = count < mostSquareSums ? count : mostSquareSums;
  double *parts = nullptr;
  if (count > 0) {
    parts = takeScratch<double>(launch, 0, static_cast<uint64_t>(count));
    if (!parts)
      return cudaErrorInvalidValue;
  }
  auto kernel = aligned ? squareSumKernel<X, width> : squareSumKernel<X, 1>;
  cudaError_t error = cuda::launch(kernel, dim3(static_cast<unsigned>(count)),
                                   dim3(elementThreads), 0, streamOf(launch),
                                   x.data, x.stride, items, parts, launch.skip);
  if (error != cudaSuccess)
    return error;
  return cuda::launch(sumPartsKernel, dim3(1), dim3(elementThreads), 0,
                      streamOf(launch), parts, count, out, launch.skip);
}

/// One block: out = ((x[0] + x[1]) + x[2]) + ..., fetched by all threads and
/// added by one, so that it has the bits of a plain loop.
static __global__ void __launch_bounds__(elementThreads)
    sumSlotsKernel(const double *x, int64_t count, double *out,
                   const float *skip) {
  __shared__ double tile[elementThreads];
  if (isSkipped(skip))
    return;
  double sum = 0;
  for (int64_t begin = 0; begin < count; begin += elementThreads) {
    if (begin + threadIdx.x < count)
      tile[threadIdx.x] = x[begin + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
      for (int64_t i = 0; i < elementThreads && begin + i < count; ++i)
        sum += tile[i];
    __syncthreads(); // Before the next tile takes this one's place.
  }
  if (threadIdx.x == 0)
    *out = sum;
}

/// x (f64, 1 x n) -> out (f64 scalar).
inline cudaError_t launchSumSlots(const abi::CudaLaunch &launch) {
  Matrix<double> x;
  double *out = nullptr;
  if (!hasCounts(launch, 2, 0, 0) || !take(launch, 0, x) || x.rows != 1 ||
      !takeScalar(launch, 1, out))
    return cudaErrorInvalidValue;
  return cuda::launch(sumSlotsKernel, dim3(1), dim3(elementThreads), 0,
                      streamOf(launch), x.data, x.columns, out, launch.skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_SUMS_CUH
