//===- Move.cuh - Copies, conversions, zeros, accumulation ------*- CUDA
//-*-===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_MOVE_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_MOVE_CUH

#include "runtime/kernels/cuda/Elements.cuh"

namespace ciuic::cuda {

/// Elements that a thread moves at once: 32 bytes of the wider type, so that
/// enough accesses are under way to keep the memory busy.
template <typename A, typename B>
inline constexpr int moveWidth =
    32 / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

template <typename From, typename To> struct CopyElements {
  const From *from;
  To *to;
  int64_t fromStride, toStride;

  template <int N> __device__ void at(int64_t row, int64_t column) const {
    Vector<From, N> x = loadVector<N>(from + row * fromStride + column);
    To *target = to + row * toStride + column;
    if constexpr (std::is_same_v<From, To>) {
      storeVector(target, x);
    } else {
      float values[N];
#pragma unroll
      for (int i = 0; i < N; ++i)
        values[i] = toFloat(x[i]);
      storeVector(target, rounded<To>(values));
    }
  }
};

/// src -> dst. From and To are f32, f16 or bf16, or the same type twice.
template <typename From, typename To>
cudaError_t launchCopy(const abi::CudaLaunch &launch) {
  Matrix<From> from;
  Matrix<To> to;
  if (!hasCounts(launch, 2, 0, 0) || !take(launch, 0, from) ||
      !take(launch, 1, to) || from.elements() != to.elements())
    return cudaErrorInvalidValue;
  bool dense = from.isDense() && to.isDense();
  if (from.columns != to.columns && !dense)
    return cudaErrorInvalidValue;
  auto source = reinterpret_cast<uintptr_t>(from.data);
  auto target = reinterpret_cast<uintptr_t>(to.data);
  if constexpr (std::is_same_v<From, To>)
    if (source == target && from.stride == to.stride)
      return cudaSuccess;
  auto elements = static_cast<uint64_t>(from.elements());
  if (dense && source < target + elements * sizeof(To) &&
      target < source + elements * sizeof(From))
    return cudaErrorInvalidValue; // One would be read after it was overwritten.
  return launchElements<moveWidth<From, To>>(
      launch, from.rows, from.columns, dense,
      hasAlignedRows(from) && hasAlignedRows(to),
      CopyElements<From, To>{from.data, to.data, from.stride, to.stride});
}

struct ZeroElements {
  uint16_t *to;
  int64_t stride;

  template <int N> __device__ void at(int64_t row, int64_t column) const {
    storeVector(to + row * stride + column, Vector<uint16_t, N>{});
  }
};

/// -> dst, of any type: all bytes zero.
inline cudaError_t launchZero(const abi::CudaLaunch &launch) {
  Matrix<uint16_t> to;
  if (!hasCounts(launch, 1, 0, 0) || !takeBits(launch, 0, to))
    return cudaErrorInvalidValue;
  // Counted in pieces of 2 bytes, which divide every type.
  abi::DType dtype = launch.views[0].dtype;
  int64_t pieces = dtype == abi::DType::F64                               ? 4
                   : dtype == abi::DType::F32 || dtype == abi::DType::I32 ? 2
                                                                          : 1;
  to.columns *= pieces;
  to.stride *= pieces;
  return launchElements<16>(launch, to.rows, to.columns, to.isDense(),
                            hasAlignedRows(to),
                            ZeroElements{to.data, to.stride});
}

template <typename X, bool add> struct AccumulateElements {
  const X *x;
  float *out;
  int64_t xStride, outStride;

  template <int N> __device__ void at(int64_t row, int64_t column) const {
    Vector<X, N> value = loadVector<N>(x + row * xStride + column);
    float *target = out + row * outStride + column;
    Vector<float, N> sum;
    if constexpr (add)
      sum = loadVector<N>(target);
#pragma unroll
    for (int i = 0; i < N; ++i)
      sum[i] = (add ? sum[i] : 0.0f) + toFloat(value[i]);
    storeVector(target, sum);
  }
};

/// x -> out (f32): out = x, or out += x.
template <typename X>
cudaError_t launchAccumulate(const abi::CudaLaunch &launch) {
  Matrix<X> x;
  Matrix<float> out;
  if (!hasCounts(launch, 2, 1, 0) || !take(launch, 0, x) ||
      !take(launch, 1, out) || x.elements() != out.elements())
    return cudaErrorInvalidValue;
  bool dense = x.isDense() && out.isDense();
  if (x.columns != out.columns && !dense)
    return cudaErrorInvalidValue;
  bool aligned = hasAlignedRows(x) && hasAlignedRows(out);
  if (launch.ints[0])
    return launchElements<8>(
        launch, x.rows, x.columns, dense, aligned,
        AccumulateElements<X, true>{x.data, out.data, x.stride, out.stride});
  return launchElements<8>(
      launch, x.rows, x.columns, dense, aligned,
      AccumulateElements<X, false>{x.data, out.data, x.stride, out.stride});
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_MOVE_CUH
