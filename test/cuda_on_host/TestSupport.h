//===- TestSupport.h - What tests of the emulator share ---------*- C++ -*-===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_TESTSUPPORT_H
#define CIUIC_TEST_CUDA_ON_HOST_TESTSUPPORT_H

#include "test/cuda_on_host/OnHost.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ciuic::onhost::test {

/// New devices; what is stuck is given up soon.
inline void start(uint64_t seed = 1, int devices = 1) {
  Settings settings;
  settings.seed = seed;
  settings.devices = devices;
  settings.stuckSeconds = 2;
  configure(settings);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

inline bool contains(const std::vector<std::string> &reports,
                     const std::string &text) {
  for (const std::string &one : reports)
    if (one.find(text) != std::string::npos)
      return true;
  return false;
}

inline std::vector<std::string> noReports() { return {}; }

template <typename T> T *allocate(size_t count) {
  T *p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, count * sizeof(T)), cudaSuccess);
  return p;
}

template <typename T> T *allocate(const std::vector<T> &values) {
  T *p = allocate<T>(values.size());
  EXPECT_EQ(cudaMemcpy(p, values.data(), values.size() * sizeof(T),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  return p;
}

template <typename T> std::vector<T> read(const T *device, size_t count) {
  std::vector<T> host(count);
  EXPECT_EQ(cudaMemcpy(host.data(), device, count * sizeof(T),
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  return host;
}

/// Starts `kernel(arguments...)`; `shared` bytes of dynamic shared memory.
template <typename... P, typename... A>
cudaError_t launchShared(size_t shared, cudaStream_t stream,
                         void (*kernel)(P...), dim3 grid, dim3 block,
                         A... arguments) {
  return launchKernel(reinterpret_cast<const void *>(kernel), grid, block,
                      shared, stream, [=] { kernel(arguments...); });
}

template <typename... P, typename... A>
void launchOn(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
              A... arguments) {
  EXPECT_EQ(launchShared(0, stream, kernel, grid, block, arguments...),
            cudaSuccess);
}

} // namespace ciuic::onhost::test

#endif // CIUIC_TEST_CUDA_ON_HOST_TESTSUPPORT_H
