//===- Kernel.cuh - What CUDA kernels are written in ------------*- C++ -*-===//
//
// 16-bit types with explicit conversions, vectors that are loaded and stored
// in one instruction, and sums over a warp or a block in a fixed order. All
// arithmetic is done in f32: load, toFloat, fromFloat, store.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH

#include "runtime/kernels/cuda/Wrappers.cuh"

#include <cmath>

namespace ciuic::cuda {

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

__device__ inline float toFloat(float x) { return x; }
__device__ inline float toFloat(double x) { return static_cast<float>(x); }
__device__ inline float toFloat(f16 x) { return __half2float(x); }
__device__ inline float toFloat(bf16 x) { return __bfloat162float(x); }

/// Rounds to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
template <typename T> __device__ T fromFloat(float x);
template <> __device__ inline float fromFloat<float>(float x) { return x; }
template <> __device__ inline double fromFloat<double>(float x) { return x; }
template <> __device__ inline f16 fromFloat<f16>(float x) {
  return __float2half_rn(x);
}
template <> __device__ inline bf16 fromFloat<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

template <typename To, typename From> __device__ inline To bitCast(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To result;
  __builtin_memcpy(&result, &x, sizeof result);
  return result;
}

/// Two values rounded to 16 bits, the first in the low half.
template <typename T>
__device__ inline uint32_t packPair(float low, float high);
template <> __device__ inline uint32_t packPair<f16>(float low, float high) {
  return bitCast<uint32_t>(__floats2half2_rn(low, high));
}
template <> __device__ inline uint32_t packPair<bf16>(float low, float high) {
  return bitCast<uint32_t>(__floats2bfloat162_rn(low, high));
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

namespace detail {
/// What one load or store moves, by its bytes.
template <int kBytes> struct Word;
#ifdef CIUIC_CUDA_ON_HOST
template <> struct Word<16> {
  typedef uint32_t Type __attribute__((vector_size(16), may_alias));
};
template <> struct Word<8> {
  typedef uint64_t Type __attribute__((may_alias));
};
template <> struct Word<4> {
  typedef uint32_t Type __attribute__((may_alias));
};
template <> struct Word<2> {
  typedef uint16_t Type __attribute__((may_alias));
};
#else
template <> struct Word<16> {
  using Type = uint4;
};
template <> struct Word<8> {
  using Type = uint2;
};
template <> struct Word<4> {
  using Type = uint32_t;
};
template <> struct Word<2> {
  using Type = uint16_t;
};
#endif
} // namespace detail

/// N elements, a power of two, moved 16 bytes at a time (or all at once if they
/// are fewer), from and to addresses that are multiples of that.
template <typename T, int N = 16 / static_cast<int>(sizeof(T))> struct Vector {
  static constexpr int kSize = N;
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static constexpr int kWordBytes = kBytes < 16 ? kBytes : 16;
  static constexpr int kWords = kBytes / kWordBytes;
  static_assert(kWords * kWordBytes == kBytes, "whole words");
  using Word = typename detail::Word<kWordBytes>::Type;
  alignas(kWordBytes) T values[N];

  __device__ T &operator[](int i) { return values[i]; }
  __device__ const T &operator[](int i) const { return values[i]; }
};

template <int N, typename T>
__device__ inline Vector<T, N> loadVector(const T *from) {
  using V = Vector<T, N>;
  typename V::Word words[V::kWords];
#pragma unroll
  for (int i = 0; i < V::kWords; ++i)
    words[i] = reinterpret_cast<const typename V::Word *>(from)[i];
  V result;
  __builtin_memcpy(result.values, words, V::kBytes);
  return result;
}

namespace detail {
template <typename Word>
__device__ inline void storeWord(Word *to, const Word &word) {
  *to = word;
}

#ifndef CIUIC_CUDA_ON_HOST
// By name: the compiler takes an assignment apart where the parts of a word
// were computed one by one, and does not always put them together again.
__device__ inline void storeWord(uint4 *to, const uint4 &word) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(word.x), "r"(word.y), "r"(word.z), "r"(word.w)
               : "memory");
}
__device__ inline void storeWord(uint2 *to, const uint2 &word) {
  asm volatile(
      "st.global.v2.b32 [%0], {%1, %2};\n" ::"l"(__cvta_generic_to_global(to)),
      "r"(word.x), "r"(word.y)
      : "memory");
}
#endif
} // namespace detail

