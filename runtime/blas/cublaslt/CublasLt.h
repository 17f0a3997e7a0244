//===- CublasLt.h - Matrix products on a GPU --------------------*- C++ -*-===//
//
// C = op(A) op(B) [+ bias] [+ C] with cuBLASLt. Our matrices are row-major, the
// library's column-major: it computes C' = op(B)' op(A)', for which the same
// memory serves as it is. Sums are in f32; f32 inputs are not rounded to TF32
// unless that is asked for. The workspace is the task's planned scratch.
//
// How the library does a product, of many ways with different bits and speed,
// is chosen once a kind of product: the file's choice, else the fastest of the
// candidates on this device if tuning, else the library's first.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BLAS_CUBLASLT_CUBLASLT_H
#define CIUIC_RUNTIME_BLAS_CUBLASLT_CUBLASLT_H

#include "runtime/blas/cublaslt/ProductChoices.h"
#include "runtime/task/cuda/DeviceTask.h"

#include <memory>

namespace ciuic::rt {

class CublasLt {
public:
  /// For one device. `choices` is shared by all devices of a machine, which
  /// make products one after another. With `tune` products are run when they
  /// are made, on whatever the tensors' memory holds.
  static Result<std::unique_ptr<CublasLt>> create(const CudaDevice &device,
                                                  ProductChoices &choices,
                                                  bool tune, bool tf32);
  ~CublasLt();

  Result<DeviceTaskPtr> makeProduct(const DeviceTaskArguments &arguments);

  /// Operations a second that a large product of `dtype` reaches, with memory
  /// that is freed again; 0 where there is too little.
  double measurePeak(abi::DType dtype);

  /// Refuses a library older than compiled with.
  static Status checkLibrary();
  static uint64_t libraryVersion();

  class Impl;

private:
  explicit CublasLt(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BLAS_CUBLASLT_CUBLASLT_H
