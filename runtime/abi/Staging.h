//===- Staging.h - Host memory of a run beside its arenas -------*- C++ -*-===//
//
// States go in and out in pieces of fixed size: what a process takes for that,
// besides its arenas, does not grow with the model.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ABI_STAGING_H
#define CIUIC_RUNTIME_ABI_STAGING_H

#include <cstdint>

namespace ciuic::abi {

/// Bytes that all threads of a process stage together while states get their
/// first values, or those of weights or of a checkpoint.
inline constexpr uint64_t kFillStagingBytes = uint64_t(32) << 20;

/// Bytes of the piece of one tensor that is collected for a checkpoint or an
/// export,
inline constexpr uint64_t kSavePieceBytes = uint64_t(16) << 20;
/// and with what converts it, writes it and sums it up.
inline constexpr uint64_t kSaveStagingBytes =
    kSavePieceBytes + (uint64_t(2) << 20);

} // namespace ciuic::abi

#endif // CIUIC_RUNTIME_ABI_STAGING_H
