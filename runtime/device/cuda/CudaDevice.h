//===- CudaDevice.h - Which GPUs run the ranks of this process --*- C++ -*-===//
#ifndef CIUIC_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define CIUIC_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::rt {

struct CudaDevice {
  int index = 0; ///< As cudaSetDevice takes it.
  std::string name;
  int major = 0, minor = 0; ///< Compute capability.
  uint32_t processors = 0;  ///< Multiprocessors.
  int numaNode = -1;        ///< Of the host memory next to it; -1: unknown.

  /// "device 0 (NVIDIA H200)", for messages.
  std::string str() const;
};

/// Whether kernels built for `architectures` ("sm_80,sm_90a") run on compute
/// capability `major`.`minor`: those of an `a` target on exactly their own,
/// those of an `f` target on their major version from their minor version on.
/// All others run on newer ones too: bundles hold them also in the form that
/// the driver makes code of.
/// Code::Invalid, with both numbers, if none does.
Status checkArchitecture(std::string_view architectures, int major, int minor);

/// The devices of `localRanks` ranks, one each from `first` on, or `first` for
/// all if they share it. Refuses (Code::Machine) fewer devices than ranks, a
/// driver older than the runtime library, a runtime library older than the
/// headers this was compiled with, and (Code::Invalid) devices that the kernels
/// do not run on.
Result<std::vector<CudaDevice>> chooseDevices(std::string_view architectures,
                                              uint32_t localRanks,
                                              bool shareDevice, int first = 0);

/// Refuses a library that reports a version below the one compiled with; both
/// are said as the library numbers them.
Status checkVersion(const char *library, int64_t found, int64_t expected);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
