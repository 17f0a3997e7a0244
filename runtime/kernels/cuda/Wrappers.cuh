//===- Wrappers.cuh - Instructions that C++ has no name for -----*- C++ -*-===//
//
// Shuffles of a whole warp, matrix products of a warp (m16n8k16), copies to
// shared memory that run beside the computation, and fast functions. Each has
// a body for the device and, with CIUIC_CUDA_ON_HOST, one of the tests'
// emulation. Device code uses nothing else of that kind.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_WRAPPERS_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_WRAPPERS_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace ciuic::cuda {

using f16 = __half;
using bf16 = __nv_bfloat16;

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

//===----------------------------------------------------------------------===//
// Values of other lanes. All lanes of the warp take part.
//===----------------------------------------------------------------------===//

template <typename T> __device__ inline T shuffle(T x, int lane) {
  return __shfl_sync(kWholeWarp, x, lane);
}

template <typename T> __device__ inline T shuffleXor(T x, int mask) {
  return __shfl_xor_sync(kWholeWarp, x, mask);
}

template <typename T> __device__ inline T shuffleUp(T x, unsigned by) {
  return __shfl_up_sync(kWholeWarp, x, by);
}

template <typename T> __device__ inline T shuffleDown(T x, unsigned by) {
  return __shfl_down_sync(kWholeWarp, x, by);
}

/// Whether `x` holds on any lane.
__device__ inline bool anyLane(bool x) {
#ifdef CIUIC_CUDA_ON_HOST
  int any = x;
  for (int lanes = 16; lanes > 0; lanes /= 2)
    any |= shuffleXor(any, lanes);
  return any != 0;
#else
  return __any_sync(kWholeWarp, x);
#endif
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// The bytes of shared memory that the launch asked for, 16-byte aligned.
template <typename T> __device__ inline T *dynamicShared() {
#ifdef CIUIC_CUDA_ON_HOST
  return static_cast<T *>(onhost::dynamicShared());
#else
  extern __shared__ __align__(16) unsigned char ciuicDynamicShared[];
  return reinterpret_cast<T *>(ciuicDynamicShared);
#endif
}

#ifndef CIUIC_CUDA_ON_HOST
__device__ inline uint32_t sharedAddress(const void *shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
#endif

/// Copies 16 bytes from global to shared memory, both 16-byte aligned, by the
/// next cpAsyncWait. Where not `valid`, reads nothing and writes zeros.
__device__ inline void cpAsync16(void *shared, const void *global, bool valid) {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::cpAsync16(shared, global, valid);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                   sharedAddress(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0)
               : "memory");
#endif
}

/// Closes a group of this thread's copies.
__device__ inline void cpAsyncCommit() {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::cpAsyncCommit();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/// Waits until at most the last `N` groups of this thread are under way. Other
/// threads see the copies after a `__syncthreads`.
template <int N> __device__ inline void cpAsyncWait() {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::cpAsyncWait(N);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
#endif
}

//===----------------------------------------------------------------------===//
// Matrix products of a warp
//===----------------------------------------------------------------------===//

/// Loads four 8x8 matrices of 16-bit elements. Lane 8i + r gives the address of
/// row r of matrix i, 16 bytes in shared memory; register i of a lane receives
/// elements 2 * (lane % 4) and the next of row lane / 4 of matrix i.
__device__ inline void ldmatrix4(uint32_t (&r)[4], const void *row) {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::ldmatrix4(r, row, /*transposed=*/false);
#else
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(sharedAddress(row))
      : "memory");
#endif
}

/// The same of each matrix transposed.
__device__ inline void ldmatrix4Trans(uint32_t (&r)[4], const void *row) {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::ldmatrix4(r, row, /*transposed=*/true);
#else
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(sharedAddress(row))
      : "memory");
#endif
}

/// d += a b in f32, with a of 16x16, b of 16x8 and d of 16x8 elements in the
/// registers where mma.m16n8k16 has them. T is f16 or bf16.
template <typename T>
__device__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1);

template <>
__device__ inline void mma16816<f16>(float (&d)[4], const uint32_t (&a)[4],
                                     uint32_t b0, uint32_t b1) {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::mma16816(d, a, b0, b1, /*bf16=*/false);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

template <>
__device__ inline void mma16816<bf16>(float (&d)[4], const uint32_t (&a)[4],
                                      uint32_t b0, uint32_t b1) {
#ifdef CIUIC_CUDA_ON_HOST
  onhost::mma16816(d, a, b0, b1, /*bf16=*/true);
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

//===----------------------------------------------------------------------===//
// Fast functions
//===----------------------------------------------------------------------===//

/// 2^x within 2 ulp; subnormal results are 0.
__device__ inline float exp2Fast(float x) {
#ifdef CIUIC_CUDA_ON_HOST
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// 1 / x within 1 ulp; subnormal results are 0, of subnormal x infinite.
__device__ inline float reciprocal(float x) {
#ifdef CIUIC_CUDA_ON_HOST
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

/// 1 / sqrt(x) within 2 ulp.
__device__ inline float reciprocalSqrt(float x) {
#ifdef CIUIC_CUDA_ON_HOST
  return 1.0f / sqrtf(x);
#else
  return rsqrtf(x);
#endif
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_WRAPPERS_CUH
