//===- HostArena.cpp - The memory of a virtual device ---------------------===//
#include "runtime/device/host/HostArena.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

constexpr uint64_t hugePage = uint64_t(2) << 20;

std::atomic<uint64_t> heldBytes{0}, mostBytes{0}, allocationCount{0};

void count(uint64_t bytes) {
  uint64_t now = heldBytes.fetch_add(bytes) + bytes;
  uint64_t most = mostBytes.load();
  while (most < now && !mostBytes.compare_exchange_weak(most, now))
    ;
  allocationCount.fetch_add(1);
}

uint64_t machineBytes() {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0)
    return 0;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

} // namespace

TensorMemory tensorMemory() {
  return {heldBytes.load(), mostBytes.load(), allocationCount.load()};
}

Result<HostArena> HostArena::allocate(uint64_t bytes, const std::string &what,
                                      bool forTensors) {
  HostArena arena;
  if (bytes == 0)
    return arena;
  if (bytes > (uint64_t(1) << 46))
    return Status::machine("cannot allocate " + std::to_string(bytes) +
                           " bytes for " + what);
  // One huge page more than needed, to align the start.
  uint64_t rounded = (bytes + hugePage - 1) / hugePage * hugePage;
  uint64_t mapped = rounded + hugePage;
  void *mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return Status::machine("cannot allocate " + std::to_string(bytes) +
                           " bytes for " + what + ": " + std::strerror(errno));
  auto address = reinterpret_cast<uintptr_t>(mapping);
  uintptr_t aligned = (address + hugePage - 1) / hugePage * hugePage;
  arena.mapping = mapping;
  arena.mappedBytes = mapped;
  arena.data = reinterpret_cast<std::byte *>(aligned);
  arena.size = bytes;
  // Advice only: ordinary pages serve too.
  madvise(arena.data, rounded, MADV_HUGEPAGE);
  // The pages are zero already; writing is what makes them present.
  for (uint64_t at = 0; at < bytes; at += 4096)
    arena.data[at] = std::byte{0};
  arena.counted = forTensors;
  if (forTensors)
    count(bytes);
  return arena;
}

HostArena::~HostArena() {
  if (!mapping)
    return;
  munmap(mapping, mappedBytes);
  if (counted)
    heldBytes.fetch_sub(size);
}

Result<RankArenas> RankArenas::allocate(RankRange ranks, uint64_t deviceBytes,
                                        uint64_t hostBytes,
                                        uint64_t deviceLimit) {
  if (ranks.count == 0)
    return Status::invalid("arenas of no rank");
  if (deviceLimit != 0 && deviceBytes > deviceLimit)
    return Status::invalid("the program needs " + std::to_string(deviceBytes) +
                           " bytes on each device, which has " +
                           std::to_string(deviceLimit));
  constexpr uint64_t most = uint64_t(1) << 46;
  uint64_t machine = machineBytes();
  if (deviceBytes > most || hostBytes > most || ranks.count > 65536 ||
      (machine != 0 && (deviceBytes + hostBytes) > machine / ranks.count))
    return Status::machine(
        "the program needs " + std::to_string(deviceBytes) + " device and " +
        std::to_string(hostBytes) + " host bytes on each of " +
        std::to_string(ranks.count) + " ranks, the machine has " +
        std::to_string(machine) + " bytes in all");
  RankArenas arenas;
  arenas.held = ranks;
  for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank) {
    std::string of = " arena of rank " + std::to_string(rank);
    CIUIC_TRY_ASSIGN(HostArena device,
                     HostArena::allocate(deviceBytes, "the device" + of));
    CIUIC_TRY_ASSIGN(HostArena host,
                     HostArena::allocate(hostBytes, "the host" + of));
    arenas.device.push_back(std::move(device));
    arenas.host.push_back(std::move(host));
  }
  return arenas;
}

} // namespace ciuic::rt
