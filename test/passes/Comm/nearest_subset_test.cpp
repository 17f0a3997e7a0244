//===- nearest_subset_test.cpp - Whole things near a wanted sum -----------===//

#include "passes/Comm/NearestSubset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

using namespace ciuic::comm;

namespace {

int64_t sumOf(const std::vector<int64_t> &sizes, const llvm::BitVector &set) {
  int64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    sum += set[i] ? sizes[i] : 0;
  return sum;
}

/// The nearest sum of all subsets, the lesser of two.
int64_t nearestOfAll(const std::vector<int64_t> &sizes, int64_t wanted) {
  int64_t best = 0;
  for (uint64_t mask = 0; mask < uint64_t{1} << sizes.size(); ++mask) {
    int64_t sum = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      sum += mask >> i & 1 ? sizes[i] : 0;
    int64_t gap = std::abs(sum - wanted), bestGap = std::abs(best - wanted);
    if (gap < bestGap || (gap == bestGap && sum < best))
      best = sum;
  }
  return best;
}

// Small sets are compared with all of their subsets.
TEST(NearestSubset, IsTheNearestOfAll) {
  std::mt19937 random(7);
  auto upTo = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> sizes(static_cast<size_t>(upTo(10)));
    int64_t total = 0;
    for (int64_t &size : sizes)
      total += size = upTo(round % 3 ? 6 : 1000);
    int64_t wanted = upTo(total + 2) - 1;
    EXPECT_EQ(sumOf(sizes, nearestSubset(sizes, wanted)),
              nearestOfAll(sizes, wanted))
        << "round " << round << ", wanted " << wanted;
  }
}

// Both ends: nothing and everything.
TEST(NearestSubset, TakesNothingOrEverything) {
  std::vector<int64_t> sizes = {5, 3, 5};
  EXPECT_TRUE(nearestSubset(sizes, 0).none());
  EXPECT_TRUE(nearestSubset(sizes, 13).all());
  EXPECT_TRUE(nearestSubset(sizes, 1000).all());
  EXPECT_EQ(nearestSubset({}, 4).size(), 0u);
}

// Of equal sizes the first are taken.
TEST(NearestSubset, TakesTheFirstOfEqualSizes) {
  llvm::BitVector set = nearestSubset({7, 7, 7, 7}, 14);
  EXPECT_TRUE(set[0] && set[1]);
  EXPECT_FALSE(set[2] || set[3]);
}

// A model of many layers: exact where some buckets make up for the others.
TEST(NearestSubset, FindsTheShareOfADeepModel) {
  std::vector<int64_t> sizes = {131'072'000};
  for (int layer = 0; layer < 976; ++layer) {
    sizes.push_back(202'375'168);
    sizes.push_back(8'192);
  }
  sizes.push_back(131'072'000);
  int64_t wanted = 500 * int64_t{202'375'168} + 131'072'000 + 33 * 8'192;
  EXPECT_EQ(sumOf(sizes, nearestSubset(sizes, wanted)), wanted);
}

// All sizes different: the search ends, near to what is wanted.
TEST(NearestSubset, EndsWithManyDifferentSizes) {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    sizes.push_back(1'000'003 + 7919 * i);
    total += sizes.back();
  }
  int64_t sum = sumOf(sizes, nearestSubset(sizes, total / 3));
  EXPECT_LT(std::abs(sum - total / 3), 1'000'003);
}

} // namespace
