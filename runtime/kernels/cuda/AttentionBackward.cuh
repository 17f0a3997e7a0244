//===- AttentionBackward.cuh - Tensor-core attention, backward --*- C++ -*-===//
//
// The gradients of causal attention from its output and the log-sum-exp of its
// scores, as FlashAttention-2 (Tri Dao, 2023, section 3.1.2) recomputes them
// block by block. Unlike there, no gradient is added to by several thread
// blocks: one kernel owns blocks of keys (dk, dv), another blocks of queries
// (dq), and both recompute the scores. So every sum has one fixed order and
// runs give equal bits.
//
//   p[t, u]  = exp(scale * q[t] . k[u] - lse[t])      for u <= t
//   ds[t, u] = p[t, u] * (dy[t] . v[u] - delta[t]),   delta[t] = dy[t] . y[t]
//
// Rows of queries beyond the sequence have lse = +inf, hence p = 0, and zeros
// for q and dy. Rows of keys beyond it come after every query.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONBACKWARD_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONBACKWARD_CUH

#include "runtime/kernels/cuda/AttentionTiles.cuh"

namespace ciuic::cuda {

template <int dim> struct AttentionBackwardTiles {
  /// Times 16 rows a warp, and rows of the inner loops' blocks (queries for dk
  /// and dv, keys for dq): what the registers hold.
  static constexpr int parts = dim == 128 ? 1 : 2;
  static constexpr int rows = 16 * parts * kAttentionWarps;
  static constexpr int innerQueries = dim == 128 ? 48 : 32;
  static constexpr int innerKeys = dim == 128 ? 64 : 48;

  /// Two tiles stay, of the others one has two buffers.
  static constexpr size_t tileBytes(int innerRows) {
    return (2 * rows + 3 * innerRows) * dim * 2;
  }
  /// And lse and delta of a block of queries, twice.
  static constexpr size_t keyGradBytes =
      tileBytes(innerQueries) + 4 * innerQueries * 4;
  static constexpr size_t queryGradBytes = tileBytes(innerKeys);
};

/// delta: a group of dim / 8 lanes a row and head, heads innermost.
template <typename T, int dim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attentionDeltaKernel(AttentionBackwardArguments<T> of) {
  constexpr int lanes = dim / 8;
  const AttentionShape &shape = of.shape;
  const int64_t index =
      static_cast<int64_t>(blockIdx.x) * (kAttentionThreads / lanes) +
      threadIdx.x / lanes;
  const int64_t rows = static_cast<int64_t>(shape.sequences) * shape.seq;
  const bool valid = index < rows * shape.heads;
  const int64_t row = valid ? index / shape.heads : 0;
  const int head = valid ? static_cast<int>(index - row * shape.heads) : 0;
  const int column = head * dim + static_cast<int>(threadIdx.x) % lanes * 8;
  const auto dy = loadVector<8>(of.dy.data + row * of.dy.stride + column);
  const auto y = loadVector<8>(of.y.data + row * of.y.stride + column);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    sum += toFloat(dy[i]) * toFloat(y[i]);
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2)
    sum += shuffleXor(sum, step);
  if (valid && threadIdx.x % lanes == 0)
    of.delta.data[row * of.delta.stride + head] = sum;
}