/// To global memory.
template <typename T, int N>
__device__ inline void storeVector(T *to, const Vector<T, N> &vector) {
  using V = Vector<T, N>;
  typename V::Word words[V::kWords];
  __builtin_memcpy(words, vector.values, V::kBytes);
#pragma unroll
  for (int i = 0; i < V::kWords; ++i)
    detail::storeWord(reinterpret_cast<typename V::Word *>(to) + i, words[i]);
}

/// Makes the compiler forget what it has computed from a vector of 16-bit
/// values that a thread keeps: it will convert them again, and not keep their
/// conversions, which take twice the registers.
template <typename T, int N>
__device__ inline void forgetConversions([[maybe_unused]] Vector<T, N> &kept) {
#ifndef CIUIC_CUDA_ON_HOST
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    uint32_t pairs[N / 2];
    __builtin_memcpy(pairs, kept.values, sizeof pairs);
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      asm volatile("" : "+r"(pairs[i]));
    __builtin_memcpy(kept.values, pairs, sizeof pairs);
  }
#endif
}

/// N values rounded to T: pairs in one instruction where T has 16 bits.
template <typename T, int N>
__device__ inline Vector<T, N> rounded(const float (&values)[N]) {
  Vector<T, N> result;
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    uint32_t pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i)
      pairs[i] = packPair<T>(values[2 * i], values[2 * i + 1]);
    __builtin_memcpy(result.values, pairs, sizeof pairs);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      result.values[i] = fromFloat<T>(values[i]);
  }
  return result;
}

/// Whether a vector of N elements of T may start at `address`.
template <typename T, int N> inline bool isAligned(const void *address) {
  return reinterpret_cast<uintptr_t>(address) % Vector<T, N>::kWordBytes == 0;
}

//===----------------------------------------------------------------------===//
// Sums and maxima. The order depends on the number of threads alone.
//===----------------------------------------------------------------------===//

namespace detail {
struct Sum {
  template <typename T> __device__ static T join(T a, T b) { return a + b; }
  template <typename T> __device__ static T start(T) { return T(0); }
};

/// NaN counts as less than all others.
struct Max {
  __device__ static float join(float a, float b) { return fmaxf(a, b); }
  __device__ static double join(double a, double b) { return fmax(a, b); }
  __device__ static int join(int a, int b) { return a < b ? b : a; }
  __device__ static float start(float) { return -HUGE_VALF; }
  __device__ static double start(double) { return -HUGE_VAL; }
  __device__ static int start(int) { return -2147483647 - 1; }
};

template <typename How, typename T> __device__ inline T overWarp(T x) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    x = How::join(x, shuffleXor(x, lanes));
  return x;
}

template <typename How, typename T> __device__ inline T overBlock(T x) {
  __shared__ T warps[kWarp];
  x = overWarp<How>(x);
  __syncthreads(); // A result before this one may still be read.
  if (threadIdx.x % kWarp == 0)
    warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  unsigned lane = threadIdx.x % kWarp;
  return overWarp<How>(lane < blockDim.x / kWarp ? warps[lane] : How::start(x));
}
} // namespace detail

/// Over the 32 lanes of a warp, on every lane: f32, f64 or int.
template <typename T> __device__ inline T warpSum(T x) {
  return detail::overWarp<detail::Sum>(x);
}
template <typename T> __device__ inline T warpMax(T x) {
  return detail::overWarp<detail::Max>(x);
}

/// Over the threads of a one-dimensional block, on every thread. Blocks are of
/// whole warps, at most 32 of them; all threads take part.
template <typename T> __device__ inline T blockSum(T x) {
  return detail::overBlock<detail::Sum>(x);
}
template <typename T> __device__ inline T blockMax(T x) {
  return detail::overBlock<detail::Max>(x);
}

/// Whether a task does nothing: `skip` is there and not 0.
__device__ inline bool isSkipped(const float *skip) {
  return skip != nullptr && *skip != 0.0f;
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_KERNEL_CUH
