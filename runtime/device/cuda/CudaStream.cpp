//===- CudaStream.cpp - Streams, events and waits for the host ------------===//
#include "runtime/device/cuda/CudaStream.h"

#include <cuda.h>

namespace ciuic::rt {

Result<CudaStream> CudaStream::create(bool urgent) {
  int least = 0, greatest = 0;
  CIUIC_TRY_CUDA(cudaDeviceGetStreamPriorityRange, &least, &greatest);
  CudaStream made;
  CIUIC_TRY_CUDA(cudaStreamCreateWithPriority, &made.stream,
                 cudaStreamNonBlocking, urgent ? greatest : least);
  return made;
}

CudaStream::~CudaStream() {
  if (stream && cudaStreamDestroy(stream) != cudaSuccess)
    cudaGetLastError();
}

Result<CudaEvent> CudaEvent::create(Use use) {
  unsigned flags = use == Use::Measure ? cudaEventDefault
                   : use == Use::Block
                       ? cudaEventDisableTiming | cudaEventBlockingSync
                       : cudaEventDisableTiming;
  CudaEvent made;
  CIUIC_TRY_CUDA(cudaEventCreateWithFlags, &made.event, flags);
  return made;
}

CudaEvent::~CudaEvent() {
  if (event && cudaEventDestroy(event) != cudaSuccess)
    cudaGetLastError();
}

int StreamFlagWait::call(cudaStream_t stream, const uint32_t *flag,
                         uint32_t value) const {
  using Wait = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  return reinterpret_cast<Wait>(function)(reinterpret_cast<CUstream>(stream),
                                          reinterpret_cast<CUdeviceptr>(flag),
                                          value, CU_STREAM_WAIT_VALUE_GEQ);
}

static Status fail(int result) {
  return Status::machine("cuStreamWaitValue32: error " +
                         std::to_string(result) + " of the CUDA driver");
}

static void *findWaitFunction() {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  // The function of version 12.0 needs no parameter of the kernel module.
  cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuStreamWaitValue32", &function, 12000, cudaEnableDefault, &found);
#else
  cudaError_t error = cudaGetDriverEntryPoint("cuStreamWaitValue32", &function,
                                              cudaEnableDefault, &found);
#endif
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess)
    return function;
  cudaGetLastError();
  return nullptr;
}

Result<StreamFlagWait> StreamFlagWait::find(cudaStream_t stream,
                                            const uint32_t *flag) {
  StreamFlagWait wait;
  wait.function = findWaitFunction();
  if (!wait.function)
    return wait;
  // A driver may have the function and no device that does it.
  int result = wait.call(stream, flag, *flag);
  if (result == CUDA_ERROR_NOT_SUPPORTED)
    wait.function = nullptr;
  else if (result != CUDA_SUCCESS)
    return fail(result);
  return wait;
}

Status StreamFlagWait::enqueue(cudaStream_t stream, const uint32_t *flag,
                               uint32_t value) const {
  int result = call(stream, flag, value);
  return result == CUDA_SUCCESS ? Status() : fail(result);
}

} // namespace ciuic::rt
