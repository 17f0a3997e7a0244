//===- AttentionInstances.h - Attention kernels under test ------*- C++ -*-===//
//
// The instances of the attention launchers that attention_test.cpp calls and
// attention_kernels.cpp makes: only there are loads and stores recorded.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_RUNTIME_KERNELS_CUDA_ATTENTIONINSTANCES_H
#define CIUIC_TEST_RUNTIME_KERNELS_CUDA_ATTENTIONINSTANCES_H

#include "runtime/kernels/cuda/Attention.cuh"

#define CIUIC_ATTENTION_INSTANCE(prefix, T, dim, aligned)                      \
  prefix template cudaError_t launchAttentionForward<T, dim, aligned>(         \
      const abi::CudaLaunch &);                                                \
  prefix template cudaError_t launchAttentionBackward<T, dim, aligned>(        \
      const abi::CudaLaunch &);

#define CIUIC_ATTENTION_INSTANCES(prefix)                                      \
  CIUIC_ATTENTION_INSTANCE(prefix, bf16, 64, true)                             \
  CIUIC_ATTENTION_INSTANCE(prefix, bf16, 128, true)                            \
  CIUIC_ATTENTION_INSTANCE(prefix, f16, 64, true)                              \
  CIUIC_ATTENTION_INSTANCE(prefix, f16, 128, true)                             \
  CIUIC_ATTENTION_INSTANCE(prefix, bf16, 64, false)                            \
  CIUIC_ATTENTION_INSTANCE(prefix, bf16, 96, true)                             \
  CIUIC_ATTENTION_INSTANCE(prefix, bf16, 256, true)                            \
  CIUIC_ATTENTION_INSTANCE(prefix, f16, 80, true)                              \
  CIUIC_ATTENTION_INSTANCE(prefix, float, 5, true)                             \
  CIUIC_ATTENTION_INSTANCE(prefix, float, 16, true)                            \
  CIUIC_ATTENTION_INSTANCE(prefix, float, 64, true)                            \
  CIUIC_ATTENTION_INSTANCE(prefix, float, 128, true)

namespace ciuic::cuda {
CIUIC_ATTENTION_INSTANCES(extern)
} // namespace ciuic::cuda

#endif // CIUIC_TEST_RUNTIME_KERNELS_CUDA_ATTENTIONINSTANCES_H
