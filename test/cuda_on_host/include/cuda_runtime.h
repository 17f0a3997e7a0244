//===- cuda_runtime.h - The CUDA runtime on the host ------------*- C++ -*-===//
//
// The used part of CUDA 13's header of this name: same names, types and
// values. What is missing here is not emulated.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_RUNTIME_H
#define CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"
#include "onhost_device.h"

#include <memory>
#include <type_traits>
#include <utility>

namespace ciuic::onhost {

/// Enqueues a kernel: `thread(closure)` is called once a thread. `closure` is
/// kept until it has run. `kernel` names it in reports; it may be null.
cudaError_t enqueueKernel(const void *kernel, dim3 grid, dim3 block,
                          size_t sharedBytes, cudaStream_t stream,
                          void (*thread)(const void *),
                          std::shared_ptr<const void> closure,
                          size_t closureBytes);

template <typename Fn>
cudaError_t launchKernel(const void *kernel, dim3 grid, dim3 block,
                         size_t sharedBytes, cudaStream_t stream, Fn &&fn) {
  using Closure = std::decay_t<Fn>;
  auto closure = std::make_shared<const Closure>(std::forward<Fn>(fn));
  return enqueueKernel(
      kernel, grid, block, sharedBytes, stream,
      [](const void *it) { (*static_cast<const Closure *>(it))(); }, closure,
      sizeof(Closure));
}

template <typename Fn>
cudaError_t launchKernel(dim3 grid, dim3 block, size_t sharedBytes,
                         cudaStream_t stream, Fn &&fn) {
  return launchKernel(nullptr, grid, block, sharedBytes, stream,
                      std::forward<Fn>(fn));
}

} // namespace ciuic::onhost

template <typename T> cudaError_t cudaMalloc(T **pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(pointer), bytes);
}
template <typename T>
cudaError_t cudaMallocHost(T **pointer, size_t bytes, unsigned flags = 0) {
  return cudaHostAlloc(reinterpret_cast<void **>(pointer), bytes, flags);
}
template <typename T>
cudaError_t cudaHostAlloc(T **pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void **>(pointer), bytes, flags);
}
template <typename R, typename... P>
cudaError_t cudaFuncSetAttribute(R (*function)(P...), cudaFuncAttribute what,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void *>(function), what,
                              value);
}

#endif // CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_RUNTIME_H