/// dk and dv of one block of keys of one key head: the query heads of its
/// group one after another, and of each the blocks of queries from the
/// diagonal on. Scores are kept transposed, a row a key.
template <typename T, int dim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attentionKeyGradKernel(AttentionBackwardArguments<T> of) {
  using Tiles = AttentionBackwardTiles<dim>;
  constexpr int parts = Tiles::parts, queryRows = Tiles::innerQueries;
  constexpr int columns = queryRows / 8;
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place = placeOf(
      shape, (seq + Tiles::rows - 1) / Tiles::rows, 1, /*descending=*/false);
  const int firstKey = place.block * Tiles::rows;
  const int firstBlock = firstKey / queryRows;
  const int queryBlocks = (seq + queryRows - 1) / queryRows;
  const T *q = of.q.data + place.row * of.q.stride + place.head * dim;
  const T *dy = of.dy.data + place.row * of.dy.stride + place.head * dim;

  T *keys = dynamicShared<T>();
  T *values = keys + Tiles::rows * dim;
  T *grads = values + Tiles::rows * dim;
  T *queries = grads + queryRows * dim; // Two buffers.
  float *rowScalars = reinterpret_cast<float *>(queries + 2 * queryRows * dim);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warpRow = thread / 32 * 16 * parts;
  const float exponentScale = shape.scale * kLog2E;

  // Threads hold lse (in powers of two) of a block's queries, then delta.
  static_assert(2 * queryRows <= kAttentionThreads);
  auto rowScalar = [&](int head, int block) {
    const int query = block * queryRows + thread % queryRows;
    const float *from = thread < queryRows
                            ? of.lse.data + place.row * of.lse.stride
                            : of.delta.data + place.row * of.delta.stride;
    const int64_t stride = thread < queryRows ? of.lse.stride : of.delta.stride;
    if (query >= seq)
      return thread < queryRows ? __int_as_float(0x7f800000) : 0.0f;
    const float value = from[query * stride + place.head + head];
    return thread < queryRows ? value * kLog2E : value;
  };
  auto storeScalar = [&](int buffer, float value) {
    if (thread < 2 * queryRows)
      rowScalars[buffer * 2 * queryRows + thread] = value;
  };

  loadTile<dim, Tiles::rows>(
      keys, of.k.data + place.row * of.k.stride + place.kvHead * dim,
      of.k.stride, firstKey, seq);
  loadTile<dim, Tiles::rows>(
      values, of.v.data + place.row * of.v.stride + place.kvHead * dim,
      of.v.stride, firstKey, seq);
  loadTile<dim, queryRows>(queries, q, of.q.stride, firstBlock * queryRows,
                           seq);
  cpAsyncCommit();
  storeScalar(0, rowScalar(0, firstBlock));

  WarpSums<parts, dim / 8> dk, dv;
  clear(dk);
  clear(dv);
  int head = 0, block = firstBlock, buffer = 0;
  while (head < shape.group) {
    const bool lastBlock = block + 1 == queryBlocks;
    const int nextHead = lastBlock ? head + 1 : head;
    const int nextBlock = lastBlock ? firstBlock : block + 1;
    const bool more = nextHead < shape.group;
    const T *now = queries + buffer * queryRows * dim;
    cpAsyncWait<0>(); // Queries are here; no warp reads older tiles any more.
    __syncthreads();
    loadTile<dim, queryRows>(grads, dy + head * dim, of.dy.stride,
                             block * queryRows, seq);
    cpAsyncCommit();
    if (more)
      loadTile<dim, queryRows>(queries + (buffer ^ 1) * queryRows * dim,
                               q + nextHead * dim, of.q.stride,
                               nextBlock * queryRows, seq);
    cpAsyncCommit();
    const float nextScalar = more ? rowScalar(nextHead, nextBlock) : 0.0f;

    WarpSums<parts, columns> p, ds;
    multiplyRows<dim>(p, keys, warpRow, now);
    const float *lse = rowScalars + buffer * 2 * queryRows + lane % 4 * 2;
    const float *delta = lse + queryRows;
    const int key = firstKey + warpRow + lane / 4;
    const int query = block * queryRows + lane % 4 * 2;
    const bool masked = block * queryRows < firstKey + warpRow + 16 * parts - 1;
#pragma unroll
    for (int n = 0; n < columns; ++n) {
      const float2 shift = *reinterpret_cast<const float2 *>(lse + 8 * n);
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = exp2Fast(p[part][n][e] * exponentScale -
                                       (e % 2 ? shift.y : shift.x));
          p[part][n][e] =
              masked && key + 16 * part + e / 2 * 8 > query + 8 * n + e % 2
                  ? 0.0f
                  : value;
        }
    }
    cpAsyncWait<1>(); // dy is here.
    __syncthreads();
    multiplyAdd<dim>(dv, p, grads);
    multiplyRows<dim>(ds, values, warpRow, grads);
#pragma unroll
    for (int n = 0; n < columns; ++n) {
      const float2 less = *reinterpret_cast<const float2 *>(delta + 8 * n);
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          ds[part][n][e] =
              p[part][n][e] * (ds[part][n][e] - (e % 2 ? less.y : less.x));
    }
    multiplyAdd<dim>(dk, ds, now);
    storeScalar(buffer ^ 1, nextScalar);
    head = nextHead;
    block = nextBlock;
    buffer ^= 1;
  }
  cpAsyncWait<0>();

  float scales[parts][2], ones[parts][2];
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scales[part][half] = shape.scale;
      ones[part][half] = 1.0f;
    }
  roundIntoTile<dim>(keys, warpRow, dk, scales);
  roundIntoTile<dim>(values, warpRow, dv, ones);
  __syncthreads();
  storeTile<dim, Tiles::rows>(
      keys, of.dk.data + place.row * of.dk.stride + place.kvHead * dim,
      of.dk.stride, firstKey, seq);
  storeTile<dim, Tiles::rows>(
      values, of.dv.data + place.row * of.dv.stride + place.kvHead * dim,
      of.dv.stride, firstKey, seq);
}

