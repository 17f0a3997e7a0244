//===- CudaStatus.h - Errors of the CUDA runtime as Status ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_DEVICE_CUDA_CUDASTATUS_H
#define CIUIC_RUNTIME_DEVICE_CUDA_CUDASTATUS_H

#include "runtime/base/Status.h"

#include <cuda_runtime.h>

namespace ciuic::rt {

/// Code::Machine with the error's name and meaning and the call that gave it:
/// "cudaMalloc: cudaErrorMemoryAllocation: out of memory".
Status toStatus(cudaError_t error, const char *call);

} // namespace ciuic::rt

/// Returns from the enclosing function when a call of the CUDA runtime fails:
///   CIUIC_TRY_CUDA(cudaSetDevice, index);
#define CIUIC_TRY_CUDA(function, ...)                                          \
  do {                                                                         \
    if (cudaError_t error_ = function(__VA_ARGS__); error_ != cudaSuccess)     \
      return ::ciuic::rt::toStatus(error_, #function);                         \
  } while (false)

#endif // CIUIC_RUNTIME_DEVICE_CUDA_CUDASTATUS_H
