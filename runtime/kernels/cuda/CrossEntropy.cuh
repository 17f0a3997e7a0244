//===- CrossEntropy.cuh - The loss over the vocabulary ----------*- CUDA
//-*-===//
//
// One block a row. The maximum and the sum of exponentials are found together
// in one pass over the row; the gradient is made in a second one, which runs
// backwards so that it finds in the caches what the first one read last. Only
// as many rows are under way as the level-2 cache holds.
//
// A label outside the vocabulary takes no part: the host has checked that it
// is -100.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_CROSSENTROPY_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_CROSSENTROPY_CUH

#include "runtime/kernels/cuda/Arguments.cuh"

#include <cfloat>

namespace ciuic::cuda {

/// The most threads of a row's block. Three blocks a multiprocessor hide each
/// other's barriers.
inline constexpr int rowThreads = 512;
inline constexpr int rowBlocks = 3;
/// Threads of the one block that adds the losses of all rows.
inline constexpr int lossThreads = 1024;

/// e^x. For 16-bit data by the fast instruction: its error is far below theirs.
template <typename T> __device__ inline float exponential(float x) {
  if constexpr (sizeof(T) == 2)
    return exp2Fast(x * 1.4426950408889634f);
  else
    return expf(x);
}

/// A row as single elements up to a multiple of 16 bytes, vectors, and single
/// elements again.
template <typename T> struct RowParts {
  static constexpr int width = 16 / static_cast<int>(sizeof(T));
  int head, vectors, tail, columns;

  __device__ RowParts(const T *row, int columns) : columns(columns) {
    int past =
        static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
    head = past ? width - past : 0;
    head = head < columns ? head : columns;
    vectors = (columns - head) / width;
    tail = head + vectors * width;
  }

  /// Calls fn(column) for this thread's single elements.
  template <typename Fn> __device__ void forSingles(Fn fn) const {
    for (int i = static_cast<int>(threadIdx.x); i < head;
         i += static_cast<int>(blockDim.x))
      fn(i);
    for (int i = tail + static_cast<int>(threadIdx.x); i < columns;
         i += static_cast<int>(blockDim.x))
      fn(i);
  }
};

/// A sum of exponentials, as sum * e^top. `top` stays finite, so that infinite
/// logits give an infinite sum and only NaN gives NaN.
struct ExponentialSum {
  float top = -FLT_MAX, sum = 0.0f;
};

template <typename T, int N>
__device__ inline void addExponentials(ExponentialSum &sum,
                                       const Vector<T, N> &x) {
  float values[N];
  float top = toFloat(x[0]);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] = toFloat(x[i]);
    top = fmaxf(top, values[i]); // Ignores NaN; the sum will not.
  }
  if (top > sum.top) {
    top = fminf(top, FLT_MAX);
    sum.sum *= exponential<T>(sum.top - top);
    sum.top = top;
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    sum.sum += exponential<T>(values[i] - sum.top);
}

/// log of the sum of exp(x[j]) over a row, on all threads of the block.
template <typename T>
__device__ inline float logSumExp(const T *row, int columns) {
  constexpr int width = RowParts<T>::width;
  constexpr int batch = 4; // Loads that are under way at once.
  RowParts<T> parts(row, columns);
  const T *middle = row + parts.head;
  ExponentialSum mine;
  parts.forSingles(
      [&](int i) { addExponentials(mine, loadVector<1>(row + i)); });
  int threads = static_cast<int>(blockDim.x);
  int i = static_cast<int>(threadIdx.x);
  for (; i + (batch - 1) * threads < parts.vectors; i += batch * threads) {
    Vector<T, width> x[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j)
      x[j] = loadVector<width>(middle + (i + j * threads) * width);
#pragma unroll
    for (int j = 0; j < batch; ++j)
      addExponentials(mine, x[j]);
  }
  for (; i < parts.vectors; i += threads)
    addExponentials(mine, loadVector<width>(middle + i * width));
  float top = blockMax(mine.top);
  float sum = blockSum(mine.sum * expf(mine.top - top));
  return top + logf(sum);
}

