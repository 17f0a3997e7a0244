//===- grad_scale_test.cpp - Unscaling, normalising and clipping ----------===//

#include "runtime/kernels/scalar/GradScale.h"

#include <gtest/gtest.h>

#include <limits>

using namespace ciuic::rt;

namespace {

GradScaleParams params(int64_t slots, double clip, bool check) {
  GradScaleParams result;
  result.totalSlots = slots;
  result.clip = clip;
  result.checkOverflow = check;
  return result;
}

const double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

// Two gradients of 1 clipped at .1: what torch's clipping gives, to the digit.
TEST(GradScale, ClipsLikeTorch) {
  GradScale scale = gradScale(params(1, 0.1, false), 2.0, 1, 1.0);
  EXPECT_DOUBLE_EQ(scale.norm, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(scale.coefficient, 0.1 / (std::sqrt(2.0) + 1e-6));
  EXPECT_NEAR(scale.coefficient, 0.0707106, 1e-7);
}

// A norm under the limit changes nothing.
TEST(GradScale, LeavesSmallGradientsAlone) {
  GradScale scale = gradScale(params(1, 10.0, true), 2.0, 1, 1.0);
  EXPECT_EQ(scale.coefficient, 1.0);
  EXPECT_FALSE(scale.skip);
}

// Clipping at 0 or below is off, however large the norm.
TEST(GradScale, ClipOfZeroIsOff) {
  for (double clip : {0.0, -1.0})
    EXPECT_EQ(gradScale(params(1, clip, true), 1e12, 1, 1.0).coefficient, 1.0);
}

// The norm and its clipping are those of the gradient without the loss scale.
TEST(GradScale, UndoesTheLossScaleBeforeClipping) {
  double scaled = 9.0 * 1024.0 * 1024.0; // A gradient of norm 3 at scale 1024.
  GradScale scale = gradScale(params(1, 1.0, true), scaled, 1, 1024.0);
  EXPECT_DOUBLE_EQ(scale.norm, 3.0);
  EXPECT_DOUBLE_EQ(scale.coefficient, 1.0 / 1024.0 / (3.0 + 1e-6));
}

// Half of the slots masked: the mean over labelled tokens is twice as large.
TEST(GradScale, NormalisesOverLabelledTokens) {
  GradScale scale = gradScale(params(64, 0.0, true), 4.0, 32, 1.0);
  EXPECT_EQ(scale.factor, 2.0);
  EXPECT_EQ(scale.norm, 4.0);
  EXPECT_EQ(scale.coefficient, 2.0);
}

// A batch without one label gives finite numbers.
TEST(GradScale, NoLabelsIsFinite) {
  GradScale scale = gradScale(params(64, 1.0, true), 0.0, 0, 1.0);
  EXPECT_EQ(scale.norm, 0.0);
  EXPECT_EQ(scale.coefficient, 64.0);
  EXPECT_FALSE(scale.skip);
}

// Checked: inf and NaN skip the step, and nothing is multiplied by them.
TEST(GradScale, OverflowSkips) {
  for (double bad : {inf, nan}) {
    GradScale scale = gradScale(params(1, 1.0, true), bad, 1, 65536.0);
    EXPECT_TRUE(scale.skip);
    EXPECT_EQ(scale.coefficient, 0.0);
  }
}

// Not checked: a NaN must reach the parameters, where it will be noticed.
TEST(GradScale, UncheckedNanIsNotHidden) {
  GradScale scale = gradScale(params(1, 1.0, false), nan, 1, 1.0);
  EXPECT_FALSE(scale.skip);
  EXPECT_TRUE(std::isnan(scale.coefficient));
}

} // namespace
