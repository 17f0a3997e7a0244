//===- CudaArena.h - The memories of a GPU's ranks --------------*- C++ -*-===//
//
// One allocation a rank and kind of memory, made before the first step and
// kept to the end: on the device, and in host memory that the device reads and
// writes itself, on the NUMA node next to it.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DEVICE_CUDA_CUDAARENA_H
#define CIUIC_RUNTIME_DEVICE_CUDA_CUDAARENA_H

#include "runtime/device/cuda/CudaDevice.h"

#include <cstddef>
#include <utility>

namespace ciuic::rt {

/// Zeroed memory of a device.
class DeviceArena {
public:
  DeviceArena() = default;
  DeviceArena(DeviceArena &&other) noexcept { *this = std::move(other); }
  DeviceArena &operator=(DeviceArena &&other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
    std::swap(device, other.device);
    return *this;
  }
  ~DeviceArena();

  static Result<DeviceArena> allocate(const CudaDevice &device, uint64_t bytes,
                                      const std::string &what);

  std::byte *base() const { return data; }
  uint64_t bytes() const { return size; }

private:
  std::byte *data = nullptr;
  uint64_t size = 0;
  int device = 0;
};

/// Zeroed host memory, registered with all devices, preferably on the node of
/// `device`.
class PinnedArena {
public:
  PinnedArena() = default;
  PinnedArena(PinnedArena &&other) noexcept { *this = std::move(other); }
  PinnedArena &operator=(PinnedArena &&other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
    std::swap(mapped, other.mapped);
    return *this;
  }
  ~PinnedArena();

  static Result<PinnedArena> allocate(const CudaDevice &device, uint64_t bytes,
                                      const std::string &what);

  std::byte *base() const { return data; }
  uint64_t bytes() const { return size; }

private:
  std::byte *data = nullptr;
  uint64_t size = 0;
  uint64_t mapped = 0;
};

/// Refuses (Code::Machine) `ranks` arenas of `bytes` each on a device that has
/// less free: says what was planned and what is free. `limit`, if not 0, is
/// what the user grants each rank (Code::Invalid beyond it).
Status checkDeviceMemory(const CudaDevice &device, uint32_t ranks,
                         uint64_t bytes, uint64_t limit);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DEVICE_CUDA_CUDAARENA_H