/// out[j] = seed * exp(row[j] - lse), minus seed at the label. May be in place.
template <typename T>
__device__ inline void softmaxGrad(const T *row, float lse, float seed,
                                   int label, T *out, int columns) {
  constexpr int width = RowParts<T>::width;
  RowParts<T> parts(row, columns);
  // Where the two are aligned differently all elements are single ones.
  if ((reinterpret_cast<uintptr_t>(row) ^ reinterpret_cast<uintptr_t>(out)) %
          16 !=
      0) {
    parts.head = parts.tail = columns;
    parts.vectors = 0;
  }
  auto gradient = [&](float x, bool atLabel) {
    float p = exponential<T>(x - lse);
    return seed * (atLabel ? p - 1.0f : p);
  };
  auto finish = [&](int column, const Vector<T, width> &x) {
    float y[width];
    if (static_cast<unsigned>(label - column) < static_cast<unsigned>(width)) {
#pragma unroll
      for (int j = 0; j < width; ++j)
        y[j] = gradient(toFloat(x[j]), column + j == label);
    } else {
#pragma unroll
      for (int j = 0; j < width; ++j)
        y[j] = gradient(toFloat(x[j]), false);
    }
    storeVector(out + column, rounded<T>(y));
  };
  int threads = static_cast<int>(blockDim.x);
  int thread = static_cast<int>(threadIdx.x);
  // The last of this thread's vectors first, two loads under way at once.
  int i = parts.vectors > thread
              ? (parts.vectors - 1 - thread) / threads * threads + thread
              : -1;
  for (; i >= threads; i -= 2 * threads) {
    int column = parts.head + i * width, next = column - threads * width;
    Vector<T, width> x = loadVector<width>(row + column);
    Vector<T, width> y = loadVector<width>(row + next);
    finish(column, x);
    finish(next, y);
  }
  if (i >= 0)
    finish(parts.head + i * width,
           loadVector<width>(row + parts.head + i * width));
  parts.forSingles([&](int i) {
    out[i] = fromFloat<T>(gradient(toFloat(row[i]), i == label));
  });
}

template <typename T> __device__ inline void clearRow(T *out, int columns) {
  constexpr int width = RowParts<T>::width;
  RowParts<T> parts(out, columns);
  Vector<T, width> zeros;
#pragma unroll
  for (int j = 0; j < width; ++j)
    zeros[j] = fromFloat<T>(0.0f);
  for (int i = static_cast<int>(threadIdx.x); i < parts.vectors;
       i += static_cast<int>(blockDim.x))
    storeVector(out + parts.head + i * width, zeros);
  parts.forSingles([&](int i) { out[i] = fromFloat<T>(0.0f); });
}

__device__ inline bool takesPart(int32_t label, int64_t columns) {
  return label >= 0 && label < columns;
}

/// Grid: rows in turn. lse of every row; the loss of those that take part.
template <typename T>
__global__ void __launch_bounds__(rowThreads, rowBlocks)
    crossEntropyKernel(Matrix<T> logits, const int32_t *labels, float *lse,
                       double *losses, const float *skip) {
  if (isSkipped(skip))
    return;
  int columns = static_cast<int>(logits.columns);
  for (int64_t row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    const T *x = logits.data + row * logits.stride;
    float value = logSumExp(x, columns);
    if (threadIdx.x != 0)
      continue;
    lse[row] = value;
    int32_t label = labels[row];
    losses[row] = takesPart(label, columns)
                      ? static_cast<double>(value) -
                            static_cast<double>(toFloat(x[label]))
                      : 0.0;
  }
}

/// Grid: rows in turn.
template <typename T>
__global__ void __launch_bounds__(rowThreads, rowBlocks)
    crossEntropyGradKernel(const float *seed, Matrix<T> logits,
                           const int32_t *labels, const float *lse,
                           Matrix<T> out, const float *skip) {
  if (isSkipped(skip))
    return;
  int columns = static_cast<int>(logits.columns);
  float scale = *seed;
  for (int64_t row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    int32_t label = labels[row];
    T *y = out.data + row * out.stride;
    if (takesPart(label, columns))
      softmaxGrad(logits.data + row * logits.stride, lse[row], scale, label, y,
                  columns);
    else
      clearRow(y, columns);
  }
}

