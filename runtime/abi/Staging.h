//===- Staging.h - Host memory of a run beside its arenas -------*- C++ -*-===//
//
// States go in and out in pieces of fixed size, and so does what processes and
// devices exchange: what a process takes for that, besides its arenas, does
// not grow with the model. The runtime keeps to these numbers, and plans name
// them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ABI_STAGING_H
#define CIUIC_RUNTIME_ABI_STAGING_H

#include <algorithm>
#include <cstdint>

namespace ciuic::abi {

/// Bytes that all threads of a process stage together while states get their
/// first values, or those of weights or of a checkpoint.
inline constexpr uint64_t kFillStagingBytes = uint64_t(32) << 20;

/// Of those, for one element: itself in f32, converted to a state's type, and
/// as the file has it.
inline constexpr uint64_t kFillElementBytes = 4 + 8 + 8;

/// Bytes of the piece of one tensor that is collected for a checkpoint or an
/// export,
inline constexpr uint64_t kSavePieceBytes = uint64_t(16) << 20;
/// and with what converts it, writes it and sums it up.
inline constexpr uint64_t kSaveStagingBytes =
    kSavePieceBytes + (uint64_t(2) << 20);

/// About as many bytes of a reduction are packed for one exchange with other
/// processes,
inline constexpr int64_t kExchangeBytes = int64_t(16) << 20;
/// but so many elements at least.
inline constexpr int64_t kLeastExchanged = 256;

/// Pinned memory between callers and a CUDA device, for each rank.
inline constexpr uint64_t kPinnedPieceBytes = uint64_t(1) << 20;
inline constexpr uint32_t kPinnedPieces = 8;

/// Rows and columns of the matrices with which the rate of products is
/// measured.
inline constexpr int64_t kMeasuredProduct = 1024;

/// Bytes that one process packs at most for a reduction over `ranks` ranks,
/// `mostLocal` of them in one process, of elements of `width` bytes.
constexpr int64_t exchangeStaging(int64_t ranks, int64_t mostLocal,
                                  int64_t width) {
  return std::max(kExchangeBytes,
                  kLeastExchanged * width * ranks * 2 * mostLocal);
}

} // namespace ciuic::abi

#endif // CIUIC_RUNTIME_ABI_STAGING_H
