//===- Columns.cuh - Sums over the rows of a matrix -------------*- CUDA
//-*-===//
//
// Gradients of biases and of norms' weights, in two passes without atomics:
// slices of rows to partial sums in f32, then those in the order of the
// slices. The slices depend on the number of rows alone, so that any device
// gives the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_COLUMNS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_COLUMNS_CUH

#include "runtime/kernels/cuda/Arguments.cuh"

namespace ciuic::cuda {

inline constexpr int64_t mostSlices = 128;
inline constexpr int64_t leastSliceRows = 32;
inline constexpr unsigned columnThreads = 256;
inline constexpr unsigned columnWarps = columnThreads / kWarp;

/// Terms of a plain sum over rows.
template <typename X> struct PlainTerms {
  const X *x;
  int64_t xStride;

  template <int N>
  __device__ void add(int64_t row, int64_t column, float (&sums)[N]) const {
    Vector<X, N> value = loadVector<N>(x + row * xStride + column);
#pragma unroll
    for (int i = 0; i < N; ++i)
      sums[i] += toFloat(value[i]);
  }
};

/// dy * x * rstd: the gradient of an RMS norm's weight.
template <typename X> struct NormTerms {
  const X *dy, *x;
  const float *rstd;
  int64_t dyStride, xStride;

  template <int N>
  __device__ void add(int64_t row, int64_t column, float (&sums)[N]) const {
    Vector<X, N> left = loadVector<N>(dy + row * dyStride + column);
    Vector<X, N> right = loadVector<N>(x + row * xStride + column);
    float r = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i)
      sums[i] += toFloat(left[i]) * (toFloat(right[i]) * r);
  }
};

/// Grid: tiles of 32 vectors of columns x slices of rows. The warps of a block
/// take the rows of its slice in turn.
template <typename Terms, int N>
__global__ void __launch_bounds__(columnThreads)
    columnPartsKernel(Terms terms, int64_t rows, int64_t columns,
                      int64_t sliceRows, float *parts, const float *skip) {
  constexpr int tileColumns = static_cast<int>(kWarp) * N;
  __shared__ float shared[columnWarps][tileColumns];
  if (isSkipped(skip))
    return;
  unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int64_t tile = int64_t(blockIdx.x) * tileColumns;
  int64_t column = tile + lane * N;
  int64_t begin = blockIdx.y * sliceRows;
  int64_t end = begin + sliceRows < rows ? begin + sliceRows : rows;
  float sums[N] = {};
  if (column < columns)
#pragma unroll 4
    for (int64_t row = begin + warp; row < end; row += columnWarps)
      terms.add(row, column, sums);
  // A warp's sums of one register are neighbours: no conflicts of banks.
#pragma unroll
  for (int i = 0; i < N; ++i)
    shared[warp][i * static_cast<int>(kWarp) + lane] = sums[i];
  __syncthreads();
  for (unsigned at = threadIdx.x; at < tileColumns; at += columnThreads) {
    if (tile + at >= columns)
      break;
    float sum = 0.0f;
#pragma unroll
    for (unsigned w = 0; w < columnWarps; ++w)
      sum += shared[w][at % N * kWarp + at / N];
    parts[blockIdx.y * columns + tile + at] = sum;
  }
}

/// Grid: tiles of 32 columns. out = the sum of the slices' parts.
template <typename Out>
__global__ void __launch_bounds__(columnThreads)
    columnTotalsKernel(const float *parts, int64_t slices, int64_t columns,
                       Out *out, const float *skip) {
  __shared__ float shared[columnWarps][kWarp];
  if (isSkipped(skip))
    return;
  unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int64_t column = int64_t(blockIdx.x) * kWarp + lane;
  float sum = 0.0f;
  if (column < columns)
#pragma unroll 4
    for (int64_t slice = warp; slice < slices; slice += columnWarps)
      sum += parts[slice * columns + column];
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns)
    return;
#pragma unroll
  for (unsigned w = 1; w < columnWarps; ++w)
    sum += shared[w][lane];
  out[column] = fromFloat<Out>(sum);
}

/// Both passes. Scratch: min(128, rows / 32 rounded up) x columns floats.
template <typename X, typename Out, typename Terms>
cudaError_t sumColumns(const abi::CudaLaunch &launch, const Terms &terms,
                       int64_t rows, int64_t columns, bool aligned, Out *out) {
  int64_t slices = (rows + leastSliceRows - 1) / leastSliceRows;
  slices = slices < mostSlices ? slices : mostSlices;
  int64_t sliceRows = slices > 0 ? (rows + slices - 1) / slices : 0;
  float *parts = nullptr;
  if (slices > 0 && columns > 0) {
    parts =
        takeScratch<float>(launch, 0, static_cast<uint64_t>(slices * columns));
    if (!parts)
      return cudaErrorInvalidValue;
  }
  constexpr int width = 16 / static_cast<int>(sizeof(X));
  aligned = aligned && columns % width == 0;
  int64_t tile = kWarp * (aligned ? width : 1);
  int64_t tiles = (columns + tile - 1) / tile;
  if (tiles > INT32_MAX / 8)
    return cudaErrorInvalidValue;
  auto kernel =
      aligned ? columnPartsKernel<Terms, width> : columnPartsKernel<Terms, 1>;
  cudaError_t error = cuda::launch(
      kernel, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(slices)),
      dim3(columnThreads), 0, streamOf(launch), terms, rows, columns, sliceRows,
      parts, launch.skip);
  if (error != cudaSuccess)
    return error;
  return cuda::launch(
      columnTotalsKernel<Out>,
      dim3(static_cast<unsigned>((columns + kWarp - 1) / kWarp)),
      dim3(columnThreads), 0, streamOf(launch), parts, slices, columns, out,
      launch.skip);
}

/// x -> out: sums over rows.
template <typename X, typename Out>
cudaError_t launchColumnSum(const abi::CudaLaunch &launch) {
  Matrix<X> x;
  Matrix<Out> out;
  if (!hasCounts(launch, 2, 0, 0) || !take(launch, 0, x) ||
      !take(launch, 1, out, 1, x.columns))
    return cudaErrorInvalidValue;
  return sumColumns<X>(launch, PlainTerms<X>{x.data, x.stride}, x.rows,
                       x.columns, hasAlignedRows(x), out.data);
}

/// dy, x, rstd -> dweight: sums over rows of dy * x * rstd.
template <typename X, typename Out>
cudaError_t launchNormWeightGrad(const abi::CudaLaunch &launch) {
  Matrix<X> dy, x;
  float *rstd = nullptr;
  Matrix<Out> out;
  if (!hasCounts(launch, 4, 0, 0) || !take(launch, 0, dy) ||
      !take(launch, 1, x, dy.rows, dy.columns) ||
      !takeList(launch, 2, rstd, dy.rows) ||
      !take(launch, 3, out, 1, dy.columns))
    return cudaErrorInvalidValue;
  return sumColumns<X>(
      launch, NormTerms<X>{dy.data, x.data, rstd, dy.stride, x.stride}, dy.rows,
      dy.columns, hasAlignedRows(dy) && hasAlignedRows(x), out.data);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_COLUMNS_CUH
