//===- AttentionForward.cuh - Tensor-core attention, forward ----*- C++ -*-===//
//
// Causal attention with online softmax over blocks of keys: FlashAttention-2
// (Tri Dao, "FlashAttention-2: Faster Attention with Better Parallelism and
// Work Partitioning", 2023), algorithm 1. Written here for mma.m16n8k16 with
// 16-bit operands and f32 sums.
//
// A block of threads owns `queryRows` queries of one head; each of its four
// warps owns whole rows, so maxima and sums never leave a warp. Keys and
// values alternate: while scores are made the values arrive, while values are
// summed the next keys do. Blocks of keys after the last query are not
// visited. Key 0 is seen by every query, so after the first block each running
// maximum is a score: no special case for rows without keys.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONFORWARD_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONFORWARD_CUH

#include "runtime/kernels/cuda/AttentionTiles.cuh"

namespace ciuic::cuda {

template <int dim> struct AttentionForwardTiles {
  static constexpr int parts = 2; ///< Times 16 queries a warp.
  static constexpr int queryRows = 16 * parts * kAttentionWarps;
  static constexpr int keyRows = dim == 128 ? 32 : 64; ///< By registers.
  static constexpr size_t sharedBytes = (queryRows + 2 * keyRows) * dim * 2;
};

/// One block of queryRows queries of one head: out and lse of these rows.
template <typename T, int dim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attentionForwardKernel(AttentionForwardArguments<T> of) {
  using Tiles = AttentionForwardTiles<dim>;
  constexpr int parts = Tiles::parts, keyRows = Tiles::keyRows;
  constexpr int columns = keyRows / 8;
  const float infinity = __int_as_float(0x7f800000);
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place =
      placeOf(shape, (seq + Tiles::queryRows - 1) / Tiles::queryRows,
              shape.group, /*descending=*/true);
  const int firstQuery = place.block * Tiles::queryRows;
  const T *k = of.k.data + place.row * of.k.stride + place.kvHead * dim;
  const T *v = of.v.data + place.row * of.v.stride + place.kvHead * dim;

  T *queries = dynamicShared<T>();
  T *keys = queries + Tiles::queryRows * dim;
  T *values = keys + keyRows * dim;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpRow = static_cast<int>(threadIdx.x) / 32 * 16 * parts;
  const int warpQuery = firstQuery + warpRow;
  const float exponentScale = shape.scale * kLog2E;

  loadTile<dim, Tiles::queryRows>(
      queries, of.q.data + place.row * of.q.stride + place.head * dim,
      of.q.stride, firstQuery, seq);
  loadTile<dim, keyRows>(keys, k, of.k.stride, 0, seq);
  cpAsyncCommit();

  WarpSums<parts, dim / 8> sums;
  float top[parts][2], total[parts][2];
  clear(sums);
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[part][half] = -infinity;
      total[part][half] = 0.0f;
    }

  const int lastKey = min(firstQuery + Tiles::queryRows, seq);
  for (int firstKey = 0; firstKey < lastKey; firstKey += keyRows) {
    cpAsyncWait<0>(); // Keys are here; no warp reads the last values any more.
    __syncthreads();
    loadTile<dim, keyRows>(values, v, of.v.stride, firstKey, seq);
    cpAsyncCommit();

    // A warp may be done before the block's last queries are.
    const bool seen = firstKey < warpQuery + 16 * parts;
    WarpSums<parts, columns> scores;
    if (seen) {
      multiplyRows<dim>(scores, queries, warpRow, keys);
      if (firstKey + keyRows - 1 > warpQuery) {
        const int query = warpQuery + lane / 4, key = firstKey + lane % 4 * 2;
#pragma unroll
        for (int part = 0; part < parts; ++part)
#pragma unroll
          for (int n = 0; n < columns; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (key + 8 * n + e % 2 > query + 16 * part + e / 2 * 8)
                scores[part][n][e] = -infinity;
      }
      // The shift of a row's exponents follows its maximum only where that
      // grew by more than 2^8: larger exponentials are as exact, and most
      // blocks need not scale the sums.
      float most[parts][2];
      bool grows = false;
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float found = top[part][half];
#pragma unroll
          for (int n = 0; n < columns; ++n)
            found = fmaxf(found, fmaxf(scores[part][n][2 * half],
                                       scores[part][n][2 * half + 1]));
          found = fmaxf(found, shuffleXor(found, 1));
          found = fmaxf(found, shuffleXor(found, 2));
          most[part][half] = found;
          grows |= (found - top[part][half]) * exponentScale > 8.0f;
        }
      if (anyLane(grows)) {
#pragma unroll
        for (int part = 0; part < parts; ++part)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float shrink =
                exp2Fast((top[part][half] - most[part][half]) * exponentScale);
            top[part][half] = most[part][half];
            total[part][half] *= shrink;
#pragma unroll
            for (int n = 0; n < dim / 8; ++n) {
              sums[part][n][2 * half] *= shrink;
              sums[part][n][2 * half + 1] *= shrink;
            }
          }
      }
#pragma unroll
      for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float shift = top[part][half] * exponentScale;
#pragma unroll
          for (int n = 0; n < columns; ++n)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; ++e) {
              const float p =
                  exp2Fast(scores[part][n][e] * exponentScale - shift);
              scores[part][n][e] = p;
              total[part][half] += p;
            }
        }
    }

    cpAsyncWait<0>(); // Values are here; no warp reads these keys any more.
    __syncthreads();
    if (firstKey + keyRows < lastKey)
      loadTile<dim, keyRows>(keys, k, of.k.stride, firstKey + keyRows, seq);
    cpAsyncCommit();
    if (seen)
      multiplyAdd<dim>(sums, scores, values);
  }
  cpAsyncWait<0>();

  float *lse = of.lse.data + place.row * of.lse.stride + place.head;
  float factors[parts][2];
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = total[part][half];
      sum += shuffleXor(sum, 1);
      sum += shuffleXor(sum, 2);
      factors[part][half] = 1.0f / sum;
      const int query = warpQuery + 16 * part + 8 * half + lane / 4;
      if (lane % 4 == 0 && query < seq)
        lse[query * of.lse.stride] = top[part][half] * shape.scale + logf(sum);
    }
  roundIntoTile<dim>(queries, warpRow, sums, factors);
  __syncthreads();
  storeTile<dim, Tiles::queryRows>(
      queries, of.out.data + place.row * of.out.stride + place.head * dim,
      of.out.stride, firstQuery, seq);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONFORWARD_CUH
