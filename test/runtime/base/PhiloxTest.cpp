//===- PhiloxTest.cpp -----------------------------------------------------===//
#include "runtime/base/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace ciuic::rt;

// The three known answers that Random123 publishes for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(PhiloxCounter{0, 0, 0, 0}, PhiloxKey{0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(
      philox(PhiloxCounter{ones, ones, ones, ones}, PhiloxKey{ones, ones}),
      (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox(PhiloxCounter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
             PhiloxKey{0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Each of seed, stream and index reaches the output, in all their bits.
TEST(Philox, EveryInputBitMatters) {
  PhiloxCounter base = philox(uint64_t(0), uint64_t(0), uint64_t(0));
  for (int bit = 0; bit < 64; ++bit) {
    uint64_t one = uint64_t(1) << bit;
    EXPECT_NE(philox(one, uint64_t(0), uint64_t(0)), base);
    EXPECT_NE(philox(uint64_t(0), one, uint64_t(0)), base);
    EXPECT_NE(philox(uint64_t(0), uint64_t(0), one), base);
  }
}

// The published FNV-1a values of "", "a" and "foobar".
TEST(Philox, HashIsFnv1a) {
  EXPECT_EQ(hashName(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hashName("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hashName("foobar"), 0x85944171f73967e8u);
}

// The ends of the range: zero is reached, one is not.
TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform01(0u, 0u), 0.0);
  EXPECT_EQ(uniform01(0xffffffffu, 0xffffffffu), 1.0 - 0x1p-53);
}

// The own logarithm, sine and cosine agree with the C library's.
TEST(Philox, PortableFunctionsAreAccurate) {
  for (uint64_t i = 0; i < 100000; ++i) {
    double u = uniform01(1, 2, i) + 0x1p-53;
    double expected = std::log(u);
    EXPECT_NEAR(detail::portableLog(u), expected,
                6.7e-16 * std::fabs(expected) + 1e-18);
    double cosine, sine;
    detail::portableCosSin(u < 1 ? u : 0, cosine, sine);
    double angle = 2 * M_PI * (u < 1 ? u : 0);
    EXPECT_NEAR(cosine, std::cos(angle), 2e-15);
    EXPECT_NEAR(sine, std::sin(angle), 2e-15);
  }
  EXPECT_EQ(detail::portableLog(1.0), 0.0);
  EXPECT_NEAR(detail::portableLog(0x1p-53), -53 * std::log(2.0), 1e-14);
}

// Values computed by an independent script in Python from the definition.
TEST(Philox, NormalMatchesReference) {
  uint64_t stream = hashName("model.embed_tokens.weight");
  EXPECT_EQ(normal(42, stream, 0), -1.18710387f);
  EXPECT_EQ(normal(42, stream, 1), -0.420430005f);
  EXPECT_EQ(normal(42, stream, 5000000001), -1.55715156f);
}

// The first four moments of a million draws are those of the standard normal,
// each within five standard errors.
TEST(Philox, NormalMoments) {
  constexpr int n = 1000000;
  std::vector<float> draws(n);
  fillNormal(7, 3, 0, n, 0, 1, draws.data());
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (double x : draws) {
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
  }
  double error = 5 / std::sqrt(double(n));
  EXPECT_NEAR(m1 / n, 0, error);
  EXPECT_NEAR(m2 / n, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(m3 / n, 0, error * std::sqrt(15.0));
  EXPECT_NEAR(m4 / n, 3, error * std::sqrt(96.0));
}

// Any split of a range gives the bits of the whole, odd borders included.
TEST(Philox, FillDoesNotDependOnTheSplit) {
  std::vector<float> whole(101);
  fillNormal(7, 3, 10, 111, 0.5, 0.02, whole.data());
  for (uint64_t cut : {0, 1, 2, 13, 50, 100, 101}) {
    std::vector<float> parts(101);
    fillNormal(7, 3, 10, 10 + cut, 0.5, 0.02, parts.data());
    fillNormal(7, 3, 10 + cut, 111, 0.5, 0.02, parts.data() + cut);
    EXPECT_EQ(parts, whole) << "cut at " << cut;
  }
  std::vector<float> unit(1);
  fillNormal(7, 3, 11, 12, 0, 1, unit.data());
  EXPECT_EQ(unit[0], normal(7, 3, 11));
}
