//===- update_operations_test.cpp - Adam, SGD and the step's scalars ------===//
#include "test/runtime/OperationHarness.h"

namespace ciuic::rt::test {
namespace {

Matrix scalar(double value, DType dtype = DType::F32) {
  Matrix m(1, 1, dtype);
  m.set(0, 0, value);
  return m;
}

struct AdamRun {
  explicit AdamRun(int64_t n, DType halfType = DType::BF16)
      : p(1, n), grad(1, n), m(1, n), v(1, n), half(1, n, halfType),
        lr(scalar(1e-2)), coef(scalar(0.5)), step(scalar(3, DType::I32)),
        skip(scalar(0)) {
    p.random(1);
    grad.random(2);
    m.random(3, 0.1);
    for (int64_t i = 0; i < n; ++i)
      v.set(0, i, 0.01 + 0.001 * static_cast<double>(i % 7));
  }
  Status run(bool decoupled, bool corrected, bool sharded,
             std::vector<int64_t> undecayed = {}, uint32_t rank = 0,
             int threads = 2) {
    std::vector<int64_t> ints = {decoupled, corrected,
                                 sharded ? p.tensor().elements() : 0};
    ints.insert(ints.end(), undecayed.begin(), undecayed.end());
    return TaskRun{.kind = TaskKind::Adam,
                   .views = {p.tensor(), grad.tensor(), m.tensor(), v.tensor(),
                             lr.tensor(), coef.tensor(), step.tensor(),
                             skip.tensor(), half.tensor()},
                   .ints = ints,
                   .reals = {0.9, 0.99, 1e-8, 0.1},
                   .rank = rank,
                   .ranks = 2,
                   .threads = threads}
        .run();
  }
  /// The op's definition in double, with decay at elements that `decays` says.
  template <typename Decays>
  std::vector<double> expected(bool decoupled, bool corrected,
                               Decays decays) const {
    std::vector<double> next;
    for (int64_t i = 0; i < p.columns; ++i) {
      double w = p.get(0, i), decay = decays(i) ? 0.1 : 0;
      double g = 0.5 * grad.get(0, i) + (decoupled ? 0 : decay * w);
      double m1 = 0.9 * m.get(0, i) + 0.1 * g;
      double v1 = 0.99 * v.get(0, i) + 0.01 * g * g;
      double c1 = corrected ? 1 - std::pow(0.9, 4) : 1;
      double c2 = corrected ? 1 - std::pow(0.99, 4) : 1;
      if (decoupled)
        w -= 1e-2 * decay * w;
      next.push_back(w - 1e-2 / c1 * m1 / (std::sqrt(v1 / c2) + 1e-8));
    }
    return next;
  }
  Matrix p, grad, m, v, half, lr, coef, step, skip;
};

// Adam and AdamW, with and without bias correction; the copy is the new
// parameter, rounded.
TEST(AdamTest, MatchesFormula) {
  for (int64_t n : {1, 31, 1023, 70001})
    for (bool decoupled : {false, true})
      for (bool corrected : {false, true}) {
        AdamRun a(n);
        auto expected =
            a.expected(decoupled, corrected, [](int64_t) { return true; });
        EXPECT_OK(a.run(decoupled, corrected, false));
        EXPECT_LE(relativeError(a.p.values(), expected), 1e-6);
        Matrix rounded(1, n, DType::BF16);
        for (int64_t i = 0; i < n; ++i)
          rounded.set(0, i, a.p.get(0, i));
        EXPECT_EQ(a.half.values(), rounded.values());
      }
}

// Ranges without decay count from the bucket's start: rank 1 of a sharded
// bucket of 2 x 100 sees what lies in its half, a whole bucket all of it.
TEST(AdamTest, UndecayedRanges) {
  std::vector<int64_t> ranges = {0, 3, 90, 150, 160, 161, 199, 200};
  AdamRun chunk(100);
  auto expected = chunk.expected(
      true, true, [](int64_t i) { return !(i < 50 || i == 60 || i == 99); });
  EXPECT_OK(chunk.run(true, true, true, ranges, 1));
  EXPECT_LE(relativeError(chunk.p.values(), expected), 1e-6);

  AdamRun whole(200);
  expected = whole.expected(true, true, [](int64_t i) {
    return !(i < 3 || (i >= 90 && i < 150) || i == 160 || i == 199);
  });
  EXPECT_OK(whole.run(true, true, false, ranges, 1));
  EXPECT_LE(relativeError(whole.p.values(), expected), 1e-6);
}

// A skipped step changes nothing, and its copy is still made.
TEST(AdamTest, SkippedStepChangesNothing) {
  AdamRun a(33, DType::F16);
  a.skip.set(0, 0, 1);
  a.grad.set(0, 5, INFINITY);
  auto p = a.p.values(), m = a.m.values(), v = a.v.values();
  EXPECT_OK(a.run(true, true, false));
  EXPECT_EQ(a.p.values(), p);
  EXPECT_EQ(a.m.values(), m);
  EXPECT_EQ(a.v.values(), v);
  EXPECT_EQ(a.half.get(0, 32),
            floatFromF16(f16FromFloat(static_cast<float>(p[32]))));
}

// A NaN gradient that nobody checked for is seen in the parameter.
TEST(AdamTest, NonFiniteValuesSurvive) {
  AdamRun a(100);
  a.grad.set(0, 40, NAN);
  EXPECT_OK(a.run(true, true, false));
  EXPECT_TRUE(std::isnan(a.p.get(0, 40)) && std::isnan(a.half.get(0, 40)));
  EXPECT_TRUE(std::isfinite(a.p.get(0, 41)));
}

// The number of threads does not change a bit.
TEST(AdamTest, SameBitsOnAnyThreads) {
  AdamRun one(200001), two(200001);
  EXPECT_OK(one.run(true, true, false, {7, 100000}, 0, 1));
  EXPECT_OK(two.run(true, true, false, {7, 100000}, 0, 2));
  EXPECT_TRUE(one.p.sameBits(two.p) && one.v.sameBits(two.v));
}

// Ranges that are not pairs in rising order are refused.
TEST(AdamTest, RefusesWrongRanges) {
  AdamRun a(10);
  EXPECT_EQ(a.run(true, true, false, {1}).code(), Code::Invalid);
  EXPECT_EQ(a.run(true, true, false, {5, 4}).code(), Code::Invalid);
  EXPECT_EQ(a.run(true, true, false, {5, 8, 7, 9}).code(), Code::Invalid);
  EXPECT_EQ(a.run(true, true, false, {-1, 4}).code(), Code::Invalid);
}

// SGD with momentum, plain and Nesterov's, decay only outside the ranges.
TEST(SgdTest, MatchesFormula) {
  for (bool nesterov : {false, true}) {
    Matrix p(1, 33), grad(1, 33), m(1, 33),
        lr = scalar(0.1), coef = scalar(0.5), skip = scalar(0);
    p.random(1);
    grad.random(2);
    m.random(3);
    std::vector<double> expected;
    for (int64_t i = 0; i < 33; ++i) {
      double g = 0.5 * grad.get(0, i) + (i < 10 ? 0 : 0.01) * p.get(0, i);
      double m1 = 0.9 * m.get(0, i) + g;
      expected.push_back(p.get(0, i) - 0.1 * (nesterov ? g + 0.9 * m1 : m1));
    }
    EXPECT_OK((TaskRun{.kind = TaskKind::Sgd,
                       .views = {p.tensor(), grad.tensor(), m.tensor(),
                                 lr.tensor(), coef.tensor(), skip.tensor()},
                       .ints = {nesterov, 0, 0, 10},
                       .reals = {0.9, 0.01}}
                   .run()));
    EXPECT_LE(relativeError(p.values(), expected), 1e-6);
  }
}

/// coef, norm and skip of a sum of squares.
std::vector<double> gradScaleOf(double sum, double count, double scale,
                                bool check, double clip) {
  Matrix s = scalar(sum, DType::F64), c = scalar(count), l = scalar(scale),
         coef = scalar(0), norm = scalar(0), skip = scalar(0);
  EXPECT_OK((TaskRun{.kind = TaskKind::GradScale,
                     .views = {s.tensor(), c.tensor(), l.tensor(),
                               coef.tensor(), norm.tensor(), skip.tensor()},
                     .ints = {check},
                     .reals = {64, clip}}
                 .run()));
  return {coef.get(0, 0), norm.get(0, 0), skip.get(0, 0)};
}

// Scale, masked labels and clipping in one factor.
TEST(StepScalarsTest, GradScale) {
  auto plain = gradScaleOf(16 * 64, 32, 8, false, 0);
  EXPECT_EQ(plain, (std::vector<double>{0.25, 8, 0}));
  auto clipped = gradScaleOf(16 * 64, 32, 8, false, 1);
  EXPECT_NEAR(clipped[0], 0.25 / 8, 1e-6);
  auto skipped = gradScaleOf(INFINITY, 32, 8, true, 1);
  EXPECT_EQ(skipped[2], 1);
  EXPECT_TRUE(std::isnan(gradScaleOf(NAN, 32, 8, false, 1)[0]));
  // A count that is no number does not make the conversion undefined.
  EXPECT_EQ(gradScaleOf(64, NAN, 1, false, 0)[0], 64);
}

// The table of tests/runtime/scalar holds through the task: warm-up to 0.2.
TEST(StepScalarsTest, LearningRate) {
  Matrix step = scalar(0, DType::I32), lr = scalar(0);
  auto at = [&](double applied) {
    step.set(0, 0, applied);
    EXPECT_OK((TaskRun{.kind = TaskKind::LearningRate,
                       .views = {step.tensor(), lr.tensor()},
                       .ints = {1, 10, 0, 0},
                       .reals = {0, 0.1, 0.2, 0, 0}}
                   .run()));
    return lr.get(0, 0);
  };
  EXPECT_NEAR(at(0), 0.1, 1e-7);
  EXPECT_NEAR(at(6), 0.15, 1e-7);
  EXPECT_NEAR(at(50), 0.2, 1e-7);
}

// Only applied steps count.
TEST(StepScalarsTest, Advance) {
  Matrix step = scalar(7, DType::I32), skip = scalar(1);
  TaskRun run{.kind = TaskKind::Advance,
              .views = {step.tensor(), skip.tensor(), step.tensor()}};
  EXPECT_OK(run.run());
  EXPECT_EQ(step.get(0, 0), 7);
  skip.set(0, 0, 0);
  EXPECT_OK(run.run());
  EXPECT_EQ(step.get(0, 0), 8);
}

// The loss scale halves at overflows and stops at its floor.
TEST(StepScalarsTest, LossScaleStops) {
  Matrix scale = scalar(4), iteration = scalar(0, DType::I32),
         last = scalar(-1, DType::I32), left = scalar(1, DType::I32),
         skip = scalar(1), stopped = scalar(0);
  TaskRun run{.kind = TaskKind::UpdateLossScale,
              .views = {scale.tensor(), iteration.tensor(), last.tensor(),
                        left.tensor(), skip.tensor(), scale.tensor(),
                        iteration.tensor(), last.tensor(), left.tensor(),
                        stopped.tensor()},
              .ints = {2, 1, 0},
              .reals = {1}};
  std::vector<double> scales, stops;
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(run.run());
    scales.push_back(scale.get(0, 0));
    stops.push_back(stopped.get(0, 0));
  }
  EXPECT_EQ(scales, (std::vector<double>{2, 1, 1}));
  EXPECT_EQ(stops, (std::vector<double>{0, 0, 1}));
}

} // namespace
} // namespace ciuic::rt::test
