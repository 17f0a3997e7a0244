//===- Scratch.h - Memory that host kernels use while they run --*- C++ -*-===//
//
// Sizes alone, of what one thread needs: plans name them before there is any
// kernel. Nothing of the library: the builds for each instruction set include
// this.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_SCRATCH_H
#define CIUIC_RUNTIME_KERNELS_HOST_SCRATCH_H

#include <cstdint>

namespace ciuic::rt {

/// Query rows of one call of attentionForward, and keys that it sees at once.
inline constexpr int64_t attentionQueryRows = 64;
inline constexpr int64_t attentionMostKeys = 96;

constexpr int64_t roundUpTo(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

/// Floats that HostKernels::attentionForward and attentionBackward need.
constexpr int64_t attentionForwardScratch(int64_t dim) {
  int64_t width = roundUpTo(dim, 16);
  return width * (3 * attentionQueryRows + 2 * attentionMostKeys) +
         attentionMostKeys * attentionQueryRows;
}
constexpr int64_t attentionBackwardScratch(int64_t seq, int64_t dim) {
  int64_t width = roundUpTo(dim, 16);
  int64_t padded = roundUpTo(seq, attentionQueryRows);
  return 9 * padded * width + 2 * attentionMostKeys * attentionQueryRows +
         2 * padded;
}

/// Floats that HostKernels::gemm needs for a block of m x n, however many are
/// added up.
constexpr int64_t gemmScratchFloats(int64_t m, int64_t n) {
  constexpr int64_t depth = 256;
  int64_t width = roundUpTo(n, 32);
  return m * width + roundUpTo(m, 12) * depth + (width + 32) * depth;
}

/// The largest tile of a product. Wide enough that packing is a small share of
/// the work, small enough that a layer has several for each thread. Where the
/// processor multiplies bf16 itself, that is twice as fast and packs no
/// faster: tiles are taller then if that leaves enough of them.
inline constexpr int64_t gemmTileRows = 256, gemmTallTileRows = 512;
inline constexpr int64_t gemmTileColumns = 512;
inline constexpr int64_t gemmEnoughTiles = 4;

/// Bytes that one thread uses for a tile of a product, at most: the library up
/// to 2.4 MB (oneDNN 2.6.3, tiles of up to 512 x 512), packing up to 2.1 MB.
inline constexpr int64_t gemmMostScratch = 5 << 19;
static_assert(4 * gemmScratchFloats(gemmTallTileRows, gemmTileColumns) <=
              gemmMostScratch);

/// Tiles of about equal size along one side, at most `most` and multiples of
/// 16 but for the last.
constexpr int64_t gemmTileSize(int64_t extent, int64_t most) {
  int64_t tiles = extent > most ? (extent + most - 1) / most : 1;
  int64_t tile = roundUpTo((extent + tiles - 1) / tiles, 16);
  return tile < extent ? tile : extent;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_SCRATCH_H
