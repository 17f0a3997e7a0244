//===- CudaStatus.cpp - Errors of the CUDA runtime as Status --------------===//
#include "runtime/device/cuda/CudaStatus.h"

namespace ciuic::rt {

Status toStatus(cudaError_t error, const char *call) {
  if (error == cudaSuccess)
    return {};
  // What is reported here is not to be reported again by a later call.
  cudaGetLastError();
  return Status::machine(std::string(call) + ": " + cudaGetErrorName(error) +
                         ": " + cudaGetErrorString(error));
}

} // namespace ciuic::rt
