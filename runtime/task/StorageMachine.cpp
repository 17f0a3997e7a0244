//===- StorageMachine.cpp - A job's memory without devices ----------------===//
#include "runtime/task/StorageMachine.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Quote.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace ciuic::rt {

Result<std::unique_ptr<Machine>>
StorageMachine::create(const abi::Bundle &bundle, const MachineOptions &) {
  std::unique_ptr<StorageMachine> machine(new StorageMachine(bundle));
  // Each fits 46 bits, ranks 17: the sum of a rank, times ranks, may not.
  uint64_t ofRank = bundle.arenaBytes[0] + bundle.arenaBytes[1];
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
  uint64_t ofRank = bundle.arenaBytes[0] + bundle.arenaBytes[1];
  uint64_t arena =
      buffer.arena == abi::Arena::Device ? 0 : bundle.arenaBytes[0];
  return memory + rank * ofRank + arena + buffer.offset + view.offset +
         static_cast<int64_t>(rank) * view.rankStride +
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
