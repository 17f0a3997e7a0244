//===- VectorMath.h - Branch-free f32 functions -----------------*- C++ -*-===//
//
// Elementary functions as straight-line arithmetic and selects, so that a
// compiler vectorises the loops that call them. Each is within 2 ulp of the
// true value over all of f32, subnormal results of exp excepted, and treats
// infinities and NaN as the C library does. Not for -ffast-math: the argument
// reductions round on purpose, and NaN must survive.
//
// Only standard headers: a bundle carries a copy of this file.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_VECTORMATH_H
#define CIUIC_RUNTIME_KERNELS_HOST_VECTORMATH_H

#include <cstdint>

// Internal linkage and inlined always: sources built for different instruction
// sets may include this file into one program.
#define CIUIC_INLINE static inline __attribute__((always_inline))

namespace ciuic::kernel {

CIUIC_INLINE uint32_t bitsOf(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

CIUIC_INLINE float floatOf(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

CIUIC_INLINE float absolute(float x) {
  return floatOf(bitsOf(x) & 0x7fffffffu);
}

/// `magnitude`, not negative, with the sign of `sign`.
CIUIC_INLINE float withSign(float magnitude, float sign) {
  return floatOf(bitsOf(magnitude) | (bitsOf(sign) & 0x80000000u));
}

CIUIC_INLINE float fusedMultiplyAdd(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

/// e^x: 2^n times a polynomial of the rest, |rest| <= ln(2) / 2.
CIUIC_INLINE float expf(float x) {
  // Outside these bounds the result is 0 or infinite anyway; a NaN fails both
  // comparisons and stays.
  float bounded = x < -104.0f ? -104.0f : x;
  bounded = bounded > 89.0f ? 89.0f : bounded;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const float shift = 12582912.0f;
  float shifted = fusedMultiplyAdd(bounded, 1.44269504f, shift);
  float n = shifted - shift;
  float rest = fusedMultiplyAdd(n, -0x1.62e400p-1f, bounded);
  rest = fusedMultiplyAdd(n, -0x1.7f7d1cp-20f, rest);
  float p = 0x1.6a234ep-10f;
  p = fusedMultiplyAdd(p, rest, 0x1.123a6cp-7f);
  p = fusedMultiplyAdd(p, rest, 0x1.5558f4p-5f);
  p = fusedMultiplyAdd(p, rest, 0x1.555490p-3f);
  p = fusedMultiplyAdd(p, rest, 0x1.fffffcp-2f);
  p = fusedMultiplyAdd(p, rest * rest, rest);
  p += 1.0f;
  // 2^n in two factors, each a normal number for n in [-150, 129].
  int32_t exponent = static_cast<int32_t>(bitsOf(shifted)) - 0x4b400000;
  int32_t half = exponent >> 1;
  float first = floatOf(static_cast<uint32_t>(half + 127) << 23);
  float second = floatOf(static_cast<uint32_t>(exponent - half + 127) << 23);
  return p * first * second;
}

/// The natural logarithm: NaN below zero, -inf at zero.
CIUIC_INLINE float logf(float x) {
  bool tiny = x < 0x1p-126f;
  float scaled = tiny ? x * 0x1p23f : x;
  // Splits off the exponent so that the mantissa is in [sqrt(1/2), sqrt(2)).
  uint32_t bits = bitsOf(scaled) - 0x3f3504f3u;
  int32_t exponent = static_cast<int32_t>(bits) >> 23;
  float f = floatOf((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float n = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  float p = 0x1.1b403ep-4f;
  p = fusedMultiplyAdd(p, f, -0x1.e2e8a6p-4f);
  p = fusedMultiplyAdd(p, f, 0x1.e6513cp-4f);
  p = fusedMultiplyAdd(p, f, -0x1.fb4364p-4f);
  p = fusedMultiplyAdd(p, f, 0x1.2332b8p-3f);
  p = fusedMultiplyAdd(p, f, -0x1.5562e2p-3f);
  p = fusedMultiplyAdd(p, f, 0x1.99a546p-3f);
  p = fusedMultiplyAdd(p, f, -0x1.ffffeep-3f);
  p = fusedMultiplyAdd(p, f, 0x1.555546p-2f);
  float square = f * f;
  float tail = fusedMultiplyAdd(p * f, square, n * 0x1.7f7d1cp-20f);
  float y = fusedMultiplyAdd(square, -0.5f, tail) + f;
  y = fusedMultiplyAdd(n, 0x1.62e400p-1f, y);
  const float infinity = floatOf(0x7f800000u);
  const float nan = floatOf(0x7fc00000u);
  y = x == infinity ? x : y;
  y = x == 0.0f ? -infinity : y;
  y = x < 0.0f ? nan : y;
  return x != x ? x : y;
}

/// tanh x: an odd polynomial near zero, 1 - 2 / (e^(2|x|) + 1) elsewhere.
CIUIC_INLINE float tanhf(float x) {
  float t = absolute(x);
  float far = 1.0f - 2.0f / (expf(t + t) + 1.0f);
  float z = x * x;
  float p = 0x1.0ea552p-9f;
  p = fusedMultiplyAdd(p, z, -0x1.092a8ap-7f);
  p = fusedMultiplyAdd(p, z, 0x1.62fbcap-6f);
  p = fusedMultiplyAdd(p, z, -0x1.b9e1a0p-5f);
  p = fusedMultiplyAdd(p, z, 0x1.111026p-3f);
  p = fusedMultiplyAdd(p, z, -0x1.555552p-2f);
  float near = fusedMultiplyAdd(p * z, t, t);
  float y = withSign(t < 0.65f ? near : far, x);
  return x != x ? x : y;
}

/// The error function: x times a polynomial in x^2 near zero, and
/// 1 - e^-r(|x|) with a polynomial r elsewhere.
CIUIC_INLINE float erff(float x) {
  float t = absolute(x);
  float z = x * x;
  float q = 0x1.5e0624p-14f;
  q = fusedMultiplyAdd(q, z, -0x1.aaa2d4p-11f);
  q = fusedMultiplyAdd(q, z, 0x1.54d42ap-8f);
  q = fusedMultiplyAdd(q, z, -0x1.b80ff2p-6f);
  q = fusedMultiplyAdd(q, z, 0x1.ce2e1cp-4f);
  q = fusedMultiplyAdd(q, z, -0x1.812744p-2f);
  q = fusedMultiplyAdd(q, z, 0x1.06eba8p-3f);
  float near = fusedMultiplyAdd(q, x, x);
  // From 4 on the result is 1 in f32.
  float u = t > 4.0f ? 4.0f : t;
  float r = 0x1.63a778p-21f;
  r = fusedMultiplyAdd(r, u, 0x1.9de118p-17f);
  r = fusedMultiplyAdd(r, u, -0x1.9380dap-12f);
  r = fusedMultiplyAdd(r, u, 0x1.0706eep-8f);
  r = fusedMultiplyAdd(r, u, -0x1.968906p-6f);
  r = fusedMultiplyAdd(r, u, 0x1.b9fb84p-4f);
  r = fusedMultiplyAdd(r, u, 0x1.446ac8p-1f);
  r = fusedMultiplyAdd(r, u, 0x1.21202cp+0f);
  r = fusedMultiplyAdd(r, u, -0x1.41af5ep-13f);
  float far = withSign(1.0f - expf(-r), x);
  float y = t < 0.92f ? near : far;
  return x != x ? x : y;
}

/// 1 / (1 + e^-x).
CIUIC_INLINE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// 1 / sqrt(x), both operations correctly rounded.
CIUIC_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }

} // namespace ciuic::kernel

#endif // CIUIC_RUNTIME_KERNELS_HOST_VECTORMATH_H
