//===- Staging.cpp - Pinned memory between callers and devices ------------===//
#include "runtime/task/cuda/Staging.h"

namespace ciuic::rt {

Result<Staging> Staging::allocate(std::span<const CudaDevice> devices,
                                  uint32_t localRanks) {
  Staging staging;
  for (uint32_t rank = 0; rank < localRanks; ++rank) {
    const CudaDevice &device = devices[devices.size() == 1 ? 0 : rank];
    CIUIC_TRY_ASSIGN(PinnedArena arena,
                     PinnedArena::allocate(device, pieceBytes * piecesPerRank,
                                           "staging memory"));
    std::vector<StagingPiece> row(piecesPerRank);
    for (uint32_t i = 0; i < piecesPerRank; ++i) {
      row[i].data = arena.base() + i * pieceBytes;
      CIUIC_TRY_ASSIGN(row[i].copied, CudaEvent::create(CudaEvent::Use::Block));
    }
    staging.memory.push_back(std::move(arena));
    staging.pieces.push_back(std::move(row));
  }
  return staging;
}

Result<StagingPiece *> Staging::acquire(MachineState &state, uint32_t localRank,
                                        bool write, bool mayWait) {
  StagingPiece *found = nullptr;
  bool mustWait = false;
  auto look = [&] {
    StagingPiece *oldest = nullptr;
    for (StagingPiece &piece : pieces[localRank]) {
      if (piece.isFree) {
        oldest = &piece;
        break;
      }
      // A write's piece is given back by nobody: it is taken again.
      if (piece.write && piece.enqueued &&
          (!oldest || piece.order < oldest->order))
        oldest = &piece;
    }
    if (!oldest)
      return false;
    mustWait = !oldest->isFree;
    oldest->isFree = oldest->enqueued = false;
    oldest->write = write;
    oldest->order = nextOrder++;
    found = oldest;
    return true;
  };
  if (mayWait) {
    CIUIC_TRY(state.waitUntil(look));
  } else {
    std::scoped_lock lock(state.mutex);
    if (!look())
      return nullptr;
  }
  if (mustWait)
    CIUIC_TRY_CUDA(cudaEventSynchronize, found->copied.get());
  return found;
}

void Staging::enqueued(MachineState &state, StagingPiece &piece) {
  {
    std::scoped_lock lock(state.mutex);
    piece.enqueued = true;
  }
  state.changed.notify_all();
}

Status Staging::wait(MachineState &state, StagingPiece &piece) {
  CIUIC_TRY(state.waitUntil([&] { return piece.enqueued; }));
  CIUIC_TRY_CUDA(cudaEventSynchronize, piece.copied.get());
  // Something may have failed in between, and what was copied is worth nothing.
  return state.failed() ? state.status() : Status();
}

void Staging::release(MachineState &state, StagingPiece &piece) {
  {
    std::scoped_lock lock(state.mutex);
    piece.isFree = true;
    piece.enqueued = false;
  }
  state.changed.notify_all();
}

uint64_t Staging::bytes() const {
  uint64_t sum = 0;
  for (const PinnedArena &arena : memory)
    sum += arena.bytes();
  return sum;
}

} // namespace ciuic::rt
