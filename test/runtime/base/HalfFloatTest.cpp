//===- HalfFloatTest.cpp --------------------------------------------------===//
#include "runtime/base/HalfFloat.h"
#include "runtime/base/Convert.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace ciuic::rt;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// The value of half bits from the definition, for finite ones.
double halfValue(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// For each pair of neighbouring positive 16-bit values: what lies between
/// goes to the nearer one, the middle to the even one.
template <typename ToFloat, typename FromFloat>
void checkRounding(uint16_t lastFinite, ToFloat toFloat, FromFloat fromFloat) {
  for (uint32_t bits = 0; bits < lastFinite; ++bits) {
    auto low = static_cast<uint16_t>(bits);
    auto high = static_cast<uint16_t>(bits + 1);
    float a = toFloat(low), b = toFloat(high);
    auto middle = static_cast<float>((double(a) + double(b)) / 2);
    if (double(middle) != (double(a) + double(b)) / 2)
      continue; // Below the least subnormal float of bf16's neighbours.
    ASSERT_EQ(fromFloat(middle), low & 1 ? high : low) << bits;
    ASSERT_EQ(fromFloat(std::nextafter(middle, inf)), high) << bits;
    ASSERT_EQ(fromFloat(std::nextafter(middle, -inf)), low) << bits;
    ASSERT_EQ(fromFloat(-std::nextafter(middle, inf)), high | 0x8000) << bits;
  }
}

} // namespace

// All 65536 halves: exact values, and the way back gives the same bits.
TEST(HalfFloat, F16RoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    auto bits = static_cast<uint16_t>(i);
    float value = floatFromF16(bits);
    bool special = (bits & 0x7c00) == 0x7c00;
    if (special && (bits & 0x3ff)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_EQ(f16FromFloat(value), bits | 0x200) << "a quiet NaN";
      continue;
    }
    ASSERT_EQ(f16FromFloat(value), bits);
    if (!special)
      ASSERT_EQ(double(value), halfValue(bits));
  }
}

// All 65536 bf16 values survive the way to f32 and back.
TEST(HalfFloat, Bf16RoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    auto bits = static_cast<uint16_t>(i);
    float value = floatFromBf16(bits);
    int expected = std::isnan(value) ? bits | 0x40 : bits; // A quiet NaN.
    ASSERT_EQ(bf16FromFloat(value), expected);
  }
}

// Round to nearest even between all neighbouring halves, subnormals too.
TEST(HalfFloat, F16RoundsToNearestEven) {
  checkRounding(0x7bff, floatFromF16, f16FromFloat);
}

// Round to nearest even between all neighbouring bf16 values.
TEST(HalfFloat, Bf16RoundsToNearestEven) {
  checkRounding(0x7f7f, floatFromBf16, bf16FromFloat);
}

// Overflow rounds to infinity from the middle of the last step on; infinities
// and signed zeros stay.
TEST(HalfFloat, Extremes) {
  EXPECT_EQ(f16FromFloat(65504), 0x7bff);
  EXPECT_EQ(f16FromFloat(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f16FromFloat(65520), 0x7c00);
  EXPECT_EQ(f16FromFloat(-inf), 0xfc00);
  EXPECT_EQ(f16FromFloat(-0.0f), 0x8000);
  EXPECT_EQ(f16FromFloat(0x1p-25f), 0x0000) << "half the least: to even";
  EXPECT_EQ(bf16FromFloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bf16FromFloat(inf), 0x7f80);
  EXPECT_EQ(bf16FromFloat(-0.0f), 0x8000);
}

// A NaN whose payload is only in the low bits must not become infinity.
TEST(HalfFloat, SmallNanPayload) {
  auto nan = std::bit_cast<float>(0xff800001u);
  EXPECT_EQ(f16FromFloat(nan), 0xfe00);
  EXPECT_EQ(bf16FromFloat(nan), 0xffc0);
}

// A double just above the middle of two halves rounds up, though its nearest
// float is the middle itself, which would go to the even one below.
TEST(HalfFloat, DoubleIsRoundedOnce) {
  double in[] = {1 + 0x1p-11 + 0x1p-40,
                 1 + 0x1p-11,
                 1 + 3 * 0x1p-11 - 0x1p-40,
                 1e300,
                 std::nan(""),
                 -0x1p-25 - 0x1p-60};
  uint16_t out[6];
  ASSERT_OK(convertElements(DType::F64, in, DType::F16, out, 6));
  EXPECT_EQ(out[0], 0x3c01);
  EXPECT_EQ(out[1], 0x3c00);
  EXPECT_EQ(out[2], 0x3c01);
  EXPECT_EQ(out[3], 0x7c00);
  EXPECT_EQ(out[4] & 0x7fff, 0x7e00);
  EXPECT_EQ(out[5], 0x8001);
}

// Conversions work at odd addresses, since tensors in files may lie there.
TEST(Convert, Unaligned) {
  std::vector<unsigned char> in(1 + 3 * 4), out(1 + 3 * 2);
  float values[] = {1, -2, 0.5f};
  std::memcpy(in.data() + 1, values, sizeof(values));
  ASSERT_OK(convertElements(DType::F32, in.data() + 1, DType::BF16,
                            out.data() + 1, 3));
  uint16_t bits[3];
  std::memcpy(bits, out.data() + 1, sizeof(bits));
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0xc000);
  EXPECT_EQ(bits[2], 0x3f00);
}

// Integers are copied as they are, and never turned into floats.
TEST(Convert, IntegersAreOnlyCopied) {
  int64_t in = 7, out = 0;
  ASSERT_OK(convertElements(DType::I64, &in, DType::I64, &out, 1));
  EXPECT_EQ(out, 7);
  float value;
  EXPECT_INVALID(convertElements(DType::I64, &in, DType::F32, &value, 1),
                 "cannot convert i64 elements to f32");
}
