//===- AttentionAny.cuh - Attention without tensor cores --------*- C++ -*-===//
//
// Causal attention for what the tensor-core kernels do not serve: f32, head
// sizes other than 64 and 128 (up to 256), rows that do not start at multiples
// of 16 bytes. Tiles are f32 in shared memory. A warp owns `warpRows` rows; for
// scores a lane is one of 32 inner rows, for sums a lane is a column, and the
// scores go from the one to the other by shuffles. Softmax is online; backward
// recomputes the scores from lse, once by blocks of keys (dk, dv) and once by
// blocks of queries (dq), so that all sums have one fixed order.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONANY_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONANY_CUH

#include "runtime/kernels/cuda/AttentionShape.cuh"

namespace ciuic::cuda {

template <int dim> struct AttentionAnyTiles {
  static_assert(dim >= 1 && dim <= 256, "head sizes up to 256");
  static constexpr int threads = 128;
  static constexpr int warpRows = dim <= 128 ? 8 : 4;
  static constexpr int rows = threads / 32 * warpRows;
  static constexpr int innerRows = 32;         ///< One a lane.
  static constexpr int wide = (dim + 31) / 32; ///< Columns of a lane.
  static constexpr int vectors = (dim + 3) / 4;
  /// Floats from row to row: an odd number of 16-byte pieces, so that lanes
  /// that read one column each of their own row meet no bank twice.
  static constexpr int stride = 4 * (vectors | 1);
  static constexpr size_t forwardBytes = (rows + 2 * innerRows) * stride * 4;
  static constexpr size_t backwardBytes =
      (2 * rows + 2 * innerRows) * stride * 4;
};

/// Rows [first, first + rows) of a sequence, as f32; zeros beyond `seq` rows
/// and beyond dim columns.
template <int dim, int rows, typename T>
__device__ inline void loadFloats(float *tile, const T *data, int64_t stride,
                                  int first, int seq) {
  using Tiles = AttentionAnyTiles<dim>;
  constexpr int columns = 4 * Tiles::vectors;
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns;
       i += Tiles::threads) {
    const int row = i / columns, column = i - row * columns;
    const bool valid = first + row < seq && column < dim;
    tile[row * Tiles::stride + column] =
        valid ? toFloat(data[(first + row) * stride + column]) : 0.0f;
  }
}

/// dots[i] = row `row` + i of `left` times row `lane` of `right`.
template <int dim>
__device__ inline void dotRows(float (&dots)[AttentionAnyTiles<dim>::warpRows],
                               const float *left, int row, const float *right) {
  using Tiles = AttentionAnyTiles<dim>;
  const float *own = right + static_cast<int>(threadIdx.x) % 32 * Tiles::stride;
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i)
    dots[i] = 0.0f;
#pragma unroll 2
  for (int v = 0; v < Tiles::vectors; ++v) {
    const Vector<float> b = loadVector<4>(own + 4 * v);
#pragma unroll
    for (int i = 0; i < Tiles::warpRows; ++i) {
      const Vector<float> a =
          loadVector<4>(left + (row + i) * Tiles::stride + 4 * v);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dots[i] += a[e] * b[e];
    }
  }
}

template <int dim>
using AnySums =
    float[AttentionAnyTiles<dim>::warpRows][AttentionAnyTiles<dim>::wide];

/// sums[i] += the weights[i] of all lanes times the rows of `right`.
template <int dim>
__device__ inline void
addWeighted(AnySums<dim> &sums,
            const float (&weights)[AttentionAnyTiles<dim>::warpRows],
            const float *right) {
  using Tiles = AttentionAnyTiles<dim>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 2
  for (int u = 0; u < Tiles::innerRows; ++u) {
    float row[Tiles::wide];
#pragma unroll
    for (int j = 0; j < Tiles::wide; ++j)
      row[j] =
          lane + 32 * j < dim ? right[u * Tiles::stride + lane + 32 * j] : 0.0f;
#pragma unroll
    for (int i = 0; i < Tiles::warpRows; ++i) {
      const float weight = shuffle(weights[i], u);
#pragma unroll
      for (int j = 0; j < Tiles::wide; ++j)
        sums[i][j] += weight * row[j];
    }
  }
}

template <int dim> __device__ inline void clearSums(AnySums<dim> &sums) {
  using Tiles = AttentionAnyTiles<dim>;
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::wide; ++j)
      sums[i][j] = 0.0f;
}

/// Row `row` of a sequence of `seq` becomes sums * factor, if there is such.
template <int dim, typename T>
__device__ inline void
storeRow(T *data, int64_t stride, int row, int seq,
         const float (&sums)[AttentionAnyTiles<dim>::wide], float factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= seq)
    return;
#pragma unroll
  for (int j = 0; j < AttentionAnyTiles<dim>::wide; ++j)
    if (lane + 32 * j < dim)
      data[row * stride + lane + 32 * j] = fromFloat<T>(sums[j] * factor);
}

