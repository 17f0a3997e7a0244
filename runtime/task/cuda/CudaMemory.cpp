//===- CudaMemory.cpp - The arenas of this process's ranks ----------------===//
#include "runtime/task/cuda/CudaMemory.h"

#include "runtime/task/cuda/HostAccess.h"

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

void CudaMemory::forgetTemporaries() const {
  std::vector<bool> kept(bundle->bufferCount, false);
  for (uint32_t i = 0; i < bundle->stateCount; ++i)
    kept[bundle->states[i].view.buffer] = true;
  kept[static_cast<size_t>(bundle->tokensBuffer)] = true;
  kept[static_cast<size_t>(bundle->labelsBuffer)] = true;
  // What a state's bytes are, they are in whatever buffer shares its place.
  auto overlapsKept = [&](const abi::Buffer &buffer) {
    for (uint32_t i = 0; i < bundle->bufferCount; ++i) {
      const abi::Buffer &other = bundle->buffers[i];
      if (kept[i] && other.arena == buffer.arena &&
          other.offset < buffer.offset + buffer.bytes &&
          buffer.offset < other.offset + other.bytes)
        return true;
    }
    return false;
  };
  for (uint32_t i = 0; i < bundle->bufferCount; ++i) {
    const abi::Buffer &buffer = bundle->buffers[i];
    if (kept[i] || buffer.arena == abi::Arena::Nvme || overlapsKept(buffer))
      continue;
    for (uint32_t rank = 0; rank < held.count; ++rank)
      hostaccess::forget((buffer.arena == abi::Arena::Device
                              ? deviceArenas[rank].base()
                              : hostArenas[rank].base()) +
                             buffer.offset,
                         buffer.bytes);
  }
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
