//===- HostMachine.cpp - Virtual devices of the CPU -----------------------===//
#include "runtime/task/HostMachine.h"

#include "runtime/abi/Sizes.h"
#include "runtime/blas/Gemm.h"
#include "runtime/comm/ProcessGroup.h"

#include <cstring>

namespace ciuic::rt {

Result<std::unique_ptr<Machine>>
HostMachine::create(const abi::Bundle &bundle, const MachineOptions &options) {
  if (bundle.target != abi::Target::Cpu)
    return Status::invalid("compiled for CUDA devices: its own bin/train runs "
                           "it");
  RankRange ranks{0, bundle.ranks};
  if (options.group) {
    CIUIC_TRY(checkProcesses(options.group->processes(), bundle.ranks));
    ranks = ranksOf(options.group->process(), options.group->processes(),
                    bundle.ranks);
  }
  std::unique_ptr<HostMachine> machine(new HostMachine());
  CIUIC_TRY_ASSIGN(machine->arenas,
                   RankArenas::allocate(
                       ranks,
                       bundle.arenaBytes[static_cast<int>(abi::Arena::Device)],
                       bundle.arenaBytes[static_cast<int>(abi::Arena::Host)],
                       options.deviceMemory));
  CIUIC_TRY_ASSIGN(machine->disk,
                   DiskMemory::create(bundle, ranks, options.disk));
  CIUIC_TRY_ASSIGN(
      machine->executor,
      Executor::create(bundle, machine->arenas,
                       {options.threads, options.timing, options.profile,
                        options.group, &machine->disk}));
  return std::unique_ptr<Machine>(std::move(machine));
}

Status HostMachine::read(const abi::View &view, uint32_t rank, uint64_t first,
                         uint64_t count, void *to) {
  CIUIC_TRY(checkElements(view, arenas.ranks(), rank, first, count));
  if (disk.holds(view))
    return disk.read(view, rank, first, count, to);
  uint64_t width = byteSize(view.dtype);
  std::memcpy(to, executor->resolve(view, rank).as<std::byte>() + first * width,
              count * width);
  return {};
}

Status HostMachine::write(const abi::View &view, uint32_t rank, uint64_t first,
                          uint64_t count, const void *from) {
  CIUIC_TRY(checkElements(view, arenas.ranks(), rank, first, count));
  if (disk.holds(view))
    return disk.write(view, rank, first, count, from);
  uint64_t width = byteSize(view.dtype);
  std::memcpy(executor->resolve(view, rank).as<std::byte>() + first * width,
              from, count * width);
  return {};
}

double HostMachine::measureProducts(abi::DType dtype) {
  return measureGemmPeak(dtype, threads());
}

} // namespace ciuic::rt
