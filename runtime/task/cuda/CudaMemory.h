//===- CudaMemory.h - The arenas of this process's ranks --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_CUDAMEMORY_H
#define CIUIC_RUNTIME_TASK_CUDA_CUDAMEMORY_H

#include "runtime/abi/Program.h"
#include "runtime/base/RankRange.h"
#include "runtime/device/cuda/CudaArena.h"
#include "runtime/kernels/host/Operation.h"

#include <span>
#include <vector>

namespace ciuic::rt {

class CudaMemory {
public:
  /// Both arenas of each rank; `devices` is one for each rank or one for all.
  static Result<CudaMemory> allocate(const abi::Bundle &bundle, RankRange ranks,
                                     std::span<const CudaDevice> devices,
                                     uint64_t deviceLimit);

  RankRange ranks() const { return held; }

  /// A view's place on a rank of this process. What lies on a device is not
  /// to be touched by the host.
  Tensor resolve(const abi::View &view, uint32_t rank) const;

  abi::Arena arenaOf(const abi::View &view) const {
    return bundle->buffers[view.buffer].arena;
  }

  /// To the tests' CUDA, what is neither a state nor an input counts as never
  /// written, though it is zero: a program that reads it first is wrong.
  void forgetTemporaries() const;

  const DeviceArena &device(uint32_t rank) const {
    return deviceArenas[rank - held.first];
  }

private:
  const abi::Bundle *bundle = nullptr;
  RankRange held;
  std::vector<DeviceArena> deviceArenas;
  std::vector<PinnedArena> hostArenas;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_CUDAMEMORY_H
