//===- sum_test.cpp - The order in which kernels sum ----------------------===//
#include "runtime/kernels/host/Kernel.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace ciuic::kernel::test {
namespace {

std::vector<float> randomValues(int64_t count) {
  std::mt19937 random(count);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

/// Every 64th value in a sum of its own, those added in pairs.
float expectedSum(const std::vector<float> &values) {
  std::vector<float> lanes(64);
  for (size_t j = 0; j < values.size(); ++j)
    lanes[j % 64] += values[j];
  while (lanes.size() > 1) {
    std::vector<float> half;
    for (size_t j = 0; j < lanes.size() / 2; ++j)
      half.push_back(lanes[j] + lanes[j + lanes.size() / 2]);
    lanes = half;
  }
  return lanes[0];
}

// Any count of terms, around the number of lanes too, has the bits of a sum in
// a given order; each term is asked for once.
TEST(SumTest, HasOneOrder) {
  for (int64_t count : {0, 1, 2, 63, 64, 65, 127, 128, 200, 4096, 5001}) {
    std::vector<float> values = randomValues(count);
    std::vector<int> calls(count);
    float sum = sumOf(0, count, [&](int64_t j) CIUIC_INLINED {
      ++calls[j];
      return values[j];
    });
    EXPECT_EQ(bitsOf(sum), bitsOf(expectedSum(values))) << count;
    EXPECT_EQ(calls, std::vector<int>(count, 1)) << count;
  }
}

// The order starts with the first term, wherever that is.
TEST(SumTest, StartsAnywhere) {
  std::vector<float> values = randomValues(300);
  float sum =
      sumOf(-7, 293, [&](int64_t j) CIUIC_INLINED { return values[j + 7]; });
  EXPECT_EQ(bitsOf(sum), bitsOf(expectedSum(values)));
  EXPECT_EQ(sumOf(5, 5, [](int64_t) CIUIC_INLINED { return 1.0f; }), 0.0f);
}

// What else is done on the way does not change it: a residual that is added and
// stored first, in 16 bits as well.
TEST(SumTest, DoesNotDependOnWhatElseIsDone) {
  for (int64_t count : {39, 42, 65, 66, 1000}) {
    std::vector<float> a = randomValues(count), b = randomValues(count + 1);
    std::vector<f16> halves(count);
    std::vector<float> stored(count);
    float beside = sumOf(0, count, [&](int64_t j) CIUIC_INLINED {
      stored[j] = a[j] + b[j];
      halves[j] = fromFloat<f16>(stored[j]);
      return stored[j] * stored[j];
    });
    float alone = sumOf(0, count, [&](int64_t j) CIUIC_INLINED {
      return stored[j] * stored[j];
    });
    EXPECT_EQ(bitsOf(beside), bitsOf(alone)) << count;
    float ofHalves = sumOf(0, count, [&](int64_t j) CIUIC_INLINED {
      return toFloat(halves[j]) * toFloat(halves[j]);
    });
    EXPECT_NEAR(ofHalves, alone, 2e-3f * alone);
  }
}

} // namespace
} // namespace ciuic::kernel::test
