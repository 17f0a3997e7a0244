//===- cuda_fp16.h - Half precision on the host -----------------*- C++ -*-===//
//
// The used part of CUDA's header of this name. Conversions round to nearest,
// ties to even, as the device's do; a NaN becomes 0x7fff.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_FP16_H
#define CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_FP16_H

#include "onhost_device.h"

namespace ciuic::onhost::detail {

/// The bits of the f16 nearest to a float.
inline uint16_t f16OfFloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000)
    return 0x7fff;
  int exponent = static_cast<int>(size >> 23) - 127;
  if (exponent > 15)
    return sign | 0x7c00;
  // Bits to drop from a 24-bit significand: 13, more below 2^-14.
  int drop = exponent >= -14 ? 13 : 13 + (-14 - exponent);
  if (drop > 24)
    return sign;
  uint32_t significand = (size & 0x7fffff) | (exponent > -127 ? 0x800000 : 0);
  uint32_t kept = significand >> drop;
  uint32_t rest = significand & ((1u << drop) - 1), tie = 1u << (drop - 1);
  if (rest > tie || (rest == tie && (kept & 1)))
    ++kept;
  // The leading bit of a normal number adds one to the exponent field; a
  // carry of the rounding adds another, up to infinity.
  uint32_t field = exponent >= -14 ? static_cast<uint32_t>(exponent + 14) : 0;
  return static_cast<uint16_t>(sign | ((field << 10) + kept));
}

inline float floatOfF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float size = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
}

} // namespace ciuic::onhost::detail

struct alignas(2) __half_raw {
  uint16_t x;
};

struct alignas(2) __half {
  __half() = default;
  __half(const __half_raw &raw) : bits(raw.x) {}
  __half(float value) : bits(ciuic::onhost::detail::f16OfFloat(value)) {}
  operator float() const { return ciuic::onhost::detail::floatOfF16(bits); }
  operator __half_raw() const { return {bits}; }

  uint16_t bits;
};

struct alignas(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) { return static_cast<float>(value); }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half2 __floats2half2_rn(float low, float high) {
  return {__half(low), __half(high)};
}
inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }
inline float2 __half22float2(__half2 pair) {
  return {static_cast<float>(pair.x), static_cast<float>(pair.y)};
}
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  return __half(__half_raw{bits});
}

using half = __half;
using half2 = __half2;

#endif // CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_FP16_H
