//===- CudaMemory.cpp - The arenas of this process's ranks ----------------===//
#include "runtime/task/cuda/CudaMemory.h"

namespace ciuic::rt {

Result<CudaMemory> CudaMemory::allocate(const abi::Bundle &bundle,
                                        RankRange ranks,
                                        std::span<const CudaDevice> devices,
                                        uint64_t deviceLimit) {
  CudaMemory memory;
  memory.bundle = &bundle;
  memory.held = ranks;
  bool shared = devices.size() == 1;
  uint64_t deviceBytes =
      bundle.arenaBytes[static_cast<int>(abi::Arena::Device)];
  uint64_t hostBytes = bundle.arenaBytes[static_cast<int>(abi::Arena::Host)];
  for (const CudaDevice &device : devices)
    CIUIC_TRY(checkDeviceMemory(device, shared ? ranks.count : 1, deviceBytes,
                                deviceLimit));
  for (uint32_t i = 0; i < ranks.count; ++i) {
    const CudaDevice &device = devices[shared ? 0 : i];
    std::string of = " arena of rank " + std::to_string(ranks.first + i);
    CIUIC_TRY_ASSIGN(
        DeviceArena onDevice,
        DeviceArena::allocate(device, deviceBytes, "the device" + of));
    CIUIC_TRY_ASSIGN(PinnedArena onHost,
                     PinnedArena::allocate(device, hostBytes, "the host" + of));
    memory.deviceArenas.push_back(std::move(onDevice));
    memory.hostArenas.push_back(std::move(onHost));
  }
  return memory;
}

Tensor CudaMemory::resolve(const abi::View &view, uint32_t rank) const {
  const abi::Buffer &buffer = bundle->buffers[view.buffer];
  uint32_t index = rank - held.first;
  std::byte *base = buffer.arena == abi::Arena::Device
                        ? deviceArenas[index].base()
                        : hostArenas[index].base();
  Tensor tensor;
  tensor.data = base + buffer.offset + view.offset +
                static_cast<int64_t>(rank) * view.rankStride;
  tensor.dtype = view.dtype;
  tensor.rank = view.rank;
  for (int d = 0; d < 2; ++d) {
    tensor.shape[d] = view.shape[d];
    tensor.strides[d] = view.strides[d];
  }
  return tensor;
}

} // namespace ciuic::rt
