//===- RuntimeMemory.cpp - Allocations and copies ---------------*- C++ -*-===//
#include "test/cuda_on_host/Graph.h"

#include <cstring>

using namespace ciuic::onhost;

namespace {

size_t accounted(size_t bytes) { return (bytes + 511) / 512 * 512; }

bool isKnown(const void *pointer) {
  std::lock_guard memory(shadow().mutex);
  return shadow().find(reinterpret_cast<uintptr_t>(pointer)) ||
         shadow().inRegion(reinterpret_cast<uintptr_t>(pointer));
}

Memory memoryOf(const void *pointer, bool &known) {
  std::lock_guard memory(shadow().mutex);
  Allocation *a = shadow().find(reinterpret_cast<uintptr_t>(pointer));
  known = a != nullptr;
  return a ? a->memory : Memory::Pinned;
}

/// Rows of bytes from one place to another.
struct Copy {
  char *to;
  size_t toPitch;
  const char *from;
  size_t fromPitch;
  size_t width;
  size_t height;
  bool toKnown, fromKnown; ///< Pageable memory of the host is not known.
  std::shared_ptr<std::vector<char>> staged;
};

void run(const Copy &copy, CUstream_st &stream, const std::string &name) {
  bool fine = true;
  Machine::get().work(stream, name, [&] {
    for (size_t row = 0; row < copy.height && fine; ++row) {
      const char *from = copy.from + row * copy.fromPitch;
      char *to = copy.to + row * copy.toPitch;
      if (copy.fromKnown)
        fine = shadow().read(from, copy.width);
      if (copy.toKnown)
        fine = fine && shadow().write(to, copy.width);
      if (fine)
        std::memmove(to, from, copy.width);
    }
  });
  if (!fine)
    Machine::get().poison(stream.device, cudaErrorIllegalAddress);
}

/// "a copy of 64 bytes", or what the stream's work is called.
std::string nameOf(const CUstream_st &stream, const char *what, size_t bytes) {
  if (!stream.label.empty())
    return stream.label;
  return std::string(what) + " of " + std::to_string(bytes) + " bytes";
}

cudaError_t enqueueCopy(Copy copy, cudaMemcpyKind kind, cudaStream_t handle,
                        bool blocking) {
  Machine &machine = Machine::get();
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  if (copy.width == 0 || copy.height == 0)
    return cudaSuccess;
  copy.toKnown = isKnown(copy.to);
  copy.fromKnown = isKnown(copy.from);
  bool known = false;
  Memory to = memoryOf(copy.to, known), from = memoryOf(copy.from, known);
  bool toDevice = kind == cudaMemcpyHostToDevice ||
                  kind == cudaMemcpyDeviceToDevice ||
                  (kind == cudaMemcpyDefault && copy.toKnown);
  bool fromDevice = kind == cudaMemcpyDeviceToHost ||
                    kind == cudaMemcpyDeviceToDevice ||
                    (kind == cudaMemcpyDefault && copy.fromKnown);
  if (toDevice != copy.toKnown && toDevice)
    return remember(cudaErrorInvalidValue);
  if (fromDevice != copy.fromKnown && fromDevice)
    return remember(cudaErrorInvalidValue);
  if (kind != cudaMemcpyDefault) {
    bool wantsTo =
        kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool wantsFrom =
        kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool isTo = copy.toKnown && to == Memory::Device;
    bool isFrom = copy.fromKnown && from == Memory::Device;
    if (wantsTo != isTo || wantsFrom != isFrom)
      return remember(cudaErrorInvalidMemcpyDirection);
  }
  CUstream_st *stream;
  {
    std::lock_guard lock(machine.mutex);
    stream = machine.find(handle);
    if (!stream)
      return remember(cudaErrorInvalidResourceHandle);
    bool pageable = !copy.toKnown || !copy.fromKnown;
    if (stream->capture && (pageable || blocking)) {
      stream->capture->invalid = true;
      return remember(cudaErrorStreamCaptureUnsupported);
    }
    if (!copy.fromKnown) {
      // The driver copies pageable memory aside before the call returns.
      copy.staged = std::make_shared<std::vector<char>>();
      for (size_t row = 0; row < copy.height; ++row) {
        const char *at = copy.from + row * copy.fromPitch;
        copy.staged->insert(copy.staged->end(), at, at + copy.width);
      }
      copy.from = copy.staged->data();
      copy.fromPitch = copy.width;
    }
    blocking = blocking || !copy.toKnown;
    Step step;
    step.name = nameOf(*stream, "a copy", copy.width * copy.height);
    step.run = [copy, name = step.name](CUstream_st &on) {
      run(copy, on, name);
    };
    machine.enqueue(*stream, std::move(step));
  }
  return blocking ? remember(machine.synchronize(*stream)) : cudaSuccess;
}

cudaError_t enqueueSet(void *to, int value, size_t bytes, cudaStream_t handle,
                       bool blocking) {
  Machine &machine = Machine::get();
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  if (bytes == 0)
    return cudaSuccess;
  if (!isKnown(to))
    return remember(cudaErrorInvalidValue);
  CUstream_st *stream;
  {
    std::lock_guard lock(machine.mutex);
    stream = machine.find(handle);
    if (!stream)
      return remember(cudaErrorInvalidResourceHandle);
    Step step;
    step.name = nameOf(*stream, "a memset", bytes);
    step.run = [=, name = step.name](CUstream_st &on) {
      bool fine = true;
      Machine::get().work(on, name, [&] {
        fine = shadow().write(to, bytes);
        if (fine)
          std::memset(to, value, bytes);
      });
      if (!fine)
        Machine::get().poison(on.device, cudaErrorIllegalAddress);
    };
    machine.enqueue(*stream, std::move(step));
  }
  return blocking ? remember(machine.synchronize(*stream)) : cudaSuccess;
}

/// Gives memory back when nothing runs any more.
cudaError_t release(void *pointer, Memory kind, bool registered) {
  Machine &machine = Machine::get();
  if (!pointer)
    return cudaSuccess;
  machine.synchronizeAll();
  std::lock_guard lock(machine.mutex);
  std::lock_guard memory(shadow().mutex);
  Allocation *a = shadow().findStart(pointer);
  if (!a || a->memory != kind || (a->mapped == 0) != registered)
    return remember(registered ? cudaErrorHostMemoryNotRegistered
                               : cudaErrorInvalidValue);
  if (a->memory == Memory::Device)
    machine.usedBytes[static_cast<size_t>(a->device)] -= accounted(a->bytes);
  shadow().release(a);
  return cudaSuccess;
}

} // namespace

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  CIUIC_ONHOST_CALL(cudaMemGetInfo);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  auto device = static_cast<size_t>(currentDevice());
  if (device >= machine.usedBytes.size())
    return remember(cudaErrorNoDevice);
  *total = machine.settings().memoryBytes;
  *free = *total - std::min(*total, machine.usedBytes[device]);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  CIUIC_ONHOST_CALL(cudaMalloc);
  Machine &machine = Machine::get();
  *pointer = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  std::lock_guard lock(machine.mutex);
  auto device = static_cast<size_t>(currentDevice());
  if (device >= machine.usedBytes.size())
    return remember(cudaErrorNoDevice);
  uint64_t total = machine.settings().memoryBytes;
  uint64_t &used = machine.usedBytes[device];
  if (used > total || accounted(bytes) > total - used)
    return remember(cudaErrorMemoryAllocation);
  size_t given =
      strikes(Fault::ShrinkAllocation) && bytes > 256 ? bytes - 256 : bytes;
  std::lock_guard memory(shadow().mutex);
  Allocation *a = shadow().allocate(given, Memory::Device, currentDevice());
  if (!a)
    return remember(cudaErrorMemoryAllocation);
  used += accounted(given);
  *pointer = reinterpret_cast<void *>(a->begin);
  return cudaSuccess;
}

