//===- Attention.cuh - Launchers of causal attention ------------*- C++ -*-===//
//
// launchAttentionForward<T, dim> and launchAttentionBackward<T, dim> enqueue
// the task kinds AttentionForward and AttentionBackward for head size `dim`.
// Tensor cores serve f16 and bf16 with head sizes 64 and 128; all else, up to
// head size 256, runs without them. `aligned` says that the views of q, k, v,
// out and their gradients start, and their rows lie, at multiples of 16 bytes;
// false chooses the kernels that need no alignment. Only the kernels of one
// choice are instantiated.
//
// Backward needs rows * heads * 4 bytes of scratch, forward none.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ATTENTION_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ATTENTION_CUH

#include "runtime/kernels/cuda/AttentionAny.cuh"
#include "runtime/kernels/cuda/AttentionBackward.cuh"
#include "runtime/kernels/cuda/AttentionForward.cuh"

namespace ciuic::cuda {

template <typename T, int dim, bool aligned>
inline constexpr bool attentionOnTensorCores =
    aligned && sizeof(T) == 2 && (dim == 64 || dim == 128);

/// Starts `kernel` with a block of threads for each block of `blockRows` rows
/// of each of `heads` heads.
template <typename Arguments>
cudaError_t launchAttention(void (*kernel)(Arguments),
                            const Arguments &arguments, int blockRows,
                            int heads, int threads, size_t sharedBytes,
                            cudaStream_t stream) {
  const AttentionShape &shape = arguments.shape;
  const int64_t blocks = static_cast<int64_t>(shape.sequences) * heads *
                         blocksOf(shape.seq, blockRows);
  if (blocks > 0x7fffffff)
    return cudaErrorInvalidValue;
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads),
                sharedBytes, stream, arguments);
}

/// Starts `kernel` with `lanes` threads for each row and head.
template <typename Arguments>
cudaError_t launchDelta(void (*kernel)(Arguments), const Arguments &arguments,
                        int lanes, cudaStream_t stream) {
  const AttentionShape &shape = arguments.shape;
  const int perBlock = 128 / lanes;
  const int64_t units =
      static_cast<int64_t>(shape.sequences) * shape.seq * shape.heads;
  const int64_t blocks = (units + perBlock - 1) / perBlock;
  if (blocks > 0x7fffffff)
    return cudaErrorInvalidValue;
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(128), 0,
                stream, arguments);
}

/// q, k, v -> out, lse.
template <typename T, int dim, bool aligned = true>
cudaError_t launchAttentionForward(const abi::CudaLaunch &task) {
  constexpr bool tensorCores = attentionOnTensorCores<T, dim, aligned>;
  constexpr size_t alignment = tensorCores ? 16 : sizeof(T);
  AttentionForwardArguments<T> of;
  if (task.viewCount != 5 ||
      !attentionShapeOf(task, 0, 1, dim, sizeof(T), of.shape) ||
      !sameShape(task, 2, 1) || !sameShape(task, 3, 0) ||
      !isPerHead(task, 4, of.shape) || !rowsOf<T>(task, 0, alignment, of.q) ||
      !rowsOf<T>(task, 1, alignment, of.k) ||
      !rowsOf<T>(task, 2, alignment, of.v) ||
      !rowsOf<T>(task, 3, alignment, of.out) ||
      !rowsOf<float>(task, 4, sizeof(float), of.lse))
    return cudaErrorInvalidValue;
  if constexpr (tensorCores) {
    using Tiles = AttentionForwardTiles<dim>;
    return launchAttention(attentionForwardKernel<T, dim>, of, Tiles::queryRows,
                           of.shape.heads, kAttentionThreads,
                           Tiles::sharedBytes, streamOf(task));
  } else {
    using Tiles = AttentionAnyTiles<dim>;
    return launchAttention(attentionForwardAnyKernel<T, dim>, of, Tiles::rows,
                           of.shape.heads, Tiles::threads, Tiles::forwardBytes,
                           streamOf(task));
  }
}

/// dy, q, k, v, y, lse -> dq, dk, dv.
template <typename T, int dim, bool aligned = true>
cudaError_t launchAttentionBackward(const abi::CudaLaunch &task) {
  constexpr bool tensorCores = attentionOnTensorCores<T, dim, aligned>;
  constexpr size_t alignment = tensorCores ? 16 : sizeof(T);
  AttentionBackwardArguments<T> of;
  if (task.viewCount != 9 ||
      !attentionShapeOf(task, 1, 2, dim, sizeof(T), of.shape) ||
      !sameShape(task, 0, 1) || !sameShape(task, 3, 2) ||
      !sameShape(task, 4, 1) || !isPerHead(task, 5, of.shape) ||
      !sameShape(task, 6, 1) || !sameShape(task, 7, 2) ||
      !sameShape(task, 8, 2) || !rowsOf<T>(task, 0, alignment, of.dy) ||
      !rowsOf<T>(task, 1, alignment, of.q) ||
      !rowsOf<T>(task, 2, alignment, of.k) ||
      !rowsOf<T>(task, 3, alignment, of.v) ||
      !rowsOf<T>(task, 4, alignment, of.y) ||
      !rowsOf<float>(task, 5, sizeof(float), of.lse) ||
      !rowsOf<T>(task, 6, alignment, of.dq) ||
      !rowsOf<T>(task, 7, alignment, of.dk) ||
      !rowsOf<T>(task, 8, alignment, of.dv))
    return cudaErrorInvalidValue;
  const AttentionShape &shape = of.shape;
  of.delta.data = static_cast<float *>(task.scratch);
  of.delta.stride = shape.heads;
  const uint64_t rows = static_cast<uint64_t>(shape.sequences) * shape.seq;
  if (task.scratchBytes < rows * shape.heads * sizeof(float) ||
      (rows > 0 && !task.scratch))
    return cudaErrorInvalidValue;

  const cudaStream_t stream = streamOf(task);
  cudaError_t error;
  if constexpr (tensorCores) {
    using Tiles = AttentionBackwardTiles<dim>;
    error = launchDelta(attentionDeltaKernel<T, dim>, of, dim / 8, stream);
    if (error == cudaSuccess)
      error = launchAttention(attentionKeyGradKernel<T, dim>, of, Tiles::rows,
                              shape.kvHeads, kAttentionThreads,
                              Tiles::keyGradBytes, stream);
    if (error == cudaSuccess)
      error = launchAttention(attentionQueryGradKernel<T, dim>, of, Tiles::rows,
                              shape.heads, kAttentionThreads,
                              Tiles::queryGradBytes, stream);
  } else {
    using Tiles = AttentionAnyTiles<dim>;
    error = launchDelta(attentionDeltaAnyKernel<T, dim>, of, 32, stream);
    if (error == cudaSuccess)
      error = launchAttention(attentionKeyGradAnyKernel<T, dim>, of,
                              Tiles::rows, shape.kvHeads, Tiles::threads,
                              Tiles::backwardBytes, stream);
    if (error == cudaSuccess)
      error = launchAttention(attentionQueryGradAnyKernel<T, dim>, of,
                              Tiles::rows, shape.heads, Tiles::threads,
                              Tiles::backwardBytes, stream);
  }
  return error;
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ATTENTION_CUH
