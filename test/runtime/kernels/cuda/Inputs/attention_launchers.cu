// Launchers as a bundle instantiates them: tensor cores with both head sizes,
// and the kernels for everything else.
#include "runtime/kernels/cuda/Attention.cuh"

using namespace ciuic;

#define LAUNCHERS(name, T, dim)                                                \
  extern "C" int forward_##name(const abi::CudaLaunch &launch) {               \
    return cuda::launchAttentionForward<T, dim>(launch);                       \
  }                                                                            \
  extern "C" int backward_##name(const abi::CudaLaunch &launch) {              \
    return cuda::launchAttentionBackward<T, dim>(launch);                      \
  }

LAUNCHERS(f16_64, cuda::f16, 64)
LAUNCHERS(bf16_128, cuda::bf16, 128)
LAUNCHERS(bf16_80, cuda::bf16, 80)
LAUNCHERS(f32_128, float, 128)
LAUNCHERS(f32_256, float, 256)
