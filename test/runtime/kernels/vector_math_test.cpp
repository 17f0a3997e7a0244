//===- vector_math_test.cpp - Functions and conversions of kernels --------===//
#include "runtime/base/HalfFloat.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Kernel.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace ciuic::kernel {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The distance between a result and the truth in units of the last place.
double ulps(float found, double truth) {
  float rounded = static_cast<float>(truth);
  if (found == rounded || (std::isnan(found) && std::isnan(rounded)))
    return 0;
  double step = std::nextafter(std::fabs(rounded), infinity) -
                static_cast<double>(std::fabs(rounded));
  return std::fabs(found - truth) / step;
}

/// The worst error over [low, high], a hundred thousand points.
template <typename Fn, typename Truth>
double worst(float low, float high, Fn fn, Truth truth) {
  double most = 0;
  for (int i = 0; i <= 100000; ++i) {
    auto x = static_cast<float>(low +
                                (static_cast<double>(high) - low) * i / 100000);
    most = std::max(most, ulps(fn(x), truth(static_cast<double>(x))));
  }
  return most;
}

// exp is accurate where its result is normal.
TEST(VectorMathTest, ExpIsAccurate) {
  auto fn = [](float x) { return ciuic::kernel::expf(x); };
  auto truth = [](double x) { return std::exp(x); };
  EXPECT_LE(worst(-87.0f, 88.7f, fn, truth), 2);
  EXPECT_LE(worst(-1.0f, 1.0f, fn, truth), 1.5);
  EXPECT_LE(worst(-1e-3f, 1e-3f, fn, truth), 1.5);
  EXPECT_EQ(fn(0.0f), 1.0f);
}

// exp overflows to inf, underflows to zero through subnormals, keeps NaN.
TEST(VectorMathTest, ExpSpecials) {
  auto fn = [](float x) { return ciuic::kernel::expf(x); };
  EXPECT_EQ(fn(89.0f), infinity);
  EXPECT_EQ(fn(1e30f), infinity);
  EXPECT_EQ(fn(infinity), infinity);
  EXPECT_EQ(fn(-infinity), 0.0f);
  EXPECT_EQ(fn(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(fn(nan)));
  EXPECT_NEAR(fn(-100.0f), std::exp(-100.0), 2e-45);
  EXPECT_GT(fn(-100.0f), 0.0f);
}

// log is accurate near 1, for large and for subnormal arguments.
TEST(VectorMathTest, LogIsAccurate) {
  auto fn = [](float x) { return ciuic::kernel::logf(x); };
  auto truth = [](double x) { return std::log(x); };
  EXPECT_LE(worst(0.5f, 2.0f, fn, truth), 2);
  EXPECT_LE(worst(1e-30f, 1e30f, fn, truth), 2);
  EXPECT_LE(worst(1e-44f, 1e-38f, fn, truth), 2);
  EXPECT_LE(worst(0.999f, 1.001f, fn, truth), 2);
}

// log of what has none.
TEST(VectorMathTest, LogSpecials) {
  auto fn = [](float x) { return ciuic::kernel::logf(x); };
  EXPECT_EQ(fn(0.0f), -infinity);
  EXPECT_EQ(fn(-0.0f), -infinity);
  EXPECT_EQ(fn(infinity), infinity);
  EXPECT_TRUE(std::isnan(fn(-1.0f)));
  EXPECT_TRUE(std::isnan(fn(-infinity)));
  EXPECT_TRUE(std::isnan(fn(nan)));
  EXPECT_EQ(fn(1.0f), 0.0f);
}

// tanh joins its two forms without a step and saturates.
TEST(VectorMathTest, Tanh) {
  auto fn = [](float x) { return ciuic::kernel::tanhf(x); };
  EXPECT_LE(worst(-10.0f, 10.0f, fn, [](double x) { return std::tanh(x); }), 2);
  EXPECT_LE(worst(-1e-2f, 1e-2f, fn, [](double x) { return std::tanh(x); }), 2);
  EXPECT_EQ(fn(infinity), 1.0f);
  EXPECT_EQ(fn(-infinity), -1.0f);
  EXPECT_TRUE(std::isnan(fn(nan)));
  EXPECT_TRUE(std::signbit(fn(-0.0f)));
}

// erf joins its two forms without a step and saturates.
TEST(VectorMathTest, Erf) {
  auto fn = [](float x) { return ciuic::kernel::erff(x); };
  EXPECT_LE(worst(-5.0f, 5.0f, fn, [](double x) { return std::erf(x); }), 2);
  EXPECT_LE(worst(-1e-2f, 1e-2f, fn, [](double x) { return std::erf(x); }), 2);
  EXPECT_EQ(fn(infinity), 1.0f);
  EXPECT_EQ(fn(-infinity), -1.0f);
  EXPECT_TRUE(std::isnan(fn(nan)));
}

// sigmoid runs from 0 to 1 and is finite in its tails.
TEST(VectorMathTest, Sigmoid) {
  auto fn = [](float x) { return ciuic::kernel::sigmoid(x); };
  auto truth = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst(-80.0f, 80.0f, fn, truth), 3);
  EXPECT_EQ(fn(infinity), 1.0f);
  EXPECT_EQ(fn(-infinity), 0.0f);
  EXPECT_EQ(fn(0.0f), 0.5f);
  EXPECT_TRUE(std::isnan(fn(nan)));
}