/// Grid: rows in turn. Loss and gradient of those that take part.
template <typename T>
__global__ void __launch_bounds__(rowThreads, rowBlocks)
    crossEntropyWithGradKernel(const float *seed, Matrix<T> logits,
                               const int32_t *labels, double *losses,
                               Matrix<T> out, const float *skip) {
  if (isSkipped(skip))
    return;
  int columns = static_cast<int>(logits.columns);
  float scale = *seed;
  for (int64_t row = blockIdx.x; row < logits.rows; row += gridDim.x) {
    const T *x = logits.data + row * logits.stride;
    T *y = out.data + row * out.stride;
    int32_t label = labels[row];
    if (!takesPart(label, columns)) {
      if (threadIdx.x == 0)
        losses[row] = 0.0;
      clearRow(y, columns);
      continue;
    }
    // Before the barriers of logSumExp: the gradient may take its place.
    float logit = threadIdx.x == 0 ? toFloat(x[label]) : 0.0f;
    float lse = logSumExp(x, columns);
    if (threadIdx.x == 0)
      losses[row] = static_cast<double>(lse) - static_cast<double>(logit);
    softmaxGrad(x, lse, scale, label, y, columns);
  }
}

/// One block: the sum of the losses and how many rows took part.
static __global__ void __launch_bounds__(lossThreads)
    sumLossesKernel(const double *losses, const int32_t *labels, int64_t rows,
                    int64_t columns, float *loss, float *count,
                    const float *skip) {
  if (isSkipped(skip))
    return;
  double sum = 0;
  int counted = 0;
  for (int64_t row = threadIdx.x; row < rows; row += lossThreads) {
    sum += losses[row];
    counted += takesPart(labels[row], columns) ? 1 : 0;
  }
  sum = blockSum(sum);
  counted = blockSum(counted);
  if (threadIdx.x != 0)
    return;
  *loss = static_cast<float>(sum);
  *count = static_cast<float>(counted);
}

//===----------------------------------------------------------------------===//
// Launchers
//===----------------------------------------------------------------------===//

/// Threads of a row's block: two vectors or more each. By the width of a row
/// alone, since it decides the order of the sum.
inline unsigned threadsOfRow(int64_t columns, int width) {
  int64_t threads = (columns + 2 * width - 1) / (2 * width);
  threads = (threads + kWarp - 1) / kWarp * kWarp;
  threads = threads < rowThreads ? threads : rowThreads;
  return static_cast<unsigned>(threads > kWarp ? threads : kWarp);
}

/// Blocks that go through the rows. If each reads its row twice, at most 24
/// MiB of rows at once, but a block on each multiprocessor in any case.
inline unsigned blocksOfRows(const abi::CudaLaunch &launch, int64_t rows,
                             unsigned threads, int64_t bytesReadTwice) {
  unsigned blocks =
      fillingGrid(static_cast<uint64_t>(rows), 1, threads, launch.processors);
  if (bytesReadTwice == 0)
    return blocks;
  int64_t held = (int64_t(24) << 20) / bytesReadTwice;
  held = held > launch.processors ? held : launch.processors;
  return blocks < held ? blocks : static_cast<unsigned>(held);
}

template <typename T> bool areLogits(const Matrix<T> &logits) {
  return logits.rows < INT32_MAX && logits.columns < INT32_MAX / 2 &&
         (logits.columns > 0 || logits.rows == 0);
}