/// out and lse of one block of queries of one head.
template <typename T, int dim>
__global__ void __launch_bounds__(128, 2)
    attentionForwardAnyKernel(AttentionForwardArguments<T> of) {
  using Tiles = AttentionAnyTiles<dim>;
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place =
      placeOf(shape, (seq + Tiles::rows - 1) / Tiles::rows, shape.group,
              /*descending=*/true);
  const int firstQuery = place.block * Tiles::rows;
  const T *k = of.k.data + place.row * of.k.stride + place.kvHead * dim;
  const T *v = of.v.data + place.row * of.v.stride + place.kvHead * dim;
  float *queries = dynamicShared<float>();
  float *keys = queries + Tiles::rows * Tiles::stride;
  float *values = keys + Tiles::innerRows * Tiles::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpRow = static_cast<int>(threadIdx.x) / 32 * Tiles::warpRows;
  const int warpQuery = firstQuery + warpRow;

  loadFloats<dim, Tiles::rows>(
      queries, of.q.data + place.row * of.q.stride + place.head * dim,
      of.q.stride, firstQuery, seq);
  AnySums<dim> sums;
  clearSums<dim>(sums);
  float top[Tiles::warpRows], total[Tiles::warpRows]; // total: this lane's.
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i) {
    top[i] = -HUGE_VALF;
    total[i] = 0.0f;
  }
  const int lastKey = min(firstQuery + Tiles::rows, seq);
  for (int firstKey = 0; firstKey < lastKey; firstKey += Tiles::innerRows) {
    __syncthreads(); // No warp reads the last tiles any more.
    loadFloats<dim, Tiles::innerRows>(keys, k, of.k.stride, firstKey, seq);
    loadFloats<dim, Tiles::innerRows>(values, v, of.v.stride, firstKey, seq);
    __syncthreads();
    float p[Tiles::warpRows];
    dotRows<dim>(p, queries, warpRow, keys);
#pragma unroll
    for (int i = 0; i < Tiles::warpRows; ++i) {
      // Key 0 is seen by every query: `most` is a score from the start.
      const float score =
          firstKey + lane > warpQuery + i ? -HUGE_VALF : p[i] * shape.scale;
      const float most = fmaxf(top[i], warpMax(score));
      const float shrink = expf(top[i] - most);
      top[i] = most;
      p[i] = expf(score - most);
      total[i] = total[i] * shrink + p[i];
#pragma unroll
      for (int j = 0; j < Tiles::wide; ++j)
        sums[i][j] *= shrink;
    }
    addWeighted<dim>(sums, p, values);
  }
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i) {
    const float sum = warpSum(total[i]);
    const int query = warpQuery + i;
    storeRow<dim>(of.out.data + place.row * of.out.stride + place.head * dim,
                  of.out.stride, query, seq, sums[i], 1.0f / sum);
    if (lane == 0 && query < seq)
      of.lse.data[(place.row + query) * of.lse.stride + place.head] =
          top[i] + logf(sum);
  }
}

/// delta: a warp a row and head, heads innermost.
template <typename T, int dim>
__global__ void __launch_bounds__(128, 2)
    attentionDeltaAnyKernel(AttentionBackwardArguments<T> of) {
  const AttentionShape &shape = of.shape;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  const int64_t rows = static_cast<int64_t>(shape.sequences) * shape.seq;
  if (index >= rows * shape.heads)
    return;
  const int64_t row = index / shape.heads;
  const int head = static_cast<int>(index - row * shape.heads);
  const T *dy = of.dy.data + row * of.dy.stride + head * dim;
  const T *y = of.y.data + row * of.y.stride + head * dim;
  float sum = 0.0f;
  for (int j = static_cast<int>(threadIdx.x) % 32; j < dim; j += 32)
    sum += toFloat(dy[j]) * toFloat(y[j]);
  sum = warpSum(sum);
  if (threadIdx.x % 32 == 0)
    of.delta.data[row * of.delta.stride + head] = sum;
}