cudaError_t cudaFree(void *pointer) {
  CIUIC_ONHOST_CALL(cudaFree);
  return release(pointer, Memory::Device, /*registered=*/false);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) {
  CIUIC_ONHOST_CALL(cudaHostAlloc);
  *pointer = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  std::lock_guard memory(shadow().mutex);
  Allocation *a = shadow().allocate(bytes, Memory::Pinned, -1);
  if (!a)
    return remember(cudaErrorMemoryAllocation);
  *pointer = reinterpret_cast<void *>(a->begin);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer) {
  CIUIC_ONHOST_CALL(cudaFreeHost);
  return release(pointer, Memory::Pinned, /*registered=*/false);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned) {
  CIUIC_ONHOST_CALL(cudaHostRegister);
  if (!pointer || bytes == 0)
    return remember(cudaErrorInvalidValue);
  std::lock_guard memory(shadow().mutex);
  auto address = reinterpret_cast<uintptr_t>(pointer);
  if (shadow().find(address) || shadow().find(address + bytes - 1))
    return remember(cudaErrorHostMemoryAlreadyRegistered);
  shadow().adopt(pointer, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *pointer) {
  CIUIC_ONHOST_CALL(cudaHostUnregister);
  return release(pointer, Memory::Pinned, /*registered=*/true);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  CIUIC_ONHOST_CALL(cudaHostGetDevicePointer);
  *device = isKnown(host) ? host : nullptr;
  return *device ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes,
                                     const void *pointer) {
  CIUIC_ONHOST_CALL(cudaPointerGetAttributes);
  std::memset(attributes, 0, sizeof *attributes);
  std::lock_guard memory(shadow().mutex);
  Allocation *a = shadow().find(reinterpret_cast<uintptr_t>(pointer));
  attributes->device = a && a->device >= 0 ? a->device : 0;
  if (!a) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void *>(pointer);
    return cudaSuccess;
  }
  attributes->type =
      a->memory == Memory::Device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void *>(pointer);
  if (a->memory == Memory::Pinned)
    attributes->hostPointer = const_cast<void *>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                       cudaMemcpyKind kind) {
  CIUIC_ONHOST_CALL(cudaMemcpy);
  return enqueueCopy({static_cast<char *>(to), bytes,
                      static_cast<const char *>(from), bytes, bytes, 1, true,
                      true, nullptr},
                     kind, nullptr, /*blocking=*/true);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  CIUIC_ONHOST_CALL(cudaMemcpyAsync);
  return enqueueCopy({static_cast<char *>(to), bytes,
                      static_cast<const char *>(from), bytes, bytes, 1, true,
                      true, nullptr},
                     kind, stream, /*blocking=*/false);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  CIUIC_ONHOST_CALL(cudaMemcpy2DAsync);
  if (width > toPitch || width > fromPitch)
    return remember(cudaErrorInvalidValue);
  return enqueueCopy({static_cast<char *>(to), toPitch,
                      static_cast<const char *>(from), fromPitch, width, height,
                      true, true, nullptr},
                     kind, stream, /*blocking=*/false);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  CIUIC_ONHOST_CALL(cudaMemset);
  return enqueueSet(to, value, bytes, nullptr, /*blocking=*/true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  CIUIC_ONHOST_CALL(cudaMemsetAsync);
  return enqueueSet(to, value, bytes, stream, /*blocking=*/false);
}
