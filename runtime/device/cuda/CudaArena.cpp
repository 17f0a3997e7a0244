//===- CudaArena.cpp - The memories of a GPU's ranks ----------------------===//
#include "runtime/device/cuda/CudaArena.h"

#include "runtime/device/cuda/CudaStatus.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

constexpr uint64_t hugePage = uint64_t(2) << 20;
constexpr uint64_t mostBytes = uint64_t(1) << 46;

/// Asks for pages of a node, before they are touched. Only a preference: where
/// the system does not allow it, or the node is full, other pages serve.
void preferNode(void *data, uint64_t bytes, int node) {
#ifdef SYS_mbind
  constexpr int preferred = 1; // MPOL_PREFERRED of linux/mempolicy.h
  constexpr size_t bits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 1024 / bits> mask{};
  if (node < 0 || node >= 1024)
    return;
  mask[static_cast<size_t>(node) / bits] |=
      1ul << (static_cast<size_t>(node) % bits);
  syscall(SYS_mbind, data, bytes, preferred, mask.data(), 1024ul + 1, 0u);
#endif
}

} // namespace

//===----------------------------------------------------------------------===//
// Device memory
//===----------------------------------------------------------------------===//

Status checkDeviceMemory(const CudaDevice &device, uint32_t ranks,
                         uint64_t bytes, uint64_t limit) {
  if (limit != 0 && bytes > limit)
    return Status::invalid("the program needs " + std::to_string(bytes) +
                           " bytes on each device, which has " +
                           std::to_string(limit));
  size_t free = 0, total = 0;
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  CIUIC_TRY_CUDA(cudaMemGetInfo, &free, &total);
  if (bytes <= mostBytes && bytes <= free / ranks)
    return {};
  return Status::machine(
      "planned " + std::to_string(bytes) + " bytes" +
      (ranks > 1 ? " for each of " + std::to_string(ranks) + " ranks" : "") +
      " on " + device.str() + ", free " + std::to_string(free) + " of " +
      std::to_string(total));
}

Result<DeviceArena> DeviceArena::allocate(const CudaDevice &device,
                                          uint64_t bytes,
                                          const std::string &what) {
  DeviceArena arena;
  arena.device = device.index;
  if (bytes == 0)
    return arena;
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  void *data = nullptr;
  if (cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    size_t free = 0, total = 0;
    cudaGetLastError();
    bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    return toStatus(error, "cudaMalloc").during([&] {
      return "allocating " + what + ": planned " + std::to_string(bytes) +
             " bytes on " + device.str() +
             (known ? ", free " + std::to_string(free) + " of " +
                          std::to_string(total)
                    : "");
    });
  }
  arena.data = static_cast<std::byte *>(data);
  arena.size = bytes;
  CIUIC_TRY_CUDA(cudaMemsetAsync, data, 0, bytes, nullptr);
  CIUIC_TRY_CUDA(cudaDeviceSynchronize);
  return arena;
}

DeviceArena::~DeviceArena() {
  if (!data)
    return;
  // Nothing can be said here, and a device that failed has said it before.
  if (cudaSetDevice(device) != cudaSuccess || cudaFree(data) != cudaSuccess)
    cudaGetLastError();
}

//===----------------------------------------------------------------------===//
// Host memory
//===----------------------------------------------------------------------===//

Result<PinnedArena> PinnedArena::allocate(const CudaDevice &device,
                                          uint64_t bytes,
                                          const std::string &what) {
  PinnedArena arena;
  if (bytes == 0)
    return arena;
  auto where = [&] {
    return "allocating " + what + ": planned " + std::to_string(bytes) +
           " bytes of host memory";
  };
  if (bytes > mostBytes)
    return Status::machine("larger than any memory").during(where);
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  uint64_t page = bytes >= hugePage ? hugePage : 4096;
  uint64_t mapped = (bytes + page - 1) / page * page;
  void *data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status::machine(std::string("mmap: ") + std::strerror(errno))
        .during(where);
  preferNode(data, mapped, device.numaNode);
  // Advice only: ordinary pages serve too.
  madvise(data, mapped, MADV_HUGEPAGE);
  // The pages are zero already; writing is what makes them present.
  for (uint64_t at = 0; at < mapped; at += 4096)
    static_cast<volatile char *>(data)[at] = 0;
  if (cudaError_t error =
          cudaHostRegister(data, mapped, cudaHostRegisterPortable);
      error != cudaSuccess) {
    munmap(data, mapped);
    return toStatus(error, "cudaHostRegister").during(where);
  }
  arena.data = static_cast<std::byte *>(data);
  arena.size = bytes;
  arena.mapped = mapped;
  return arena;
}

PinnedArena::~PinnedArena() {
  if (!data)
    return;
  if (cudaHostUnregister(data) != cudaSuccess)
    cudaGetLastError();
  munmap(data, mapped);
}

} // namespace ciuic::rt