/// dk and dv of one block of keys of one key head: a row a key, a lane a
/// query.
template <typename T, int dim>
__global__ void __launch_bounds__(128, 2)
    attentionKeyGradAnyKernel(AttentionBackwardArguments<T> of) {
  using Tiles = AttentionAnyTiles<dim>;
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place = placeOf(
      shape, (seq + Tiles::rows - 1) / Tiles::rows, 1, /*descending=*/false);
  const int firstKey = place.block * Tiles::rows;
  float *keys = dynamicShared<float>();
  float *values = keys + Tiles::rows * Tiles::stride;
  float *queries = values + Tiles::rows * Tiles::stride;
  float *grads = queries + Tiles::innerRows * Tiles::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpRow = static_cast<int>(threadIdx.x) / 32 * Tiles::warpRows;

  loadFloats<dim, Tiles::rows>(
      keys, of.k.data + place.row * of.k.stride + place.kvHead * dim,
      of.k.stride, firstKey, seq);
  loadFloats<dim, Tiles::rows>(
      values, of.v.data + place.row * of.v.stride + place.kvHead * dim,
      of.v.stride, firstKey, seq);
  AnySums<dim> dk, dv;
  clearSums<dim>(dk);
  clearSums<dim>(dv);
  for (int head = place.head; head < place.head + shape.group; ++head) {
    const T *q = of.q.data + place.row * of.q.stride + head * dim;
    const T *dy = of.dy.data + place.row * of.dy.stride + head * dim;
    for (int firstQuery = firstKey / Tiles::innerRows * Tiles::innerRows;
         firstQuery < seq; firstQuery += Tiles::innerRows) {
      __syncthreads(); // No warp reads the last tiles any more.
      loadFloats<dim, Tiles::innerRows>(queries, q, of.q.stride, firstQuery,
                                        seq);
      loadFloats<dim, Tiles::innerRows>(grads, dy, of.dy.stride, firstQuery,
                                        seq);
      __syncthreads();
      const int query = firstQuery + lane;
      const int64_t row = place.row + min(query, seq - 1);
      const float shift = of.lse.data[row * of.lse.stride + head];
      const float delta = of.delta.data[row * of.delta.stride + head];
      float p[Tiles::warpRows], ds[Tiles::warpRows];
      dotRows<dim>(p, keys, warpRow, queries);
      dotRows<dim>(ds, values, warpRow, grads);
#pragma unroll
      for (int i = 0; i < Tiles::warpRows; ++i) {
        p[i] = query >= seq || firstKey + warpRow + i > query
                   ? 0.0f
                   : expf(p[i] * shape.scale - shift);
        ds[i] = p[i] * (ds[i] - delta);
      }
      addWeighted<dim>(dv, p, grads);
      addWeighted<dim>(dk, ds, queries);
    }
  }
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i) {
    const int key = firstKey + warpRow + i;
    storeRow<dim>(of.dk.data + place.row * of.dk.stride + place.kvHead * dim,
                  of.dk.stride, key, seq, dk[i], shape.scale);
    storeRow<dim>(of.dv.data + place.row * of.dv.stride + place.kvHead * dim,
                  of.dv.stride, key, seq, dv[i], 1.0f);
  }
}

/// dq of one block of queries of one head: a row a query, a lane a key.
template <typename T, int dim>
__global__ void __launch_bounds__(128, 2)
    attentionQueryGradAnyKernel(AttentionBackwardArguments<T> of) {
  using Tiles = AttentionAnyTiles<dim>;
  const AttentionShape &shape = of.shape;
  const int seq = shape.seq;
  const AttentionPlace place =
      placeOf(shape, (seq + Tiles::rows - 1) / Tiles::rows, shape.group,
              /*descending=*/true);
  const int firstQuery = place.block * Tiles::rows;
  const T *k = of.k.data + place.row * of.k.stride + place.kvHead * dim;
  const T *v = of.v.data + place.row * of.v.stride + place.kvHead * dim;
  float *queries = dynamicShared<float>();
  float *grads = queries + Tiles::rows * Tiles::stride;
  float *keys = grads + Tiles::rows * Tiles::stride;
  float *values = keys + Tiles::innerRows * Tiles::stride;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warpRow = static_cast<int>(threadIdx.x) / 32 * Tiles::warpRows;
  const int warpQuery = firstQuery + warpRow;

  loadFloats<dim, Tiles::rows>(
      queries, of.q.data + place.row * of.q.stride + place.head * dim,
      of.q.stride, firstQuery, seq);
  loadFloats<dim, Tiles::rows>(
      grads, of.dy.data + place.row * of.dy.stride + place.head * dim,
      of.dy.stride, firstQuery, seq);
  float shift[Tiles::warpRows], delta[Tiles::warpRows];
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i) {
    const int64_t row = place.row + min(warpQuery + i, seq - 1);
    shift[i] = of.lse.data[row * of.lse.stride + place.head];
    delta[i] = of.delta.data[row * of.delta.stride + place.head];
  }
  AnySums<dim> dq;
  clearSums<dim>(dq);
  const int lastKey = min(firstQuery + Tiles::rows, seq);
  for (int firstKey = 0; firstKey < lastKey; firstKey += Tiles::innerRows) {
    __syncthreads(); // No warp reads the last tiles any more.
    loadFloats<dim, Tiles::innerRows>(keys, k, of.k.stride, firstKey, seq);
    loadFloats<dim, Tiles::innerRows>(values, v, of.v.stride, firstKey, seq);
    __syncthreads();
    float p[Tiles::warpRows], ds[Tiles::warpRows];
    dotRows<dim>(p, queries, warpRow, keys);
    dotRows<dim>(ds, grads, warpRow, values);
#pragma unroll
    for (int i = 0; i < Tiles::warpRows; ++i)
      ds[i] = firstKey + lane > warpQuery + i
                  ? 0.0f
                  : expf(p[i] * shape.scale - shift[i]) * (ds[i] - delta[i]);
    addWeighted<dim>(dq, ds, keys);
  }
#pragma unroll
  for (int i = 0; i < Tiles::warpRows; ++i)
    storeRow<dim>(of.dq.data + place.row * of.dq.stride + place.head * dim,
                  of.dq.stride, warpQuery + i, seq, dq[i], shape.scale);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONANY_CUH
