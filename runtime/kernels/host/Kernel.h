//===- Kernel.h - What emitted C++ kernels are written in -------*- C++ -*-===//
//
// 16-bit storage types whose conversions vectorise, the loop pragma, and the
// functions of VectorMath.h. Arithmetic is done in f32: load with toFloat,
// store with fromFloat<T>. Compile with -O3 -march=<target>
// -fno-math-errno -fno-trapping-math -ffp-contract=off, never with -ffast-math.
//
// Only standard headers: a bundle carries a copy of this file.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_KERNEL_H
#define CIUIC_RUNTIME_KERNELS_HOST_KERNEL_H

#include "runtime/kernels/host/VectorMath.h"

#include <cstddef>
#include <cstdint>

/// Before a loop whose iterations are independent (no aliasing between what it
/// writes and what other iterations read).
#if defined(__clang__)
#define CIUIC_SIMD                                                             \
  _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#elif defined(__GNUC__)
#define CIUIC_SIMD _Pragma("GCC ivdep")
#else
#define CIUIC_SIMD
#endif

#define CIUIC_RESTRICT __restrict__

// A specialisation takes its linkage from its template.
#define CIUIC_SPECIALIZED inline __attribute__((always_inline))

/// Of a lambda that is a loop's body.
#define CIUIC_INLINED __attribute__((always_inline))

namespace ciuic::kernel {

/// The sum of term(j) over [begin, end); `term` is called once for each j. In
/// lanes that are added in the end, as many as vectors want: the same bits
/// whatever else `term` does, by whichever compiler and instructions.
template <typename Term>
CIUIC_INLINE float sumOf(int64_t begin, int64_t end, Term term) {
  constexpr int64_t count = 64;
  float lanes[count] = {};
  int64_t j = begin;
  for (; j + count <= end; j += count) {
    CIUIC_SIMD
    for (int64_t lane = 0; lane < count; ++lane)
      lanes[lane] += term(j + lane);
  }
  for (int64_t lane = 0; j + lane < end; ++lane)
    lanes[lane] += term(j + lane);
  for (int64_t width = count / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane)
      lanes[lane] += lanes[lane + width];
  return lanes[0];
}

/// Storage types: no arithmetic of their own.
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

CIUIC_INLINE float toFloat(float x) { return x; }

CIUIC_INLINE float toFloat(double x) { return static_cast<float>(x); }

CIUIC_INLINE float toFloat(bf16 x) {
  return floatOf(static_cast<uint32_t>(x.bits) << 16);
}

#if defined(__F16C__) && defined(__FLT16_MAX__)
#define CIUIC_HARDWARE_F16 1
#endif

CIUIC_INLINE float toFloat(f16 x) {
#ifdef CIUIC_HARDWARE_F16
  _Float16 half;
  __builtin_memcpy(&half, &x.bits, sizeof half);
  return static_cast<float>(half);
#else
  uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fffu) << 13;
  // Moved to f32's exponent; infinities and NaN once more, NaN made quiet.
  uint32_t normal = magnitude + 0x38000000u;
  uint32_t special = magnitude + 0x70000000u;
  special |= magnitude > 0x0f800000u ? 0x00400000u : 0u;
  uint32_t small = bitsOf(static_cast<float>(x.bits & 0x03ffu) * 0x1p-24f);
  uint32_t bits = magnitude >= 0x0f800000u ? special : normal;
  return floatOf(sign | (magnitude < 0x00800000u ? small : bits));
#endif
}

/// Rounds to nearest, ties to even; NaN stays NaN, overflow becomes infinity.
template <typename T> CIUIC_INLINE T fromFloat(float x) = delete;

template <> CIUIC_SPECIALIZED float fromFloat<float>(float x) { return x; }

template <> CIUIC_SPECIALIZED double fromFloat<double>(float x) { return x; }

template <> CIUIC_SPECIALIZED bf16 fromFloat<bf16>(float x) {
  uint32_t bits = bitsOf(x);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t nan = (bits >> 16) | 0x0040u;
  bool isNan = (bits & 0x7fffffffu) > 0x7f800000u;
  return bf16{static_cast<uint16_t>(isNan ? nan : rounded)};
}

template <> CIUIC_SPECIALIZED f16 fromFloat<f16>(float x) {
#ifdef CIUIC_HARDWARE_F16
  _Float16 half = static_cast<_Float16>(x);
  f16 result;
  __builtin_memcpy(&result.bits, &half, sizeof half);
  return result;
#else
  uint32_t bits = bitsOf(x);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 lets the addition round at 2^-24, a half's last place there.
  uint32_t small = bitsOf(floatOf(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  uint32_t half = magnitude < 0x38800000u ? small : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? nan : half;
  return f16{static_cast<uint16_t>(sign | half)};
#endif
}

} // namespace ciuic::kernel

#endif // CIUIC_RUNTIME_KERNELS_HOST_KERNEL_H
