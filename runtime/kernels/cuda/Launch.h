//===- Launch.h - How kernels are started -----------------------*- C++ -*-===//
//
// The one way in which a kernel is started, so that sources of kernels are
// plain C++ as well: with CIUIC_CUDA_ON_HOST a launch queues a closure that
// the tests' emulation of CUDA runs on the CPU. No `<<<>>>` elsewhere.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_LAUNCH_H
#define CIUIC_RUNTIME_KERNELS_CUDA_LAUNCH_H

#include "runtime/abi/Program.h"

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <tuple>
#include <utility>

namespace ciuic::cuda {

/// Beyond this a kernel has to ask for dynamic shared memory.
inline constexpr size_t kSharedWithoutAsking = 48 * 1024;

#ifndef CIUIC_CUDA_ON_HOST
namespace detail {
template <typename... P, size_t... I>
cudaError_t enqueue(void (*kernel)(P...), dim3 grid, dim3 block,
                    size_t sharedBytes, cudaStream_t stream,
                    std::tuple<P...> &arguments, std::index_sequence<I...>) {
  // One more, so that the array of a kernel without parameters is not empty.
  void *addresses[] = {
      const_cast<void *>(static_cast<const void *>(&std::get<I>(arguments)))...,
      nullptr};
  return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block,
                          addresses, sharedBytes, stream);
}
} // namespace detail
#endif

/// Enqueues `kernel(arguments...)`; each argument becomes its parameter's type.
/// A grid without blocks is nothing to do, not an error.
template <typename... P, typename... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block,
                   size_t sharedBytes, cudaStream_t stream, A &&...arguments) {
  static_assert(sizeof...(P) == sizeof...(A),
                "as many arguments as the kernel has parameters");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return cudaSuccess;
  std::tuple<P...> values(static_cast<P>(std::forward<A>(arguments))...);
#ifdef CIUIC_CUDA_ON_HOST
  return onhost::launchKernel(reinterpret_cast<const void *>(kernel), grid,
                              block, sharedBytes, stream,
                              [kernel, values] { std::apply(kernel, values); });
#else
  if (sharedBytes > kSharedWithoutAsking)
    if (cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sharedBytes));
        error != cudaSuccess)
      return error;
  return detail::enqueue(kernel, grid, block, sharedBytes, stream, values,
                         std::index_sequence_for<P...>());
#endif
}

inline cudaStream_t streamOf(const abi::CudaLaunch &task) {
  return static_cast<cudaStream_t>(task.stream);
}

/// The address of a task's view.
template <typename T> T *pointer(const abi::CudaLaunch &task, unsigned view) {
  return static_cast<T *>(task.pointers[view]);
}

/// Whether all views of a task start at a multiple of `bytes`.
inline bool areAligned(const abi::CudaLaunch &task, unsigned bytes) {
  for (uint32_t i = 0; i < task.viewCount; ++i)
    if (reinterpret_cast<uintptr_t>(task.pointers[i]) % bytes != 0)
      return false;
  return true;
}

/// Blocks for `units` of work, `unitsPerBlock` at a time, in a kernel whose
/// blocks go on with the next units until all are done: no more than the
/// device holds at once, 2048 threads a multiprocessor.
inline unsigned fillingGrid(uint64_t units, unsigned unitsPerBlock,
                            unsigned threadsPerBlock, unsigned processors) {
  uint64_t blocks = (units + unitsPerBlock - 1) / unitsPerBlock;
  unsigned perProcessor = threadsPerBlock < 2048 ? 2048 / threadsPerBlock : 1;
  uint64_t held = uint64_t{processors > 0 ? processors : 1} * perProcessor;
  return static_cast<unsigned>(blocks < held ? blocks : held);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_LAUNCH_H
