//===- AttentionTiles.cuh - Shared tiles and fragments ----------*- C++ -*-===//
//
// What the tensor-core attention kernels share. A tile is `rows` x dim of 16
// bits in shared memory, a row cut into chunks of 16 bytes. Chunk c of row r
// is kept at place c ^ (r % 8), so that the eight rows that one ldmatrix phase
// reads at equal c lie in different banks.
//
// Fragments are those of mma.m16n8k16 (PTX ISA, "Matrix fragments"): with g =
// lane / 4 and t = lane % 4 a thread holds, of a 16 x 8 sum, columns 2t and 2t
// + 1 of rows g and g + 8. Two neighbouring sums, rounded, are therefore the
// left operand of a next product over their 16 columns without any exchange.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONTILES_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONTILES_CUH

#include "runtime/kernels/cuda/AttentionShape.cuh"

namespace ciuic::cuda {

/// Threads of the tensor-core attention kernels: four warps, each with its own
/// rows of the left operands.
inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionWarps = kAttentionThreads / 32;

/// `x`, of which the compiler knows nothing: what is computed from it is
/// computed where it is used, not kept in registers through a loop.
__device__ __forceinline__ int computedHere(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// Elements from the start of a tile to chunk `chunk` of row `row`.
template <int dim> __device__ __forceinline__ int tileAt(int row, int chunk) {
  return row * dim + ((chunk ^ (row & 7)) * 8);
}

/// Starts the copy of rows [first, first + rows) of a sequence of `seq` rows
/// into a tile; rows from `seq` on become zero.
template <int dim, int rows, typename T>
__device__ __forceinline__ void loadTile(T *tile, const T *data, int64_t stride,
                                         int first, int seq) {
  constexpr int chunks = dim / 8;
  constexpr int step = kAttentionThreads / chunks;
  static_assert(rows % step == 0);
  const int thread = computedHere(static_cast<int>(threadIdx.x));
  const int chunk = thread % chunks, row = thread / chunks;
  const T *from = data + (first + row) * stride + chunk * 8;
#pragma unroll
  for (int i = 0; i < rows; i += step) {
    const bool valid = first + row + i < seq;
    cpAsync16(tile + tileAt<dim>(row + i, chunk), valid ? from : data, valid);
    from += step * stride;
  }
}

/// Rows [first, first + rows) of a sequence from a tile.
template <int dim, int rows, typename T>
__device__ __forceinline__ void storeTile(const T *tile, T *data,
                                          int64_t stride, int first, int seq) {
  constexpr int chunks = dim / 8;
  constexpr int step = kAttentionThreads / chunks;
  const int chunk = static_cast<int>(threadIdx.x) % chunks;
  const int row = static_cast<int>(threadIdx.x) / chunks;
#pragma unroll
  for (int i = 0; i < rows; i += step)
    if (first + row + i < seq)
      storeVector(data + (first + row + i) * stride + chunk * 8,
                  loadVector<8>(tile + tileAt<dim>(row + i, chunk)));
}

/// The left operand: rows [row, row + 16), columns [16 k, 16 k + 16). `lane` is
/// the thread's.
template <int dim, typename T>
__device__ __forceinline__ void loadLeft(uint32_t (&fragment)[4], const T *tile,
                                         int row, int k, int lane) {
  // Places differ from chunks in their low three bits only.
  const int place = ((2 * k) & 7) ^ (lane / 16 ^ (lane & 7));
  ldmatrix4(fragment,
            tile + (row + lane % 16) * dim + (2 * k & ~7) * 8 + place * 8);
}

/// The right operand with the tile's rows as columns: columns [16 n, 16 n +
/// 16) as two operands {0, 1} and {2, 3}, over tile columns [16 k, 16 k + 16).
template <int dim, typename T>
__device__ __forceinline__ void loadRightOfRows(uint32_t (&fragment)[4],
                                                const T *tile, int n, int k,
                                                int lane) {
  const int place = ((2 * k) & 7) ^ (lane / 8 % 2 ^ (lane & 7));
  ldmatrix4(fragment, tile + (16 * n + lane % 8 + lane / 16 * 8) * dim +
                          (2 * k & ~7) * 8 + place * 8);
}

/// The right operand as the tile lies: tile columns [16 n, 16 n + 16) as two
/// operands {0, 1} and {2, 3}, over tile rows [16 k, 16 k + 16).
template <int dim, typename T>
__device__ __forceinline__ void loadRightOfColumns(uint32_t (&fragment)[4],
                                                   const T *tile, int n, int k,
                                                   int lane) {
  const int place = ((2 * n) & 7) ^ (lane / 16 ^ (lane & 7));
  ldmatrix4Trans(fragment, tile + (16 * k + lane % 16) * dim +
                               (2 * n & ~7) * 8 + place * 8);
}

/// Sums of a warp: `parts` times 16 rows, 8 * `columns` columns.
template <int parts, int columns> using WarpSums = float[parts][columns][4];

template <int parts, int columns>
__device__ __forceinline__ void clear(WarpSums<parts, columns> &sums) {
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int n = 0; n < columns; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[part][n][e] = 0.0f;
}

/// sums = left · rightᵀ over dim, for the warp's rows of `left` from `row` on
/// and all 8 * columns rows of `right`.
template <int dim, int parts, int columns, typename T>
__device__ __forceinline__ void multiplyRows(WarpSums<parts, columns> &sums,
                                             const T *left, int row,
                                             const T *right) {
  const int lane = computedHere(static_cast<int>(threadIdx.x) % 32);
  clear(sums);
  // Not unrolled whole: that takes registers that other values need.
  constexpr int unrolled = dim == 64 && parts == 2 ? 2 : 4;
#pragma unroll unrolled
  for (int k = 0; k < dim / 16; ++k) {
    uint32_t a[parts][4];
#pragma unroll
    for (int part = 0; part < parts; ++part)
      loadLeft<dim>(a[part], left, row + 16 * part, k, lane);
#pragma unroll
    for (int n = 0; n < columns / 2; ++n) {
      uint32_t b[4];
      loadRightOfRows<dim>(b, right, n, k, lane);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        mma16816<T>(sums[part][2 * n], a[part], b[0], b[1]);
        mma16816<T>(sums[part][2 * n + 1], a[part], b[2], b[3]);
      }
    }
  }
}

/// sums += left · right, where `left` are sums of this warp, rounded to T, with
/// 8 * inner columns, and `right` is a tile of as many rows.
template <int dim, int parts, int inner, typename T>
__device__ __forceinline__ void multiplyAdd(WarpSums<parts, dim / 8> &sums,
                                            const WarpSums<parts, inner> &left,
                                            const T *right) {
  const int lane = computedHere(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
  for (int k = 0; k < inner / 2; ++k) {
    uint32_t a[parts][4];
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const float (&even)[4] = left[part][2 * k];
      const float (&odd)[4] = left[part][2 * k + 1];
      a[part][0] = packPair<T>(even[0], even[1]);
      a[part][1] = packPair<T>(even[2], even[3]);
      a[part][2] = packPair<T>(odd[0], odd[1]);
      a[part][3] = packPair<T>(odd[2], odd[3]);
    }
#pragma unroll
    for (int n = 0; n < dim / 16; ++n) {
      uint32_t b[4];
      loadRightOfColumns<dim>(b, right, n, k, lane);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        mma16816<T>(sums[part][2 * n], a[part], b[0], b[1]);
        mma16816<T>(sums[part][2 * n + 1], a[part], b[2], b[3]);
      }
    }
  }
}

/// Puts the warp's sums, times a factor for rows g and g + 8 of each part,
/// into rows `row` on of a tile, which only this warp has read.
template <int dim, int parts, typename T>
__device__ __forceinline__ void
roundIntoTile(T *tile, int row, const WarpSums<parts, dim / 8> &sums,
              const float (&factors)[parts][2]) {
  __syncwarp(); // Lanes read rows for each other.
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int part = 0; part < parts; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = factors[part][half];
      const int at = row + 16 * part + 8 * half + lane / 4;
#pragma unroll
      for (int n = 0; n < dim / 8; ++n)
        *reinterpret_cast<uint32_t *>(tile + tileAt<dim>(at, n) +
                                      lane % 4 * 2) =
            packPair<T>(sums[part][n][2 * half] * factor,
                        sums[part][n][2 * half + 1] * factor);
    }
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTIONTILES_CUH
