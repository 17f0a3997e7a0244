//===- HostArena.h - The memory of a virtual device -------------*- C++ -*-===//
//
// Each rank has one allocation an arena, made before the first step and kept
// to the end. Pages are huge where the system lets them be, and touched at
// once: a page fault in a step costs more than the work on the page.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DEVICE_HOST_HOSTARENA_H
#define CIUIC_RUNTIME_DEVICE_HOST_HOSTARENA_H

#include "runtime/base/RankRange.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ciuic::rt {

/// What was allocated for tensors in this process so far. Tests read it before
/// the first and after the last task of a run: it must not change between.
struct TensorMemory {
  uint64_t bytes = 0;       ///< Held now, as asked for.
  uint64_t peakBytes = 0;   ///< The most ever held.
  uint64_t allocations = 0; ///< Made so far, freed ones included.
};
TensorMemory tensorMemory();

/// One zeroed allocation, aligned to 2 MiB.
class HostArena {
public:
  /// `what` names it in the message when there is no memory (Code::Machine).
  /// Only what is `forTensors` is counted in tensorMemory().
  static Result<HostArena> allocate(uint64_t bytes, const std::string &what,
                                    bool forTensors = true);

  HostArena() = default;
  HostArena(HostArena &&other) noexcept { *this = std::move(other); }
  HostArena &operator=(HostArena &&other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
    std::swap(mapping, other.mapping);
    std::swap(mappedBytes, other.mappedBytes);
    std::swap(counted, other.counted);
    return *this;
  }
  ~HostArena();

  std::byte *base() const { return data; }
  uint64_t bytes() const { return size; }

private:
  std::byte *data = nullptr;
  uint64_t size = 0;
  void *mapping = nullptr;
  uint64_t mappedBytes = 0;
  bool counted = false;
};

/// The device and host arenas of consecutive ranks.
class RankArenas {
public:
  /// Refuses (Code::Invalid) a device arena above `deviceLimit` bytes, and
  /// (Code::Machine) more in all than the machine's memory. 0: no limit.
  static Result<RankArenas> allocate(RankRange ranks, uint64_t deviceBytes,
                                     uint64_t hostBytes, uint64_t deviceLimit);

  RankRange ranks() const { return held; }
  std::byte *deviceBase(uint32_t rank) const {
    return device[rank - held.first].base();
  }
  std::byte *hostBase(uint32_t rank) const {
    return host[rank - held.first].base();
  }

private:
  RankRange held;
  std::vector<HostArena> device;
  std::vector<HostArena> host;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DEVICE_HOST_HOSTARENA_H