/// Bit patterns around every exponent and rounding boundary.
std::vector<float> floats() {
  std::vector<float> all;
  for (uint32_t high = 0; high < 0x10000; high += 7)
    for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u,
                         0x8001u, 0xffffu})
      all.push_back(std::bit_cast<float>(high << 16 | low));
  for (float x : {65504.0f, 65519.99f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                  0x1p-14f, 3.4e38f})
    all.push_back(x);
  return all;
}

// Conversions give the bits of runtime/base/HalfFloat.h: the portable form
// here, the vectorised one of each instruction set below.
TEST(KernelConversionTest, PortableForm) {
  for (float x : floats()) {
    EXPECT_EQ(fromFloat<bf16>(x).bits, rt::bf16FromFloat(x)) << bitsOf(x);
    EXPECT_EQ(fromFloat<f16>(x).bits, rt::f16FromFloat(x)) << bitsOf(x);
  }
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    EXPECT_EQ(bitsOf(toFloat(f16{half})), bitsOf(rt::floatFromF16(half)));
    EXPECT_EQ(toFloat(bf16{half}) == rt::floatFromBf16(half),
              !std::isnan(rt::floatFromBf16(half)));
  }
}

class IsaTest : public testing::TestWithParam<const char *> {};

TEST_P(IsaTest, ConvertsLikeHalfFloat) {
  const rt::HostKernels *kernels = rt::hostKernelsFor(GetParam());
  if (!kernels)
    GTEST_SKIP() << "this processor does not run " << GetParam();
  using abi::DType;
  std::vector<float> values = floats();
  auto n = static_cast<int64_t>(values.size());
  std::vector<uint16_t> halves(values.size());
  kernels->convert(DType::F32, values.data(), DType::F16, halves.data(), n);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(halves[i], rt::f16FromFloat(values[i])) << bitsOf(values[i]);
  kernels->convert(DType::F32, values.data(), DType::BF16, halves.data(), n);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(halves[i], rt::bf16FromFloat(values[i])) << bitsOf(values[i]);
  std::vector<uint16_t> all(0x10000);
  for (uint32_t i = 0; i < 0x10000; ++i)
    all[i] = static_cast<uint16_t>(i);
  std::vector<float> out(0x10000);
  kernels->convert(DType::F16, all.data(), DType::F32, out.data(), 0x10000);
  for (uint32_t i = 0; i < 0x10000; ++i)
    ASSERT_EQ(bitsOf(out[i]), bitsOf(rt::floatFromF16(all[i]))) << i;
}

// Sums of rows, losses and products agree between instruction sets to
// rounding; each is what the formula says (kernels_test.cpp).
TEST_P(IsaTest, LogSumExpHandlesSpecials) {
  const rt::HostKernels *kernels = rt::hostKernelsFor(GetParam());
  if (!kernels)
    GTEST_SKIP() << "this processor does not run " << GetParam();
  std::vector<float> x(77, -2.0f);
  auto lse = [&] { return kernels->logSumExp(abi::DType::F32, x.data(), 77); };
  EXPECT_NEAR(lse(), -2 + std::log(77.0), 1e-5);
  x[76] = infinity;
  EXPECT_EQ(lse(), infinity);
  x[76] = nan;
  EXPECT_TRUE(std::isnan(lse()));
  x[76] = 1e4f;
  EXPECT_EQ(lse(), 1e4f);
  x.assign(77, -infinity);
  EXPECT_EQ(lse(), -infinity);
}

INSTANTIATE_TEST_SUITE_P(Both, IsaTest,
                         testing::Values("x86-64-v3", "x86-64-v4"));

} // namespace
} // namespace ciuic::kernel
