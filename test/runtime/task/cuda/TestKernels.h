//===- TestKernels.h - Launchers for programs made by hand ------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_TASK_CUDA_TESTKERNELS_H
#define CIUIC_TEST_RUNTIME_TASK_CUDA_TESTKERNELS_H

#include "runtime/abi/Program.h"

#include <cmath>
#include <cstdint>

namespace ciuic::rt::test {

/// What every step of a random program does to each element: small whole
/// numbers stay such, so that sums are exact in any order.
inline float stepped(float x, int64_t k) {
  return std::floor(std::fmod(x * 3 + static_cast<float>(k), 64.0f));
}

/// x -> out: stepped(x, ints[0]), one element a thread.
int launchStep(const abi::CudaLaunch &launch);

/// The same on the CPU, for k = 5: rows are elements.
inline void hostStep(int64_t begin, int64_t end, void *const *pointers) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(pointers[1])[i] =
        stepped(static_cast<const float *>(pointers[0])[i], 5);
}

/// Always fails.
int launchFailure(const abi::CudaLaunch &launch);

/// Writes beyond the end of the arena of its view.
int launchOutside(const abi::CudaLaunch &launch);

/// Bundle.cudaReduce.
int reduceOnDevice(abi::DType dtype, const void *const *inputs, uint32_t ranks,
                   void *out, uint64_t elements, int mean, void *stream);

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_TASK_CUDA_TESTKERNELS_H
