//===- Kernel.cuh - What emitted CUDA kernels are written in ----*- CUDA
//-*-===//
//
// 16-bit types with explicit conversions, and sums over a block in a fixed
// order: lanes of a warp by shuffles, then warps by number.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using f16 = __half;
using bf16 = __nv_bfloat16;

__device__ inline float toFloat(float x) { return x; }
__device__ inline float toFloat(f16 x) { return __half2float(x); }
__device__ inline float toFloat(bf16 x) { return __bfloat162float(x); }

template <typename T> __device__ T fromFloat(float x);
template <> __device__ inline float fromFloat<float>(float x) { return x; }
template <> __device__ inline f16 fromFloat<f16>(float x) {
  return __float2half_rn(x);
}
template <> __device__ inline bf16 fromFloat<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

/// The sum of `x` over all threads of the block, on every thread. Blocks are
/// of whole warps, at most 32 of them.
__device__ inline float blockSum(float x) {
  __shared__ float warps[32];
  for (int lanes = 16; lanes > 0; lanes /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, lanes);
  __syncthreads(); // A sum before this one may still be read.
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0.0f;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
    sum += warps[warp];
  return sum;
}

#endif // CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH
