//===- HostDevice.h - Functions that CUDA devices also run ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_KERNELS_SCALAR_HOSTDEVICE_H
#define CIUIC_RUNTIME_KERNELS_SCALAR_HOSTDEVICE_H

/// Before a function that is compiled for the host and, by nvcc, also for
/// devices. Such a function calls nothing of the standard library but what
/// CUDA overloads (std::sqrt, std::log, std::cos, std::isfinite).
#ifdef __CUDACC__
#define CIUIC_HOST_DEVICE __host__ __device__
#else
#define CIUIC_HOST_DEVICE
#endif

namespace ciuic::rt {

// std::min and std::max are of the host alone.
template <typename T> CIUIC_HOST_DEVICE constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}
template <typename T> CIUIC_HOST_DEVICE constexpr T greater(T a, T b) {
  return a < b ? b : a;
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_SCALAR_HOSTDEVICE_H
