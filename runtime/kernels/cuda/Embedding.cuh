//===- Embedding.cuh - Rows of a table, and their gradient ------*- CUDA
//-*-===//
//
// The gradient adds the rows of each token in rising order, as a plain loop
// would: integer counters sort the rows by token first, then one warp sums a
// piece of a table row. No float atomics, so the bits never change.
//
// Token ids were checked on the host; here they are only kept within the
// table, so that no id reads or writes beyond it.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_EMBEDDING_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_EMBEDDING_CUH

#include "runtime/kernels/cuda/Elements.cuh"

namespace ciuic::cuda {

inline constexpr unsigned embeddingThreads = 256;
inline constexpr unsigned embeddingWarps = embeddingThreads / kWarp;
/// Blocks of sumListsKernel that a multiprocessor holds at once.
inline constexpr unsigned listBlocks = 4;

__device__ inline int32_t withinTable(int32_t token, int32_t last) {
  return token < 0 ? 0 : token < last ? token : last;
}

template <typename T> struct EmbedElements {
  const int32_t *tokens;
  const T *table;
  T *out;
  int64_t tableStride, outStride;
  int32_t last;

  template <int N> __device__ void at(int64_t row, int64_t column) const {
    int64_t token = withinTable(tokens[row], last);
    storeVector(out + row * outStride + column,
                loadVector<N>(table + token * tableStride + column));
  }
};

/// Whether a table has rows for tokens, and both numbers fit in 32 bits.
inline bool areCounts(int64_t rows, int64_t tableRows) {
  return rows < INT32_MAX && tableRows < INT32_MAX &&
         (rows == 0 || tableRows > 0);
}

/// tokens, table -> out.
template <typename T>
cudaError_t launchEmbedding(const abi::CudaLaunch &launch) {
  int32_t *tokens = nullptr;
  Matrix<T> table, out;
  if (!hasCounts(launch, 3, 0, 0) || !take(launch, 1, table) ||
      !take(launch, 2, out) || out.columns != table.columns ||
      !takeList(launch, 0, tokens, out.rows) ||
      !areCounts(out.rows, table.rows))
    return cudaErrorInvalidValue;
  return launchElements<16 / sizeof(T)>(
      launch, out.rows, out.columns, false,
      hasAlignedRows(table) && hasAlignedRows(out),
      EmbedElements<T>{tokens, table.data, out.data, table.stride, out.stride,
                       static_cast<int32_t>(table.rows - 1)});
}

//===----------------------------------------------------------------------===//
// Rows sorted by token
//===----------------------------------------------------------------------===//

/// The scratch of the gradient: `rows` of dy, `tokens` rows of the table.
struct TokenLists {
  int32_t rows, tokens;
  /// tokens + 1: how often each token occurs, then where its list begins.
  int32_t *starts;
  /// At most 1024: tokens that occur in each segment of `starts`.
  int32_t *segments;
  /// rows: rows by token, those of one token in any order.
  int32_t *unordered;
  /// rows: the place of each row in its list; then rows by token, rising.
  int32_t *ordered;
  int32_t segmentTokens;
};

static __global__ void __launch_bounds__(embeddingThreads)
    clearCountsKernel(TokenLists lists, const float *skip) {
  if (isSkipped(skip))
    return;
  for (int64_t i = int64_t(blockIdx.x) * embeddingThreads + threadIdx.x;
       i <= lists.tokens; i += int64_t(gridDim.x) * embeddingThreads)
    lists.starts[i] = 0;
}

/// Counts tokens. A row's place in its list depends on the order of threads;
/// orderListsKernel undoes that.
static __global__ void __launch_bounds__(embeddingThreads)
    countTokensKernel(const int32_t *tokens, TokenLists lists,
                      const float *skip) {
  if (isSkipped(skip))
    return;
  for (int64_t i = int64_t(blockIdx.x) * embeddingThreads + threadIdx.x;
       i < lists.rows; i += int64_t(gridDim.x) * embeddingThreads)
    lists.ordered[i] =
        atomicAdd(&lists.starts[withinTable(tokens[i], lists.tokens - 1)], 1);
}

/// Grid: one block a segment.
static __global__ void __launch_bounds__(embeddingThreads)
    sumSegmentsKernel(TokenLists lists, const float *skip) {
  if (isSkipped(skip))
    return;
  int64_t begin = int64_t(blockIdx.x) * lists.segmentTokens;
  int64_t end = begin + lists.segmentTokens;
  end = end < lists.tokens ? end : lists.tokens;
  int sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += embeddingThreads)
    sum += lists.starts[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    lists.segments[blockIdx.x] = sum;
}

/// The sum of `x` over the threads before this one, on each; the sum over all
/// in `total`.
__device__ inline int sumBefore(int x, int &total) {
  __shared__ int warps[embeddingWarps];
  unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  int sum = x; // Over this lane and those before it.
#pragma unroll
  for (unsigned by = 1; by < kWarp; by *= 2) {
    int other = shuffleUp(sum, by);
    sum += lane >= by ? other : 0;
  }
  __syncthreads(); // Sums of a call before may still be read.
  if (lane == kWarp - 1)
    warps[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
#pragma unroll
  for (unsigned w = 0; w < embeddingWarps; ++w) {
    before += w < warp ? warps[w] : 0;
    total += warps[w];
  }
  return before + sum - x;
}

/// Grid: one block a segment. Turns counts into beginnings.
static __global__ void __launch_bounds__(embeddingThreads)
    startListsKernel(TokenLists lists, const float *skip) {
  if (isSkipped(skip))
    return;
  int base = 0;
  for (unsigned i = threadIdx.x; i < blockIdx.x; i += embeddingThreads)
    base += lists.segments[i];
  base = blockSum(base);
  int64_t begin = int64_t(blockIdx.x) * lists.segmentTokens;
  int64_t end = begin + lists.segmentTokens;
  end = end < lists.tokens ? end : lists.tokens;
  for (; begin < end; begin += embeddingThreads) {
    int64_t i = begin + threadIdx.x;
    int total = 0;
    int before = sumBefore(i < end ? lists.starts[i] : 0, total);
    if (i < end)
      lists.starts[i] = base + before;
    base += total;
  }
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0)
    lists.starts[lists.tokens] = base;
}

static __global__ void __launch_bounds__(embeddingThreads)
    fillListsKernel(const int32_t *tokens, TokenLists lists,
                    const float *skip) {
  if (isSkipped(skip))
    return;
  for (int64_t i = int64_t(blockIdx.x) * embeddingThreads + threadIdx.x;
       i < lists.rows; i += int64_t(gridDim.x) * embeddingThreads) {
    int32_t token = withinTable(tokens[i], lists.tokens - 1);
    lists.unordered[lists.starts[token] + lists.ordered[i]] =
        static_cast<int32_t>(i);
  }
}

/// Moves each row behind the lesser rows of its list. Threads of one list read
/// the same words at the same time, so even one list of all rows is quick.
static __global__ void __launch_bounds__(embeddingThreads)
    orderListsKernel(const int32_t *tokens, TokenLists lists,
                     const float *skip) {
  if (isSkipped(skip))
    return;
  for (int64_t i = int64_t(blockIdx.x) * embeddingThreads + threadIdx.x;
       i < lists.rows; i += int64_t(gridDim.x) * embeddingThreads) {
    int32_t row = lists.unordered[i];
    int32_t token = withinTable(tokens[row], lists.tokens - 1);
    int32_t begin = lists.starts[token], end = lists.starts[token + 1];
    int32_t place = begin;
#pragma unroll 8
    for (int32_t j = begin; j < end; ++j)
      place += lists.unordered[j] < row ? 1 : 0;
    lists.ordered[place] = row;
  }
}

/// Grid: table rows, a warp each in turn, x pieces of 32 vectors of columns.
template <typename T, int N, bool add>
__global__ void __launch_bounds__(embeddingThreads, listBlocks)
    sumListsKernel(const T *dy, int64_t dyStride, int64_t columns,
                   TokenLists lists, T *out, int64_t outStride,
                   const float *skip) {
  constexpr int batch = 4; // Rows whose loads are under way at once.
  if (isSkipped(skip))
    return;
  int lane = static_cast<int>(threadIdx.x % kWarp);
  int64_t column = (int64_t(blockIdx.y) * kWarp + lane) * N;
  bool inside = column < columns;
  int64_t first = int64_t(blockIdx.x) * embeddingWarps + threadIdx.x / kWarp;
  for (int64_t token = first; token < lists.tokens;
       token += int64_t(gridDim.x) * embeddingWarps) {
    int32_t begin = lists.starts[token], end = lists.starts[token + 1];
    if (add && begin == end)
      continue;
    float sums[N] = {};
    for (; begin < end; begin += static_cast<int32_t>(kWarp)) {
      int count = end - begin < int(kWarp) ? end - begin : int(kWarp);
      int32_t mine = lane < count ? lists.ordered[begin + lane] : 0;
      int at = 0;
#pragma unroll 1
      for (; at + batch <= count; at += batch) {
        Vector<T, N> x[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
          int64_t row = shuffle(mine, at + i);
          if (inside)
            x[i] = loadVector<N>(dy + row * dyStride + column);
        }
        if (inside)
#pragma unroll
          for (int i = 0; i < batch; ++i)
#pragma unroll
            for (int j = 0; j < N; ++j)
              sums[j] += toFloat(x[i][j]);
      }
#pragma unroll 1
      for (; at < count; ++at) {
        int64_t row = shuffle(mine, at);
        if (!inside)
          continue;
        Vector<T, N> x = loadVector<N>(dy + row * dyStride + column);
#pragma unroll
        for (int j = 0; j < N; ++j)
          sums[j] += toFloat(x[j]);
      }
    }
    if (!inside)
      continue;
    T *target = out + token * outStride + column;
    if constexpr (add) {
      Vector<T, N> before = loadVector<N>(target);
#pragma unroll
      for (int j = 0; j < N; ++j)
        sums[j] = toFloat(before[j]) + sums[j];
    }
    storeVector(target, rounded<T>(sums));
  }
}

/// dy, tokens -> out (V x D); ints: accumulate. Scratch: (2 R + V + 1 + 1024)
/// words of 4 bytes for R rows of dy.
template <typename T>
cudaError_t launchEmbeddingGrad(const abi::CudaLaunch &launch) {
  Matrix<T> dy, out;
  int32_t *tokens = nullptr;
  if (!hasCounts(launch, 3, 1, 0) || !take(launch, 0, dy) ||
      !take(launch, 2, out) || out.columns != dy.columns ||
      !takeList(launch, 1, tokens, dy.rows) || !areCounts(dy.rows, out.rows))
    return cudaErrorInvalidValue;
  if (out.elements() == 0)
    return cudaSuccess;
  bool add = launch.ints[0] != 0;

  TokenLists lists{};
  lists.rows = static_cast<int32_t>(dy.rows);
  lists.tokens = static_cast<int32_t>(out.rows);
  int64_t segments = (out.rows + 1023) / 1024;
  segments = segments < 1024 ? segments : 1024;
  lists.segmentTokens =
      static_cast<int32_t>((out.rows + segments - 1) / segments);
  auto rows = static_cast<uint64_t>(dy.rows);
  lists.starts = takeScratch<int32_t>(
      launch, 0, 2 * rows + static_cast<uint64_t>(out.rows) + 1025);
  if (!lists.starts)
    return cudaErrorInvalidValue;
  lists.segments = lists.starts + out.rows + 1;
  lists.unordered = lists.segments + 1024;
  lists.ordered = lists.unordered + dy.rows;

  cudaStream_t stream = streamOf(launch);
  const float *skip = launch.skip;
  dim3 block(embeddingThreads);
  auto grid = [&](uint64_t units) {
    return dim3(fillingGrid(units, embeddingThreads, embeddingThreads,
                            launch.processors));
  };
  dim3 perRow = grid(rows), perSegment(static_cast<unsigned>(segments));
  cudaError_t error =
      cuda::launch(clearCountsKernel, grid(static_cast<uint64_t>(out.rows) + 1),
                   block, 0, stream, lists, skip);
  if (error == cudaSuccess)
    error = cuda::launch(countTokensKernel, perRow, block, 0, stream, tokens,
                         lists, skip);
  if (error == cudaSuccess)
    error = cuda::launch(sumSegmentsKernel, perSegment, block, 0, stream, lists,
                         skip);
  if (error == cudaSuccess)
    error = cuda::launch(startListsKernel, perSegment, block, 0, stream, lists,
                         skip);
  if (error == cudaSuccess)
    error = cuda::launch(fillListsKernel, perRow, block, 0, stream, tokens,
                         lists, skip);
  if (error == cudaSuccess)
    error = cuda::launch(orderListsKernel, perRow, block, 0, stream, tokens,
                         lists, skip);
  if (error != cudaSuccess)
    return error;

  constexpr int width = 16 / static_cast<int>(sizeof(T));
  bool wide =
      hasAlignedRows(dy) && hasAlignedRows(out) && out.columns % width == 0;
  int64_t piece = kWarp * (wide ? width : 1);
  int64_t pieces = (out.columns + piece - 1) / piece;
  if (pieces > 65535)
    return cudaErrorInvalidValue;
  auto kernel = wide  ? add ? sumListsKernel<T, width, true>
                            : sumListsKernel<T, width, false>
                : add ? sumListsKernel<T, 1, true>
                      : sumListsKernel<T, 1, false>;
  unsigned blocks = fillingGrid(static_cast<uint64_t>(out.rows), embeddingWarps,
                                embeddingThreads, launch.processors);
  return cuda::launch(kernel, dim3(blocks, static_cast<unsigned>(pieces)),
                      block, 0, stream, dy.data, dy.stride, dy.columns, lists,
                      out.data, out.stride, skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_EMBEDDING_CUH
