//===- Staging.h - Pinned memory between callers and devices ----*- C++ -*-===//
//
// What callers read and write passes through pieces of pinned memory, a fixed
// number a rank: a write returns when its bytes are in pieces, which are copied
// in order with the programs, so that the next batch is under way while the
// device still works on the last.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_STAGING_H
#define CIUIC_RUNTIME_TASK_CUDA_STAGING_H

#include "runtime/abi/Staging.h"
#include "runtime/device/cuda/CudaArena.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/task/cuda/MachineState.h"

#include <span>
#include <vector>

namespace ciuic::rt {

/// A piece on its way. `enqueued` is guarded by the machine's mutex.
struct StagingPiece {
  std::byte *data = nullptr;
  CudaEvent copied; ///< Recorded behind the copy.
  bool isFree = true;
  bool enqueued = false; ///< The copy and its event are.
  bool write = false;
  uint64_t order = 0;
};

class Staging {
public:
  static constexpr uint64_t pieceBytes = abi::kPinnedPieceBytes;
  static constexpr uint32_t piecesPerRank = abi::kPinnedPieces;

  static Result<Staging> allocate(std::span<const CudaDevice> devices,
                                  uint32_t localRanks);

  /// A piece of a rank (counted within the process) for one copy, free or of
  /// a write that is done. Null, unless `mayWait`, if all are in use by reads.
  Result<StagingPiece *> acquire(MachineState &state, uint32_t localRank,
                                 bool write, bool mayWait);

  /// By the enqueue thread, when the copy and its event are enqueued.
  static void enqueued(MachineState &state, StagingPiece &piece);

  /// Sleeps until a piece's copy is done.
  static Status wait(MachineState &state, StagingPiece &piece);

  /// Gives a read's piece back.
  static void release(MachineState &state, StagingPiece &piece);

  uint64_t bytes() const;

private:
  std::vector<PinnedArena> memory; ///< Of each rank.
  std::vector<std::vector<StagingPiece>> pieces;
  uint64_t nextOrder = 0;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_STAGING_H
