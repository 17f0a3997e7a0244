//===- StorageMachine.cpp - A job's memory without devices ----------------===//
#include "runtime/task/StorageMachine.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Quote.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace ciuic::rt {

static uint64_t bytesOfRank(const abi::Bundle &bundle) {
  uint64_t bytes = 0;
  for (uint64_t arena : bundle.arenaBytes)
    bytes += arena;
  return bytes;
}

Result<std::unique_ptr<Machine>>
StorageMachine::create(const abi::Bundle &bundle, const MachineOptions &) {
  std::unique_ptr<StorageMachine> machine(new StorageMachine(bundle));
  // Each fits 46 bits, ranks 17: the sum of a rank, times ranks, may not.
  uint64_t ofRank = bytesOfRank(bundle);
  if (__builtin_mul_overflow(ofRank, uint64_t(bundle.ranks), &machine->bytes))
    return Status::machine("the arenas of " + std::to_string(bundle.ranks) +
                           " ranks are larger than any memory");
  if (machine->bytes == 0)
    return std::unique_ptr<Machine>(std::move(machine));
  void *memory = mmap(nullptr, machine->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return Status::machine("cannot reserve " + std::to_string(machine->bytes) +
                           " bytes for the states of " +
                           std::to_string(bundle.ranks) +
                           " ranks: " + std::strerror(errno));
  machine->memory = static_cast<std::byte *>(memory);
  return std::unique_ptr<Machine>(std::move(machine));
}

StorageMachine::~StorageMachine() {
  if (memory)
    munmap(memory, bytes);
}

bool StorageMachine::has(std::string_view program) const {
  for (uint32_t i = 0; i < bundle.programCount; ++i)
    if (program == bundle.programs[i].name)
      return true;
  return false;
}

Status StorageMachine::run(std::string_view program) {
  return Status::invalid("program " + quote(program) +
                         " cannot run: its states are here, its devices not");
}

std::byte *StorageMachine::at(const abi::View &view, uint32_t rank,
                              uint64_t element) {
  const abi::Buffer &buffer = bundle.buffers[view.buffer];
  uint64_t arena = 0;
  for (int a = 0; a < static_cast<int>(buffer.arena); ++a)
    arena += bundle.arenaBytes[a];
  return memory + rank * bytesOfRank(bundle) + arena + buffer.offset +
         view.offset + static_cast<int64_t>(rank) * view.rankStride +
         element * byteSize(view.dtype);
}

Status StorageMachine::read(const abi::View &view, uint32_t rank,
                            uint64_t first, uint64_t count, void *to) {
  CIUIC_TRY(checkElements(view, {0, bundle.ranks}, rank, first, count));
  std::memcpy(to, at(view, rank, first), count * byteSize(view.dtype));
  return {};
}

Status StorageMachine::write(const abi::View &view, uint32_t rank,
                             uint64_t first, uint64_t count, const void *from) {
  CIUIC_TRY(checkElements(view, {0, bundle.ranks}, rank, first, count));
  std::memcpy(at(view, rank, first), from, count * byteSize(view.dtype));
  return {};
}

} // namespace ciuic::rt
