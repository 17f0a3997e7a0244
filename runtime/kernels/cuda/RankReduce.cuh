//===- RankReduce.cuh - Reductions of ranks that share a device -*- CUDA
//-*-===//
//
// Ranks on one device need no network: their values lie side by side. They are
// added in rank order and rounded once, so that the bits are those of the
// ranks on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_RANKREDUCE_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_RANKREDUCE_CUH

#include "runtime/kernels/cuda/Arguments.cuh"

namespace ciuic::cuda {

inline constexpr uint32_t mostRanks = 256;
inline constexpr unsigned reduceThreads = 256;
/// Blocks that a multiprocessor holds at once, at the least.
inline constexpr unsigned reduceBlocks = 4;

struct RankInputs {
  const void *at[mostRanks];
};

/// What values of T are added in.
template <typename T> struct SumOf {
  using Type = float;
};
template <> struct SumOf<double> {
  using Type = double;
};
template <> struct SumOf<int32_t> {
  using Type = int64_t;
};

template <typename T> __device__ inline typename SumOf<T>::Type widened(T x) {
  if constexpr (sizeof(T) == 2)
    return toFloat(x);
  else
    return x;
}

template <typename T> __device__ inline T narrowed(typename SumOf<T>::Type x) {
  if constexpr (sizeof(T) == 2)
    return fromFloat<T>(x);
  else
    return static_cast<T>(x);
}

/// N elements from element `at` on. `out` may be the place of an input.
template <typename T, int N>
__device__ inline void reduceElements(const RankInputs &inputs, uint32_t ranks,
                                      T *out, uint64_t at,
                                      typename SumOf<T>::Type factor) {
  typename SumOf<T>::Type sums[N];
#pragma unroll
  for (int i = 0; i < N; ++i)
    sums[i] = 0;
#pragma unroll 4
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Vector<T, N> x =
        loadVector<N>(static_cast<const T *>(inputs.at[rank]) + at);
#pragma unroll
    for (int i = 0; i < N; ++i)
      sums[i] = rank == 0 ? widened(x[i]) : sums[i] + widened(x[i]);
  }
  Vector<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    result[i] = narrowed<T>(sums[i] * factor);
  storeVector(out + at, result);
}

/// Grid: vectors in turn, then the elements that are left.
template <typename T, int Width>
__global__ void __launch_bounds__(reduceThreads, reduceBlocks)
    reduceRanksKernel(RankInputs inputs, uint32_t ranks, T *out,
                      uint64_t elements, typename SumOf<T>::Type factor) {
  uint64_t thread = uint64_t(blockIdx.x) * reduceThreads + threadIdx.x;
  uint64_t threads = uint64_t(gridDim.x) * reduceThreads;
  uint64_t vectors = elements / Width;
  for (uint64_t i = thread; i < vectors; i += threads)
    reduceElements<T, Width>(inputs, ranks, out, i * Width, factor);
  for (uint64_t i = vectors * Width + thread; i < elements; i += threads)
    reduceElements<T, 1>(inputs, ranks, out, i, factor);
}

template <typename T>
cudaError_t launchReduceRanks(const void *const *inputs, uint32_t ranks,
                              void *out, uint64_t elements,
                              typename SumOf<T>::Type factor, void *stream) {
  constexpr int width = 16 / static_cast<int>(sizeof(T));
  RankInputs from{};
  bool aligned = isAligned<T, width>(out);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (!inputs[rank])
      return cudaErrorInvalidValue;
    from.at[rank] = inputs[rank];
    aligned = aligned && isAligned<T, width>(inputs[rank]);
  }
  // More blocks than any device holds at once would only queue.
  uint64_t blocks =
      (elements / (aligned ? width : 1) + reduceThreads) / reduceThreads;
  auto kernel = aligned ? reduceRanksKernel<T, width> : reduceRanksKernel<T, 1>;
  return launch(kernel,
                dim3(static_cast<unsigned>(blocks < 1024 ? blocks : 1024)),
                dim3(reduceThreads), 0, static_cast<cudaStream_t>(stream), from,
                ranks, static_cast<T *>(out), elements, factor);
}

/// abi::CudaReduceFn. Of i32 there are only sums.
inline int reduceRanks(abi::DType dtype, const void *const *inputs,
                       uint32_t ranks, void *out, uint64_t elements, int mean,
                       void *stream) {
  if (elements == 0)
    return cudaSuccess;
  if (!inputs || !out || ranks == 0 || ranks > mostRanks ||
      elements > static_cast<uint64_t>(mostElements))
    return cudaErrorInvalidValue;
  double factor = mean ? 1.0 / static_cast<double>(ranks) : 1.0;
  auto factor32 = static_cast<float>(factor);
  switch (dtype) {
  case abi::DType::F32:
    return launchReduceRanks<float>(inputs, ranks, out, elements, factor32,
                                    stream);
  case abi::DType::F16:
    return launchReduceRanks<f16>(inputs, ranks, out, elements, factor32,
                                  stream);
  case abi::DType::BF16:
    return launchReduceRanks<bf16>(inputs, ranks, out, elements, factor32,
                                   stream);
  case abi::DType::F64:
    return launchReduceRanks<double>(inputs, ranks, out, elements, factor,
                                     stream);
  case abi::DType::I32:
    if (mean)
      return cudaErrorInvalidValue;
    return launchReduceRanks<int32_t>(inputs, ranks, out, elements, 1, stream);
  }
  return cudaErrorInvalidValue;
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_RANKREDUCE_CUH
