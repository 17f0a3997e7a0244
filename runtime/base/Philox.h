//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3"): a pure function from a 128-bit counter and a 64-bit key to 128 random
// bits. Whoever asks for element i of a stream gets the same number, on any
// rank, in any order. The normal distribution is computed here in plain
// double arithmetic rather than by the C library, whose logarithm and sine
// differ in the last bit between versions and processors.
//
// Keys: the initial value of a parameter is
//   normal(seed, hashName(tensor name), global element).
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BASE_PHILOX_H
#define CIUIC_RUNTIME_BASE_PHILOX_H

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace ciuic::rt {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Ten rounds of Philox-4x32.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The 128 bits that belong to (seed, stream, index).
constexpr PhiloxCounter philox(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox(PhiloxCounter{uint32_t(index), uint32_t(index >> 32),
                              uint32_t(stream), uint32_t(stream >> 32)},
                PhiloxKey{uint32_t(seed), uint32_t(seed >> 32)});
}

/// 64-bit FNV-1a: a stable number for a name.
constexpr uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// Two words to a double in [0, 1), a multiple of 2^-53.
constexpr double uniform01(uint32_t low, uint32_t high) {
  uint64_t bits = (uint64_t(high) << 32) | low;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Uniform in [0, 1) for (seed, stream, element).
constexpr double uniform01(uint64_t seed, uint64_t stream, uint64_t element) {
  PhiloxCounter words = philox(seed, stream, element);
  return uniform01(words[0], words[1]);
}

namespace detail {

/// Natural logarithm of a normal double x > 0 within 3 ulp.
inline double portableLog(double x) {
#ifdef __clang__
#pragma clang fp contract(off)
#endif
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent); // [0.5, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  // log m = 2 atanh s for s = (m - 1) / (m + 1), here |s| < 0.172.
  double s = (mantissa - 1) / (mantissa + 1);
  double square = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2)
    sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

/// cos and sin of 2 pi u for u in [0, 1).
inline void portableCosSin(double u, double &cosine, double &sine) {
#ifdef __clang__
#pragma clang fp contract(off)
#endif
  // Nearest quarter turn; the rest is exact and within an eighth of a turn.
  int quarter = static_cast<int>(u * 4 + 0.5);
  double angle = (u - quarter * 0.25) * 6.28318530717958648;
  double square = angle * angle;
  double c = 0, s = 0;
  for (int k = 18; k >= 2; k -= 2) {
    c = (1 + c) * (-square / (k * (k - 1)));
    s = (1 + s) * (-square / (k * (k + 1)));
  }
  c = 1 + c;
  s = angle * (1 + s);
  switch (quarter & 3) {
  case 0:
    cosine = c, sine = s;
    break;
  case 1:
    cosine = -s, sine = c;
    break;
  case 2:
    cosine = -c, sine = -s;
    break;
  default:
    cosine = s, sine = -c;
    break;
  }
}

/// The standard normals of elements 2 * pair and 2 * pair + 1 (Box-Muller).
inline std::array<double, 2> normalPair(uint64_t seed, uint64_t stream,
                                        uint64_t pair) {
  PhiloxCounter words = philox(seed, stream, pair);
  double u = uniform01(words[0], words[1]) + 0x1p-53; // (0, 1]
  double radius = std::sqrt(-2 * portableLog(u));
  double cosine, sine;
  portableCosSin(uniform01(words[2], words[3]), cosine, sine);
  return {radius * cosine, radius * sine};
}

} // namespace detail

/// Standard normal for (seed, stream, element).
inline float normal(uint64_t seed, uint64_t stream, uint64_t element) {
  return static_cast<float>(
      detail::normalPair(seed, stream, element / 2)[element & 1]);
}

/// out[i] = mean + deviation * normal(seed, stream, begin + i) for i in
/// [0, end - begin), the scaling in double, rounded to f32 once. Any split of
/// a range into pieces gives the same numbers.
inline void fillNormal(uint64_t seed, uint64_t stream, uint64_t begin,
                       uint64_t end, double mean, double deviation,
                       float *out) {
#ifdef __clang__
#pragma clang fp contract(off)
#endif
  for (uint64_t element = begin; element < end;) {
    auto pair = detail::normalPair(seed, stream, element / 2);
    do {
      double scaled = deviation * pair[element & 1];
      *out++ = static_cast<float>(mean + scaled);
      ++element;
    } while (element < end && (element & 1));
  }
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_PHILOX_H