/// logits, labels -> loss, count, lse. Scratch: 8 bytes a row.
template <typename T>
cudaError_t launchCrossEntropy(const abi::CudaLaunch &launch) {
  Matrix<T> logits;
  int32_t *labels = nullptr;
  float *loss = nullptr, *count = nullptr, *lse = nullptr;
  if (!hasCounts(launch, 5, 0, 0) || !take(launch, 0, logits) ||
      !areLogits(logits) || !takeList(launch, 1, labels, logits.rows) ||
      !takeScalar(launch, 2, loss) || !takeScalar(launch, 3, count) ||
      !takeList(launch, 4, lse, logits.rows))
    return cudaErrorInvalidValue;
  auto *losses =
      takeScratch<double>(launch, 0, static_cast<uint64_t>(logits.rows));
  if (!losses && logits.rows > 0)
    return cudaErrorInvalidValue;
  unsigned threads = threadsOfRow(logits.columns, RowParts<T>::width);
  cudaError_t error = cuda::launch(
      crossEntropyKernel<T>,
      dim3(blocksOfRows(launch, logits.rows, threads, 0)), dim3(threads), 0,
      streamOf(launch), logits, labels, lse, losses, launch.skip);
  if (error != cudaSuccess)
    return error;
  return cuda::launch(sumLossesKernel, dim3(1), dim3(lossThreads), 0,
                      streamOf(launch), losses, labels, logits.rows,
                      logits.columns, loss, count, launch.skip);
}

/// seed, logits, labels, lse -> dlogits, which may be in the place of logits.
template <typename T>
cudaError_t launchCrossEntropyGrad(const abi::CudaLaunch &launch) {
  Matrix<T> logits, out;
  int32_t *labels = nullptr;
  float *seed = nullptr, *lse = nullptr;
  if (!hasCounts(launch, 5, 0, 0) || !takeScalar(launch, 0, seed) ||
      !take(launch, 1, logits) || !areLogits(logits) ||
      !takeList(launch, 2, labels, logits.rows) ||
      !takeList(launch, 3, lse, logits.rows) ||
      !take(launch, 4, out, logits.rows, logits.columns))
    return cudaErrorInvalidValue;
  unsigned threads = threadsOfRow(logits.columns, RowParts<T>::width);
  return cuda::launch(crossEntropyGradKernel<T>,
                      dim3(blocksOfRows(launch, logits.rows, threads, 0)),
                      dim3(threads), 0, streamOf(launch), seed, logits, labels,
                      lse, out, launch.skip);
}

/// seed, logits, labels -> loss, count, dlogits, which may be in the place of
/// logits. Scratch: 8 bytes a row.
template <typename T>
cudaError_t launchCrossEntropyWithGrad(const abi::CudaLaunch &launch) {
  Matrix<T> logits, out;
  int32_t *labels = nullptr;
  float *seed = nullptr, *loss = nullptr, *count = nullptr;
  if (!hasCounts(launch, 6, 0, 0) || !takeScalar(launch, 0, seed) ||
      !take(launch, 1, logits) || !areLogits(logits) ||
      !takeList(launch, 2, labels, logits.rows) ||
      !takeScalar(launch, 3, loss) || !takeScalar(launch, 4, count) ||
      !take(launch, 5, out, logits.rows, logits.columns))
    return cudaErrorInvalidValue;
  auto *losses =
      takeScratch<double>(launch, 0, static_cast<uint64_t>(logits.rows));
  if (!losses && logits.rows > 0)
    return cudaErrorInvalidValue;
  unsigned threads = threadsOfRow(logits.columns, RowParts<T>::width);
  unsigned blocks =
      blocksOfRows(launch, logits.rows, threads,
                   logits.columns * static_cast<int64_t>(sizeof(T)));
  cudaError_t error = cuda::launch(crossEntropyWithGradKernel<T>, dim3(blocks),
                                   dim3(threads), 0, streamOf(launch), seed,
                                   logits, labels, losses, out, launch.skip);
  if (error != cudaSuccess)
    return error;
  return cuda::launch(sumLossesKernel, dim3(1), dim3(lossThreads), 0,
                      streamOf(launch), losses, labels, logits.rows,
                      logits.columns, loss, count, launch.skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_CROSSENTROPY_CUH
