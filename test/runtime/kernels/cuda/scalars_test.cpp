//===- scalars_test.cpp - The numbers of a step on the device -------------===//
#include "runtime/kernels/scalar/GradScale.h"
#include "runtime/kernels/scalar/LearningRate.h"
#include "runtime/kernels/scalar/LossScale.h"
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

Matrix outScalar(DType dtype = DType::F32) {
  Matrix matrix(1, 1, dtype);
  return matrix.asOut();
}

struct Scaled {
  Matrix coef = outScalar(), norm = outScalar(), skip = outScalar();

  Scaled(double squareSum, double labels, double scale, bool check,
         double slots, double clip) {
    Matrix sum = Matrix::scalar(squareSum, DType::F64);
    Matrix count = Matrix::scalar(labels), factor = Matrix::scalar(scale);
    Task task{TaskKind::GradScale,
              DType::F32,
              DType::F32,
              {&sum, &count, &factor, &coef, &norm, &skip},
              {check},
              {slots, clip}};
    EXPECT_EQ(task.run(), cudaSuccess);
  }
};

// Clipped, unclipped, with padding, without any label.
TEST(DeviceGradScale, AgreesWithTheHost) {
  for (double sum : {0.0, 1e-30, 4.0, 1e60})
    for (double labels : {0.0, 1.0, 700.0, -5.0})
      for (double scale : {1.0, 65536.0})
        for (double clip : {0.0, 1.0}) {
          Scaled found(sum, labels, scale, true, 1024, clip);
          rt::GradScaleParams params;
          params.totalSlots = 1024;
          params.clip = clip;
          params.checkOverflow = true;
          rt::GradScale expected = rt::gradScale(
              params, sum, labels > 0 ? static_cast<int64_t>(labels) : 0,
              scale);
          EXPECT_EQ(found.coef.get(), static_cast<float>(expected.coefficient));
          EXPECT_EQ(found.norm.get(), static_cast<float>(expected.norm));
          EXPECT_EQ(found.skip.get(), 0);
        }
}

// An overflow is skipped where it is checked for, and passes where it is not.
TEST(DeviceGradScale, SeesOverflow) {
  for (double sum : {infinity, nan}) {
    Scaled checked(sum, 8, 2, true, 8, 1);
    EXPECT_EQ(checked.skip.get(), 1);
    EXPECT_EQ(checked.coef.get(), 0);
    Scaled unchecked(sum, 8, 2, false, 8, 1);
    EXPECT_EQ(unchecked.skip.get(), 0);
    EXPECT_TRUE(!std::isfinite(unchecked.norm.get()));
  }
}

// Every schedule at its corners.
TEST(DeviceLearningRate, AgreesWithTheHost) {
  for (int64_t kind = 0; kind < 4; ++kind)
    for (int64_t curve = 0; curve < 2; ++curve)
      for (int32_t step : {0, 1, 2, 5, 10, 11, 50, 99, 100, 1000000}) {
        rt::LearningRateParams params;
        params.kind = static_cast<rt::LearningRateKind>(kind);
        params.curve = curve ? rt::WarmupCurve::Log : rt::WarmupCurve::Linear;
        params.warmupSteps = 10;
        params.totalSteps = 100;
        params.lr = 3e-4;
        params.warmupMinLr = 1e-6;
        params.warmupMaxLr = 1e-3;
        params.warmupMinRatio = 0.1;
        params.cosMinRatio = 0.01;
        Matrix now = Matrix::scalar(step, DType::I32), lr = outScalar();
        Task task{TaskKind::LearningRate,
                  DType::F32,
                  DType::F32,
                  {&now, &lr},
                  {kind, 10, 100, curve},
                  {3e-4, 1e-6, 1e-3, 0.1, 0.01}};
        ASSERT_EQ(task.run(), cudaSuccess);
        EXPECT_EQ(lr.get(), static_cast<float>(rt::learningRate(params, step)));
      }
}

// A schedule that there is not is refused.
TEST(DeviceLearningRate, RefusesUnknownSchedules) {
  Matrix now = Matrix::scalar(0, DType::I32), lr = outScalar();
  Task task{TaskKind::LearningRate, DType::F32,     DType::F32, {&now, &lr},
            {4, 10, 100, 0},        {1, 1, 1, 1, 1}};
  EXPECT_EQ(task.run(), cudaErrorInvalidValue);
}

// One further, unless the step was skipped or there is no further.
TEST(DeviceAdvance, CountsAppliedSteps) {
  struct Case {
    double step, skip, next;
  };
  for (Case c : {Case{0, 0, 1}, Case{41, 0, 42}, Case{41, 1, 41},
                 Case{2147483647, 0, 2147483647}}) {
    Matrix step = Matrix::scalar(c.step, DType::I32);
    Matrix skip = Matrix::scalar(c.skip), next = outScalar(DType::I32);
    Task task{TaskKind::Advance, DType::F32, DType::F32, {&step, &skip, &next}};
    ASSERT_EQ(task.run(), cudaSuccess);
    EXPECT_EQ(next.get(), c.next);
  }
}

// A run of good and bad steps goes as the machine on the host does.
TEST(DeviceLossScale, FollowsTheHost) {
  rt::LossScaleParams params;
  params.dynamic = true;
  params.window = 3;
  params.hysteresis = 2;
  params.minScale = 4;
  rt::LossScaleState state;
  state.scale = 16;
  const bool overflows[] = {false, true,  true,  false, false, false, false,
                            false, true,  true,  true,  true,  true,  false,
                            true,  false, false, false, false, false};
  for (bool overflow : overflows) {
    Matrix scale = Matrix::scalar(state.scale);
    Matrix iteration =
        Matrix::scalar(static_cast<double>(state.iteration), DType::I32);
    Matrix last =
        Matrix::scalar(static_cast<double>(state.lastOverflow), DType::I32);
    Matrix hysteresis =
        Matrix::scalar(static_cast<double>(state.hysteresis), DType::I32);
    Matrix skip = Matrix::scalar(overflow);
    Matrix nextScale = outScalar(), nextIteration = outScalar(DType::I32),
           nextLast = outScalar(DType::I32),
           nextHysteresis = outScalar(DType::I32), stopped = outScalar();
    Task task{TaskKind::UpdateLossScale,
              DType::F32,
              DType::F32,
              {&scale, &iteration, &last, &hysteresis, &skip, &nextScale,
               &nextIteration, &nextLast, &nextHysteresis, &stopped},
              {params.window, params.hysteresis, 0},
              {params.minScale}};
    ASSERT_EQ(task.run(), cudaSuccess);
    bool stop = rt::updateLossScale(state, params, overflow);
    EXPECT_EQ(nextScale.get(), state.scale);
    EXPECT_EQ(nextIteration.get(), static_cast<double>(state.iteration));
    EXPECT_EQ(nextLast.get(), static_cast<double>(state.lastOverflow));
    EXPECT_EQ(nextHysteresis.get(), static_cast<double>(state.hysteresis));
    EXPECT_EQ(stopped.get(), stop);
  }
}

} // namespace
} // namespace ciuic::cuda::test
