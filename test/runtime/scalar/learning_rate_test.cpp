//===- learning_rate_test.cpp - Schedules against DeepSpeed's tables ------===//

#include "runtime/kernels/scalar/LearningRate.h"

#include <gtest/gtest.h>

#include <vector>

using namespace ciuic::rt;

namespace {

/// The rate after the schedule moved t + 1 times: DeepSpeed's entry t.
double entry(const LearningRateParams &params, int64_t t) {
  return learningRate(params, t + 1);
}

LearningRateParams warmup(WarmupCurve curve, double min, double max,
                          int64_t steps) {
  LearningRateParams params;
  params.kind = LearningRateKind::WarmupLR;
  params.curve = curve;
  params.warmupMinLr = min;
  params.warmupMaxLr = max;
  params.warmupSteps = steps;
  return params;
}

// Without a scheduler the rate never moves.
TEST(LearningRate, ConstantStaysConstant) {
  LearningRateParams params;
  params.lr = 0.25;
  for (int64_t n : {0, 1, 2, 1000, 1000000})
    EXPECT_EQ(learningRate(params, n), 0.25);
}

// The logarithmic curve from .1 to .2 over 10 steps, value by value.
TEST(LearningRate, LogWarmupMatchesItsTable) {
  LearningRateParams params = warmup(WarmupCurve::Log, 0.1, 0.2, 10);
  const double expected[] = {.1,      .130103, .147712, .160206,
                             .169897, .177815, .184510, .190309,
                             .195424, .2,      .2};
  for (int64_t t = 0; t <= 10; ++t)
    EXPECT_NEAR(entry(params, t), expected[t], 5e-7) << "t = " << t;
}

// The straight line from .1 to .2 over 10 steps.
TEST(LearningRate, LinearWarmupIsAStraightLine) {
  LearningRateParams params = warmup(WarmupCurve::Linear, 0.1, 0.2, 10);
  for (int64_t t = 0; t <= 10; ++t)
    EXPECT_NEAR(entry(params, t), 0.1 + 0.01 * static_cast<double>(t), 1e-12);
  EXPECT_DOUBLE_EQ(entry(params, 11), 0.2);
}

// The first two steps of a warm-up both run at its minimum.
TEST(LearningRate, FirstTwoStepsRunAtTheMinimum) {
  for (WarmupCurve curve : {WarmupCurve::Log, WarmupCurve::Linear}) {
    LearningRateParams params = warmup(curve, 0.1, 0.2, 10);
    EXPECT_EQ(learningRate(params, 0), 0.1);
    EXPECT_EQ(learningRate(params, 1), 0.1);
    EXPECT_GT(learningRate(params, 2), 0.1);
  }
}

// Entry W is the maximum exactly, and the rate stays there.
TEST(LearningRate, WarmupEndsAtTheMaximumExactly) {
  for (WarmupCurve curve : {WarmupCurve::Log, WarmupCurve::Linear})
    for (int64_t steps : {10, 15, 19, 33}) {
      LearningRateParams params = warmup(curve, 0.1, 0.2, steps);
      EXPECT_EQ(entry(params, 0), 0.1);
      for (int64_t t = steps; t < steps + 20; ++t)
        EXPECT_DOUBLE_EQ(entry(params, t), 0.2);
    }
}

// One step of warm-up counts as two: ln(1) must never be divided by.
TEST(LearningRate, WarmupOfOneStepCountsAsTwo) {
  for (int64_t steps : {-5, 0, 1}) {
    LearningRateParams one = warmup(WarmupCurve::Log, 0, 1, steps);
    LearningRateParams two = warmup(WarmupCurve::Log, 0, 1, 2);
    for (int64_t n = 0; n < 6; ++n)
      EXPECT_EQ(learningRate(one, n), learningRate(two, n));
  }
}

// After warm-up the rate falls strictly, to the minimum at the last step.
TEST(LearningRate, DecayFallsToTheMinimum) {
  for (int64_t steps : {10, 15, 19, 33}) {
    LearningRateParams params = warmup(WarmupCurve::Log, 0.1, 0.2, steps);
    params.kind = LearningRateKind::WarmupDecayLR;
    params.totalSteps = 2 * steps;
    EXPECT_DOUBLE_EQ(entry(params, steps), 0.2);
    for (int64_t t = steps; t < 2 * steps; ++t)
      EXPECT_LT(entry(params, t + 1), entry(params, t)) << "t = " << t;
    EXPECT_DOUBLE_EQ(entry(params, 2 * steps), 0.1);
    EXPECT_DOUBLE_EQ(entry(params, 5 * steps), 0.1);
  }
}

// A schedule that ends within its warm-up divides by 1, never by 0.
TEST(LearningRate, DecayShorterThanWarmupStaysFinite) {
  LearningRateParams params = warmup(WarmupCurve::Log, 0, 1, 10);
  params.kind = LearningRateKind::WarmupDecayLR;
  for (int64_t total : {0, 5, 10}) {
    params.totalSteps = total;
    EXPECT_EQ(entry(params, 12), 0.0);
  }
}

struct CosineCase {
  int64_t total, warmup;
  double cosMin, warmMin;
};

// First, peak and last entry of the cosine, and no rise after its end.
TEST(LearningRate, CosineMeetsItsThreePoints) {
  const CosineCase cases[] = {{100, 10, .1, .2},
                              {200, 20, .1, .2},
                              {500, 30, 0, .2},
                              {600, 300, .1, 0},
                              {600, 550, 0, 0}};
  for (const CosineCase &c : cases) {
    LearningRateParams params;
    params.kind = LearningRateKind::WarmupCosineLR;
    params.lr = 0.0015;
    params.totalSteps = c.total;
    params.warmupSteps = c.warmup;
    params.cosMinRatio = c.cosMin;
    params.warmupMinRatio = c.warmMin;
    EXPECT_NEAR(entry(params, 0), params.lr * c.warmMin, 1e-7);
    EXPECT_NEAR(entry(params, c.warmup - 1), params.lr, 1e-7);
    EXPECT_NEAR(entry(params, c.total - 1), params.lr * c.cosMin, 1e-7);
    for (int64_t t = c.total - 1; t < 3 * c.total; ++t)
      ASSERT_LE(entry(params, t + 1), entry(params, t) + 1e-15);
  }
}

// The cosine's very first step runs at rate 0, before the curve begins.
TEST(LearningRate, CosineBeginsAtZero) {
  LearningRateParams params;
  params.kind = LearningRateKind::WarmupCosineLR;
  params.warmupMinRatio = 0.5;
  params.totalSteps = 100;
  EXPECT_EQ(learningRate(params, 0), 0.0);
  EXPECT_DOUBLE_EQ(learningRate(params, 1), params.lr * 0.5);
}

} // namespace
