//===- RuntimeDevice.cpp - Errors, versions, devices ------------*- C++ -*-===//
#include "test/cuda_on_host/Grid.h"
#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/include/cuda.h"

#include <cstdio>
#include <cstring>

using namespace ciuic::onhost;

namespace ciuic::onhost {

namespace {
thread_local cudaError_t lastError = cudaSuccess;
thread_local int threadDevice = 0;
} // namespace

int &currentDevice() { return threadDevice; }

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady)
    lastError = error;
  return error;
}

} // namespace ciuic::onhost

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name;
  const char *text;
};
#define ERROR(name, text) {name, #name, text}
constexpr ErrorText kErrors[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction"),
    ERROR(cudaErrorInsufficientDriver, "driver too old for the runtime"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorNoKernelImageForDevice, "no kernel image for the device"),
    ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ERROR(cudaErrorPeerAccessUnsupported, "peer access is not supported"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested"),
    ERROR(cudaErrorLaunchTimeout, "the launch timed out"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access already enabled"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "memory already registered"),
    ERROR(cudaErrorHostMemoryNotRegistered, "memory was not registered"),
    ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "not permitted while capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "the capture was invalidated"),
    ERROR(cudaErrorStreamCaptureUnmatched, "the capture began elsewhere"),
    ERROR(cudaErrorStreamCaptureUnjoined, "a captured stream is not joined"),
    ERROR(cudaErrorStreamCaptureIsolation, "a dependency crosses the capture"),
    ERROR(cudaErrorCapturedEvent, "the event was recorded while capturing"),
    ERROR(cudaErrorUnknown, "unknown error"),
};
#undef ERROR

const ErrorText *find(cudaError_t error) {
  for (const ErrorText &one : kErrors)
    if (one.error == error)
      return &one;
  return nullptr;
}

bool hasDevice(int device) {
  return device >= 0 && device < Machine::get().settings().devices;
}

} // namespace

cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  lastError = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  cudaError_t kept = Machine::get().stickyError(currentDevice());
  return kept != cudaSuccess ? kept : lastError;
}

const char *cudaGetErrorName(cudaError_t error) {
  const ErrorText *found = find(error);
  return found ? found->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  const ErrorText *found = find(error);
  return found ? found->text : "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *version) {
  CIUIC_ONHOST_CALL(cudaDriverGetVersion);
  *version = Machine::get().settings().driverVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  CIUIC_ONHOST_CALL(cudaRuntimeGetVersion);
  *version = Machine::get().settings().runtimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  CIUIC_ONHOST_CALL(cudaGetDeviceCount);
  *count = Machine::get().settings().devices;
  return *count > 0 ? cudaSuccess : remember(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device) {
  CIUIC_ONHOST_CALL(cudaGetDevice);
  *device = currentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  CIUIC_ONHOST_CALL(cudaSetDevice);
  if (!hasDevice(device))
    return remember(cudaErrorInvalidDevice);
  currentDevice() = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute,
                                   int device) {
  CIUIC_ONHOST_CALL(cudaDeviceGetAttribute);
  if (!hasDevice(device))
    return remember(cudaErrorInvalidDevice);
  Settings settings = Machine::get().settings();
  switch (attribute) {
  case cudaDevAttrMaxThreadsPerBlock:
    *value = static_cast<int>(kMostThreads);
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = 48 * 1024;
    return cudaSuccess;
  case cudaDevAttrWarpSize:
    *value = 32;
    return cudaSuccess;
  case cudaDevAttrMultiProcessorCount:
    *value = settings.processors;
    return cudaSuccess;
  case cudaDevAttrCanMapHostMemory:
  case cudaDevAttrUnifiedAddressing:
  case cudaDevAttrCanUseHostPointerForRegisteredMem:
    *value = 1;
    return cudaSuccess;
  case cudaDevAttrPciBusId:
    *value = device + 1;
    return cudaSuccess;
  case cudaDevAttrPciDeviceId:
  case cudaDevAttrPciDomainId:
    *value = 0;
    return cudaSuccess;
  case cudaDevAttrL2CacheSize:
    *value = 40 << 20;
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = 2048;
    return cudaSuccess;
  case cudaDevAttrAsyncEngineCount:
    *value = 3;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = settings.major;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = settings.minor;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *value = settings.major >= 9 ? 228 * 1024 : 164 * 1024;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *value = settings.major >= 9 ? 227 * 1024 : 163 * 1024;
    return cudaSuccess;
  case cudaDevAttrHostNumaId:
    *value = 0;
    return cudaSuccess;
  }
  return remember(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  CIUIC_ONHOST_CALL(cudaGetDeviceProperties);
  if (!hasDevice(device))
    return remember(cudaErrorInvalidDevice);
  Settings settings = Machine::get().settings();
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name,
                "emulated sm_%d%d on the host", settings.major, settings.minor);
  properties->totalGlobalMem = settings.memoryBytes;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = static_cast<int>(kMostThreads);
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = settings.major;
  properties->minor = settings.minor;
  properties->multiProcessorCount = settings.processors;
  properties->canMapHostMemory = properties->unifiedAddressing = 1;
  properties->pciBusID = device + 1;
  properties->asyncEngineCount = 3;
  properties->memoryBusWidth = 5120;
  properties->l2CacheSize = 40 << 20;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerMultiprocessor =
      settings.major >= 9 ? 228 * 1024 : 164 * 1024;
  properties->sharedMemPerBlockOptin =
      properties->sharedMemPerMultiprocessor - 1024;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device) {
  CIUIC_ONHOST_CALL(cudaDeviceGetPCIBusId);
  if (!hasDevice(device))
    return remember(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0",
                static_cast<unsigned>(device + 1));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  CIUIC_ONHOST_CALL(cudaDeviceGetStreamPriorityRange);
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  CIUIC_ONHOST_CALL(cudaDeviceSynchronize);
  if (!hasDevice(currentDevice()))
    return remember(cudaErrorNoDevice);
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  return remember(Machine::get().synchronizeDevice(currentDevice()));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  CIUIC_ONHOST_CALL(cudaDeviceCanAccessPeer);
  if (!hasDevice(device) || !hasDevice(peer))
    return remember(cudaErrorInvalidDevice);
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  CIUIC_ONHOST_CALL(cudaDeviceEnablePeerAccess);
  return remember(cudaErrorPeerAccessUnsupported);
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice device) {
  if (!hasDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  bool has = Machine::get().settings().streamMemoryOperations;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    *value = has;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

cudaError_t
cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                 unsigned long long,
                                 cudaDriverEntryPointQueryResult *result) {
  CIUIC_ONHOST_CALL(cudaGetDriverEntryPointByVersion);
  *function = nullptr;
  if (!std::strcmp(symbol, "cuStreamWaitValue32"))
    *function = reinterpret_cast<void *>(&cuStreamWaitValue32);
  else if (!std::strcmp(symbol, "cuStreamWriteValue32"))
    *function = reinterpret_cast<void *>(&cuStreamWriteValue32);
  else if (!std::strcmp(symbol, "cuDeviceGetAttribute"))
    *function = reinterpret_cast<void *>(&cuDeviceGetAttribute);
  if (result)
    *result = *function ? cudaDriverEntryPointSuccess
                        : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
