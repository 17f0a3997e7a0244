//===- Workspace.h - Scratch of each thread, set aside at load --*- C++ -*-===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_WORKSPACE_H
#define CIUIC_RUNTIME_KERNELS_HOST_WORKSPACE_H

#include "runtime/device/host/HostArena.h"

#include <algorithm>
#include <tbb/task_arena.h>

namespace ciuic::rt {

/// Scratch memory that tasks share: one piece a thread, as large as the most
/// demanding task asked for when it was prepared.
class Workspace {
public:
  /// Asks for `bytes` on the thread that runs a chunk. Before commit() only.
  void reserve(uint64_t bytes) {
    slotBytes = std::max(slotBytes, (bytes + 4095) / 4096 * 4096);
  }

  /// Allocates for up to `threads` threads; again after more was reserved.
  Status commit(int threads) {
    uint64_t needed = slotBytes * static_cast<uint64_t>(threads);
    slots = threads;
    if (needed <= memory.bytes())
      return {};
    memory = HostArena();
    CIUIC_TRY_ASSIGN(memory,
                     HostArena::allocate(needed, "task scratch", false));
    return {};
  }

  uint64_t bytes() const { return memory.bytes(); }

  /// The calling thread's piece, aligned to 4096 bytes. To be used between
  /// two calls of parallelFor, or within a chunk of one.
  std::byte *local() const {
    int slot = tbb::this_task_arena::current_thread_index();
    return memory.base() +
           slotBytes *
               static_cast<uint64_t>(slot < 0 || slot >= slots ? 0 : slot);
  }

private:
  uint64_t slotBytes = 0;
  int slots = 0;
  HostArena memory;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_WORKSPACE_H
