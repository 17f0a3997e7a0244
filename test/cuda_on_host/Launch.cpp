//===- Launch.cpp - Kernels: launch and instrumentation ---------*- C++ -*-===//
//
// Sources of kernels are compiled with -fsanitize=thread and linked without
// its runtime: the calls that the compiler puts before loads and stores come
// here. Outside of kernels they do nothing.
//
//===----------------------------------------------------------------------===//
#include "test/cuda_on_host/Graph.h"
#include "test/cuda_on_host/Grid.h"
#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/Symbols.h"

#include <cstring>

using namespace ciuic::onhost;

namespace {

/// Of the device thread, which runs one kernel at a time.
Grid &grid() {
  static Grid *one = new Grid;
  return *one;
}

std::string nameOfKernel(const void *kernel) {
  std::string name = nameOfFunction(kernel);
  return name.empty() ? "a kernel" : name;
}

size_t mostShared(const Settings &settings) {
  return settings.major >= 9 ? kMostDynamicShared : 163 * 1024;
}

/// The grid, where a kernel's own code made the call.
Grid *kernelOfThread() {
  Grid *running = runningGrid();
  return running && running->inKernel ? running : nullptr;
}

} // namespace

namespace ciuic::onhost {

cudaError_t enqueueKernel(const void *kernel, dim3 blocks, dim3 block,
                          size_t sharedBytes, cudaStream_t handle,
                          void (*thread)(const void *),
                          std::shared_ptr<const void> closure,
                          size_t closureBytes) {
  CIUIC_ONHOST_CALL(cudaLaunchKernel);
  Machine &machine = Machine::get();
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64 || blocks.x == 0 ||
      blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffff ||
      blocks.y > 65535 || blocks.z > 65535 ||
      sharedBytes > mostShared(machine.settings()))
    return remember(cudaErrorInvalidConfiguration);
  cudaError_t error = machine.stickyError(currentDevice());
  if (error != cudaSuccess)
    return remember(error);
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream || stream->device != currentDevice())
    return remember(cudaErrorInvalidResourceHandle);
  GridLaunch launch;
  launch.name = nameOfKernel(kernel);
  if (!stream->label.empty())
    launch.name =
        stream->label + (kernel ? " (" + launch.name + ")" : std::string());
  launch.grid = blocks;
  launch.block = block;
  launch.sharedBytes = sharedBytes;
  launch.thread = thread;
  launch.closure = closure.get();
  launch.closureBytes = closureBytes;
  Step step;
  step.name = launch.name;
  step.run = [launch, closure, seed = machine.draw()](CUstream_st &on) {
    bool fine = true;
    Machine::get().work(on, launch.name,
                        [&] { fine = grid().run(launch, seed); });
    if (!fine)
      Machine::get().poison(on.device, cudaErrorIllegalAddress);
  };
  machine.enqueue(*stream, std::move(step));
  return cudaSuccess;
}

} // namespace ciuic::onhost

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute what,
                                 int value) {
  CIUIC_ONHOST_CALL(cudaFuncSetAttribute);
  if (what == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      (value < 0 ||
       static_cast<size_t>(value) > mostShared(Machine::get().settings())))
    return remember(cudaErrorInvalidValue);
  return cudaSuccess;
}

//===----------------------------------------------------------------------===//
// The device language
//===----------------------------------------------------------------------===//

extern "C" {

uint3 onhost_thread_index() { return runningGrid()->self().index; }
uint3 onhost_block_index() { return runningGrid()->blockIndex; }
uint3 onhost_block_size() {
  const dim3 &size = runningGrid()->blockSize;
  return {size.x, size.y, size.z};
}
uint3 onhost_grid_size() {
  const dim3 &size = runningGrid()->gridSize;
  return {size.x, size.y, size.z};
}
void onhost_barrier(const char *file, int line) {
  runningGrid()->barrier(file, line);
}
uint64_t onhost_exchange(int kind, uint32_t mask, uint64_t value, int argument,
                         int width, const char *file, int line) {
  return runningGrid()->exchange(
      {static_cast<Exchange>(kind), mask, value, argument, width, file, line});
}
uint64_t onhost_atomic(int kind, int type, void *address, uint64_t value,
                       uint64_t compare) {
  return runningGrid()->atomic(kind, type, address, value, compare);
}
unsigned onhost_lane_mask() { return runningGrid()->liveLanes(); }

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

#define LOAD(bytes, ...)                                                       \
  void __tsan_read##__VA_ARGS__##bytes(void *p) {                              \
    if (Grid *running = kernelOfThread())                                      \
      running->access(reinterpret_cast<uintptr_t>(p), bytes, false);           \
  }
#define STORE(bytes, ...)                                                      \
  void __tsan_write##__VA_ARGS__##bytes(void *p) {                             \
    if (Grid *running = kernelOfThread())                                      \
      running->access(reinterpret_cast<uintptr_t>(p), bytes, true);            \
  }
#define BOTH(bytes, ...)                                                       \
  void __tsan_read_write##__VA_ARGS__##bytes(void *p) {                        \
    if (Grid *running = kernelOfThread()) {                                    \
      running->access(reinterpret_cast<uintptr_t>(p), bytes, false);           \
      running->access(reinterpret_cast<uintptr_t>(p), bytes, true);            \
    }                                                                          \
  }
#define EVERY(bytes) LOAD(bytes) STORE(bytes) BOTH(bytes)
EVERY(1)
EVERY(2)
EVERY(4)
EVERY(8)
EVERY(16)
#undef LOAD
#undef STORE
#undef BOTH
#define EVERY_UNALIGNED(bytes)                                                 \
  void __tsan_unaligned_read##bytes(void *p) { __tsan_read##bytes(p); }        \
  void __tsan_unaligned_write##bytes(void *p) { __tsan_write##bytes(p); }      \
  void __tsan_unaligned_read_write##bytes(void *p) {                           \
    __tsan_read_write##bytes(p);                                               \
  }
EVERY_UNALIGNED(2)
EVERY_UNALIGNED(4)
EVERY_UNALIGNED(8)
EVERY_UNALIGNED(16)

void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  Grid *running = kernelOfThread();
  if (running && bytes) {
    running->accessRange(from, bytes, false);
    running->accessRange(to, bytes, true);
  }
  return std::memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
  Grid *running = kernelOfThread();
  if (running && bytes) {
    running->accessRange(from, bytes, false);
    running->accessRange(to, bytes, true);
  }
  return std::memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
  Grid *running = kernelOfThread();
  if (running && bytes)
    running->accessRange(to, bytes, true);
  return std::memset(to, value, bytes);
}
void __tsan_init() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

} // extern "C"
