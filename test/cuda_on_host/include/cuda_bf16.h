//===- cuda_bf16.h - bfloat16 on the host -----------------------*- C++ -*-===//
//
// The used part of CUDA's header of this name. Conversions round to nearest,
// ties to even, as the device's do; a NaN becomes 0x7fff.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_BF16_H
#define CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_BF16_H

#include "onhost_device.h"

namespace ciuic::onhost::detail {

/// The bits of the bf16 nearest to a float.
inline uint16_t bf16OfFloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  uint32_t kept = bits >> 16, rest = bits & 0xffff;
  if (rest > 0x8000 || (rest == 0x8000 && (kept & 1)))
    ++kept;
  return static_cast<uint16_t>(kept);
}

inline float floatOfBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

} // namespace ciuic::onhost::detail

struct alignas(2) __nv_bfloat16_raw {
  uint16_t x;
};

struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(const __nv_bfloat16_raw &raw) : bits(raw.x) {}
  __nv_bfloat16(float value)
      : bits(ciuic::onhost::detail::bf16OfFloat(value)) {}
  operator float() const { return ciuic::onhost::detail::floatOfBf16(bits); }
  operator __nv_bfloat16_raw() const { return {bits}; }

  uint16_t bits;
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  return __nv_bfloat16(value);
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__nv_bfloat16(low), __nv_bfloat16(high)};
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low,
                                         __nv_bfloat16 high) {
  return {low, high};
}
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {static_cast<float>(pair.x), static_cast<float>(pair.y)};
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return __nv_bfloat16(__nv_bfloat16_raw{bits});
}

#endif // CIUIC_CUDA_ON_HOST_INCLUDE_CUDA_BF16_H