/// dq of one block of queries of one head, over the blocks of keys up to the
/// diagonal.
template <typename T, int dim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attentionQueryGradKernel(AttentionBackwardArguments<T> of) {
  using Tiles = AttentionBackwardTiles<dim>;
  constexpr int parts = Tiles::parts, keyRows = Tiles::innerKeys;
  constexpr int columns = keyRows / 8;
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place =
      placeOf(shape, (seq + Tiles::rows - 1) / Tiles::rows, shape.group,
              /*descending=*/true);
  const int firstQuery = place.block * Tiles::rows;
  const T *k = of.k.data + place.row * of.k.stride + place.kvHead * dim;
  const T *v = of.v.data + place.row * of.v.stride + place.kvHead * dim;

  T *queries = dynamicShared<T>();
  T *grads = queries + Tiles::rows * dim;
  T *values = grads + Tiles::rows * dim;
  T *keys = values + keyRows * dim; // Two buffers.
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpRow = static_cast<int>(threadIdx.x) / 32 * 16 * parts;
  const int warpQuery = firstQuery + warpRow;
  const float exponentScale = shape.scale * kLog2E;

  loadTile<dim, Tiles::rows>(
      queries, of.q.data + place.row * of.q.stride + place.head * dim,
      of.q.stride, firstQuery, seq);
  loadTile<dim, Tiles::rows>(
      grads, of.dy.data + place.row * of.dy.stride + place.head * dim,
      of.dy.stride, firstQuery, seq);
  loadTile<dim, keyRows>(keys, k, of.k.stride, 0, seq);
  cpAsyncCommit();

  float shift[parts][2], less[parts][2];
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = warpQuery + 16 * part + 8 * half + lane / 4;
      const bool valid = query < seq;
      const int64_t row = place.row + (valid ? query : 0);
      shift[part][half] =
          valid ? of.lse.data[row * of.lse.stride + place.head] * kLog2E
                : __int_as_float(0x7f800000);
      less[part][half] =
          valid ? of.delta.data[row * of.delta.stride + place.head] : 0.0f;
    }

  WarpSums<parts, dim / 8> dq;
  clear(dq);
  const int lastKey = min(firstQuery + Tiles::rows, seq);
  int buffer = 0;
  for (int firstKey = 0; firstKey < lastKey; firstKey += keyRows) {
    const T *now = keys + buffer * keyRows * dim;
    cpAsyncWait<0>(); // Keys are here; no warp reads older tiles any more.
    __syncthreads();
    loadTile<dim, keyRows>(values, v, of.v.stride, firstKey, seq);
    cpAsyncCommit();
    if (firstKey + keyRows < lastKey)
      loadTile<dim, keyRows>(keys + (buffer ^ 1) * keyRows * dim, k,
                             of.k.stride, firstKey + keyRows, seq);
    cpAsyncCommit();

    // All keys of the block may come after the warp's queries.
    const bool seen = firstKey < warpQuery + 16 * parts;
    WarpSums<parts, columns> p, ds;
    if (seen) {
      multiplyRows<dim>(p, queries, warpRow, now);
      const int query = warpQuery + lane / 4, key = firstKey + lane % 4 * 2;
      const bool masked = firstKey + keyRows - 1 > warpQuery;
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float value =
                exp2Fast(p[part][n][e] * exponentScale - shift[part][e / 2]);
            p[part][n][e] =
                masked && key + 8 * n + e % 2 > query + 16 * part + e / 2 * 8
                    ? 0.0f
                    : value;
          }
    }
    cpAsyncWait<1>(); // Values are here.
    __syncthreads();
    if (seen) {
      multiplyRows<dim>(ds, grads, warpRow, values);
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            ds[part][n][e] =
                p[part][n][e] * (ds[part][n][e] - less[part][e / 2]);
      multiplyAdd<dim>(dq, ds, now);
    }
    buffer ^= 1;
  }
  cpAsyncWait<0>();

  float scales[parts][2];
#pragma unroll
  for (int part = 0; part < parts; ++part)
    scales[part][0] = scales[part][1] = shape.scale;
  roundIntoTile<dim>(queries, warpRow, dq, scales);
  __syncthreads();
  storeTile<dim, Tiles::rows>(
      queries, of.dq.data + place.row * of.dq.stride + place.head * dim,
      of.dq.stride, firstQuery, seq);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONBACKWARD_CUH
