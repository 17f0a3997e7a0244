//===- Arguments.cuh - What launchers check before they launch --*- CUDA
//-*-===//
//
// A launcher trusts nothing that it is given: each view must have the type,
// shape and density that its kernel counts on, else it returns
// cudaErrorInvalidValue and enqueues nothing. Host code only.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_ARGUMENTS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_ARGUMENTS_CUH

#include "runtime/abi/Program.h"
#include "runtime/kernels/cuda/Kernel.cuh"
#include "runtime/kernels/cuda/Launch.h"

namespace ciuic::cuda {

/// The program's name of a C++ type.
template <typename T> inline constexpr abi::DType dtypeOf = abi::DType::F32;
template <> inline constexpr abi::DType dtypeOf<f16> = abi::DType::F16;
template <> inline constexpr abi::DType dtypeOf<bf16> = abi::DType::BF16;
template <> inline constexpr abi::DType dtypeOf<double> = abi::DType::F64;
template <> inline constexpr abi::DType dtypeOf<int32_t> = abi::DType::I32;

/// Rows without gaps, `stride` elements apart. Passed to kernels by value.
template <typename T> struct Matrix {
  T *data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;

  int64_t elements() const { return rows * columns; }
  bool isDense() const { return rows <= 1 || stride == columns; }
};

/// More elements than any view has; products of two lesser counts of bytes
/// stay within 64 bits.
inline constexpr int64_t mostElements = int64_t(1) << 48;

inline bool hasCounts(const abi::CudaLaunch &launch, uint32_t views,
                      uint32_t ints, uint32_t reals) {
  return launch.viewCount == views && launch.intCount >= ints &&
         launch.realCount >= reals;
}

/// Whether view `index` has rows without gaps and a sound shape; its pointer
/// and shape in `out`. Of any type of T's size.
template <typename T>
bool takeBits(const abi::CudaLaunch &launch, uint32_t index, Matrix<T> &out) {
  const abi::View &view = launch.views[index];
  if (view.shape[0] < 0 || view.shape[1] < 0 || view.shape[0] > mostElements ||
      view.shape[1] > mostElements ||
      (view.shape[1] > 0 && view.shape[0] > mostElements / view.shape[1]))
    return false;
  if (view.shape[1] > 1 && view.strides[1] != 1)
    return false;
  if (view.shape[0] > 1 &&
      (view.strides[0] < 0 || view.strides[0] > mostElements / view.shape[0]))
    return false;
  out.data = static_cast<T *>(launch.pointers[index]);
  out.rows = view.shape[0];
  out.columns = view.shape[1];
  out.stride = view.shape[0] > 1 ? view.strides[0] : view.shape[1];
  return (out.data || out.elements() == 0) &&
         reinterpret_cast<uintptr_t>(out.data) % alignof(T) == 0;
}

/// The same for a view of T itself.
template <typename T>
bool take(const abi::CudaLaunch &launch, uint32_t index, Matrix<T> &out) {
  return launch.views[index].dtype == dtypeOf<T> &&
         takeBits(launch, index, out);
}

/// The same for a view of this shape.
template <typename T>
bool take(const abi::CudaLaunch &launch, uint32_t index, Matrix<T> &out,
          int64_t rows, int64_t columns) {
  return take(launch, index, out) && out.rows == rows && out.columns == columns;
}

/// Whether view `index` is `elements` values without gaps, of any shape.
template <typename T>
bool takeList(const abi::CudaLaunch &launch, uint32_t index, T *&out,
              int64_t elements) {
  Matrix<T> matrix;
  if (!take(launch, index, matrix) || !matrix.isDense() ||
      matrix.elements() != elements)
    return false;
  out = matrix.data;
  return true;
}

template <typename T>
bool takeScalar(const abi::CudaLaunch &launch, uint32_t index, T *&out) {
  return takeList(launch, index, out, 1);
}

/// Scratch for `count` values from byte `offset` on; null if there is less.
template <typename T>
T *takeScratch(const abi::CudaLaunch &launch, uint64_t offset, uint64_t count) {
  if (!launch.scratch || offset > launch.scratchBytes ||
      count > (launch.scratchBytes - offset) / sizeof(T) ||
      reinterpret_cast<uintptr_t>(launch.scratch) % 16 != 0)
    return nullptr;
  return reinterpret_cast<T *>(static_cast<char *>(launch.scratch) + offset);
}

/// Whether 16-byte accesses at every row's start are allowed.
template <typename T> bool hasAlignedRows(const Matrix<T> &matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
         (matrix.rows <= 1 ||
          matrix.stride * static_cast<int64_t>(sizeof(T)) % 16 == 0);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_ARGUMENTS_CUH
