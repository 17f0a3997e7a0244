//===- HalfFloat.h - Exact 16-bit float conversions -------------*- C++ -*-===//
//
// Conversions on bit patterns, so that every compiler and instruction set
// gives the same bits: round to nearest, ties to even; infinities stay,
// overflow becomes infinity, subnormals are kept, a NaN stays a (quiet) NaN
// with its sign and the upper bits of its payload.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BASE_HALFFLOAT_H
#define CIUIC_RUNTIME_BASE_HALFFLOAT_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace ciuic::rt {

/// f32 to the bits of a bf16.
inline uint16_t bf16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) // NaN: cut and quiet, never round.
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  // Adds just under one half, and exactly one half where the kept part is
  // odd. A carry runs into the exponent, which is what rounding up means.
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

/// The bits of a bf16 to f32, exactly.
inline float floatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// f32 to the bits of an IEEE half.
inline uint16_t f16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) // NaN
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) // 65520 and above round to infinity.
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // Below 2^-14: a subnormal half, or zero.
    // Adding 0.5 aligns the last kept bit (2^-24) with the last bit of an
    // f32 in [0.5, 1), so that the addition itself rounds to nearest even.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  // Rebase the exponent from 127 to 15 and round away 13 bits.
  magnitude += 0xc8000fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (magnitude >> 13));
}

/// The bits of an IEEE half to f32, exactly.
inline float floatFromF16(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) // Infinity or NaN.
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) |
                                (mantissa ? 0x00400000u : 0u));
  if (exponent == 0) { // Zero or a subnormal: mantissa * 2^-24 is exact.
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                              (mantissa << 13));
}

/// f64 to f32 with the last bit forced to one where the value is inexact
/// ("round to odd"), so that a second rounding to 16 bits is correct: going
/// through an ordinarily rounded f32 would round twice.
inline float floatRoundedToOdd(double value) {
  float rounded = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(rounded) == value)
    return rounded;
  uint32_t bits = std::bit_cast<uint32_t>(rounded);
  // Step back to the neighbour nearer to zero if rounding went away from it.
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value))
    --bits;
  return std::bit_cast<float>(bits | 1u);
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_HALFFLOAT_H
