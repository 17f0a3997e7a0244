//===- loss_scale_test.cpp - The loss-scale machine, step by step ---------===//

#include "runtime/kernels/scalar/LossScale.h"

#include <gtest/gtest.h>

#include <vector>

using namespace ciuic::rt;

namespace {

LossScaleParams dynamicScale(double initial, int64_t window,
                             int64_t hysteresis) {
  LossScaleParams params;
  params.dynamic = true;
  params.initialScale = initial;
  params.window = window;
  params.hysteresis = hysteresis;
  return params;
}

/// The scale after each step of `overflows`.
std::vector<double> run(const LossScaleParams &params, LossScaleState &state,
                        const std::vector<bool> &overflows) {
  std::vector<double> scales;
  for (bool overflow : overflows) {
    EXPECT_FALSE(updateLossScale(state, params, overflow));
    scales.push_back(state.scale);
  }
  return scales;
}

// Good steps only: the scale doubles every `window` steps, from the third on.
TEST(LossScale, GrowsOverGoodSteps) {
  LossScaleParams params = dynamicScale(256, 2, 2);
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, std::vector<bool>(10, false)),
            (std::vector<double>{256, 256, 512, 512, 1024, 1024, 2048, 2048,
                                 4096, 4096}));
}

// With hysteresis 1 every overflow halves; at the floor the next one stops.
TEST(LossScale, StopsAtTheFloor) {
  LossScaleParams params = dynamicScale(256, 1000, 1);
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, std::vector<bool>(8, true)),
            (std::vector<double>{128, 64, 32, 16, 8, 4, 2, 1}));
  EXPECT_TRUE(updateLossScale(state, params, true));
  EXPECT_EQ(state.scale, 1.0);
  EXPECT_EQ(state.iteration, 8);
}

// Overflows restart the count of good steps.
TEST(LossScale, CountsGoodStepsFromTheLastOverflow) {
  LossScaleParams params = dynamicScale(256, 2, 1);
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, true}), (std::vector<double>{128, 64}));
  EXPECT_EQ(state.iteration, 2);
  EXPECT_EQ(run(params, state, {false, false, false}),
            (std::vector<double>{64, 64, 128}));
  EXPECT_EQ(state.iteration, 5);
  EXPECT_EQ(run(params, state, {true}), (std::vector<double>{64}));
  EXPECT_EQ(state.iteration, 6);
}

// By default the first overflow costs its step and leaves the scale.
TEST(LossScale, DefaultHysteresisForgivesTheFirstOverflow) {
  LossScaleParams params = dynamicScale(65536, 1000, 2);
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, true, true}),
            (std::vector<double>{65536, 32768, 16384}));
}

// With the defaults the first raise comes at iteration 1000, counted from 0.
TEST(LossScale, FirstRaiseAtIterationThousand) {
  LossScaleParams params = dynamicScale(65536, 1000, 2);
  LossScaleState state = initialLossScale(params);
  while (state.scale == 65536.0 && state.iteration < 5000)
    ASSERT_FALSE(updateLossScale(state, params, false));
  EXPECT_EQ(state.iteration, 1001); // The step that raised was number 1000.
}

// Hysteresis refills when the scale grows, not at a good step before that.
TEST(LossScale, HysteresisRefillsWhenTheScaleGrows) {
  LossScaleParams params = dynamicScale(256, 2, 2);
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, false, true}),
            (std::vector<double>{256, 256, 128}));
  EXPECT_EQ(run(params, state, {false, false, false, true}),
            (std::vector<double>{128, 128, 256, 256}));
}

// With consecutive hysteresis one good step refills it.
TEST(LossScale, ConsecutiveHysteresisRefillsAtAnyGoodStep) {
  LossScaleParams params = dynamicScale(256, 1000, 2);
  params.consecutiveHysteresis = true;
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, false, true, false, true, true}),
            (std::vector<double>{256, 256, 256, 256, 256, 128}));
}

// Halving ends at the floor even when half of the scale is below it.
TEST(LossScale, HalvingIsBoundedByTheFloor) {
  LossScaleParams params = dynamicScale(16, 1000, 1);
  params.minScale = 3;
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, true, true}),
            (std::vector<double>{8, 4, 3}));
  EXPECT_TRUE(updateLossScale(state, params, true));
}

// A static scale neither moves nor stops.
TEST(LossScale, StaticScaleStays) {
  LossScaleParams params;
  params.initialScale = 128;
  LossScaleState state = initialLossScale(params);
  EXPECT_EQ(run(params, state, {true, true, false, true}),
            (std::vector<double>{128, 128, 128, 128}));
  EXPECT_EQ(state.iteration, 4);
}

} // namespace
