//===- update_test.cpp - Adam and SGD on the device -----------------------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

/// Whether element `i` of the bucket is in one of the ranges without decay.
bool decays(const std::vector<int64_t> &pairs, int64_t i) {
  for (size_t k = 0; k < pairs.size(); k += 2)
    if (i >= pairs[k] && i < pairs[k + 1])
      return false;
  return true;
}

/// One update of `n` elements, with its data before and after.
struct Update {
  int64_t n;
  DType half; ///< F32: no copy.
  Matrix p, grad, m, v, copy;
  Matrix lr = Matrix::scalar(1e-2), coef = Matrix::scalar(0.5),
         step = Matrix::scalar(4, DType::I32), skip = Matrix::scalar(0);
  std::vector<int64_t> pairs;
  bool sharded = false;
  uint32_t rank = 0;
  double decay = 0.1;
  std::vector<double> oldP, oldM, oldV;

  Update(int64_t n, DType half = DType::BF16, int64_t before = 0)
      : n(n), half(half), p(1, n, DType::F32, 0, before),
        grad(1, n, DType::F32, 0, before), m(1, n, DType::F32, 0, before),
        v(1, n, DType::F32, 0, before),
        copy(1, n, half == DType::F32 ? DType::BF16 : half, 0, before) {
    p.random(1);
    grad.random(2);
    m.random(3, 0.1);
    v.random(4, 0.1);
    for (int64_t i = 0; i < n; ++i)
      v.set(0, i, std::fabs(v.get(0, i)));
    copy.asOut();
  }

  int runAdam(bool decoupled, bool corrected) {
    return run(TaskKind::Adam, {&p, &grad, &m, &v, &lr, &coef, &step, &skip},
               {decoupled, corrected, sharded ? n : 0},
               {0.9, 0.95, 1e-8, decay});
  }
  int runSgd(bool nesterov) {
    return run(TaskKind::Sgd, {&p, &grad, &m, &lr, &coef, &skip},
               {nesterov, sharded ? n : 0}, {0.9, decay});
  }

  void expectAdam(bool decoupled, bool corrected) const {
    double b1 = 0.9, b2 = 0.95, rate = lr.get(), t = step.get() + 1;
    double c1 = corrected ? 1 - std::pow(b1, t) : 1;
    double c2 = corrected ? 1 - std::pow(b2, t) : 1;
    std::vector<double> newP, newM, newV;
    for (int64_t i = 0; i < n; ++i) {
      auto k = static_cast<size_t>(i);
      double w = decaysHere(i) ? decay : 0;
      double g = coef.get() * grad.get(0, i) + (decoupled ? 0 : w * oldP[k]);
      newM.push_back(b1 * oldM[k] + (1 - b1) * g);
      newV.push_back(b2 * oldV[k] + (1 - b2) * g * g);
      newP.push_back(oldP[k] * (decoupled ? 1 - rate * w : 1) -
                     rate * (newM[k] / c1) / (std::sqrt(newV[k] / c2) + 1e-8));
    }
    expectNear(m, newM, 1e-6, 1e-7);
    expectNear(v, newV, 1e-6, 1e-7);
    expectNear(p, newP, 1e-6, 1e-7);
    expectCopy();
  }

  void expectSgd(bool nesterov) const {
    std::vector<double> newP, newM;
    for (int64_t i = 0; i < n; ++i) {
      auto k = static_cast<size_t>(i);
      double g =
          coef.get() * grad.get(0, i) + (decaysHere(i) ? decay * oldP[k] : 0);
      newM.push_back(0.9 * oldM[k] + g);
      newP.push_back(oldP[k] -
                     lr.get() * (nesterov ? g + 0.9 * newM[k] : newM[k]));
    }
    expectNear(m, newM, 1e-6, 1e-7);
    expectNear(p, newP, 1e-6, 1e-7);
    expectCopy();
  }

  /// The copy is p, rounded once.
  void expectCopy() const {
    if (half == DType::F32)
      return;
    Matrix rounded(1, n, half);
    for (int64_t i = 0; i < n; ++i)
      rounded.set(0, i, p.get(0, i));
    EXPECT_TRUE(copy.sameElements(rounded));
  }

private:
  bool decaysHere(int64_t i) const {
    return decays(pairs, i + (sharded ? rank * n : 0));
  }

  int run(TaskKind kind, std::vector<Matrix *> views, std::vector<int64_t> ints,
          std::vector<double> reals) {
    oldP = p.values();
    oldM = m.values();
    oldV = v.values();
    if (half != DType::F32)
      views.push_back(&copy);
    ints.insert(ints.end(), pairs.begin(), pairs.end());
    Task task{
        kind, half, half, std::move(views), std::move(ints), std::move(reals)};
    task.rank = rank;
    return task.run();
  }
};

// Adam and AdamW, with and without correction, copies of every type, at sizes
// with tails, aligned or not.
TEST(DeviceAdam, AgreesWithDoubles) {
  for (DType half : {DType::F32, DType::F16, DType::BF16})
    for (int64_t n : oddSizes)
      for (int64_t before : {0, 1}) {
        bool decoupled = n % 4 != 1, corrected = n > 31;
        Update update(n, half, before);
        ASSERT_EQ(update.runAdam(decoupled, corrected), cudaSuccess);
        update.expectAdam(decoupled, corrected);
      }
}

// The correction of every step up to where it is lost beside 1.
TEST(DeviceAdam, CorrectsEveryStep) {
  for (int32_t step : {0, 1, 2, 99, 4096, 1000000, 2147483647}) {
    Update update(33);
    update.step = Matrix::scalar(step, DType::I32);
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    update.expectAdam(true, true);
  }
}

// Blocks go round where there are more tiles than the device holds.
TEST(DeviceAdam, UpdatesManyTiles) {
  Update update(30001);
  update.pairs = {100, 5000, 6000, 6001, 20480, 21504, 30000, 30001};
  ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
  update.expectAdam(true, true);
}

// Ranges that end inside vectors, touch, cover tiles, or are empty.
TEST(DeviceAdam, LeavesRangesWithoutDecay) {
  const std::vector<std::vector<int64_t>> all = {
      {},           {0, 3000},    {0, 1, 2, 3, 5, 7},
      {1023, 1025}, {1024, 2048}, {10, 10, 10, 20, 20, 20, 20, 30},
      {2999, 3000}, {5000, 6000},
  };
  for (const std::vector<int64_t> &pairs : all) {
    Update update(3000);
    update.pairs = pairs;
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    update.expectAdam(true, true);
  }
}

// More ranges than a kernel takes as parameters.
TEST(DeviceAdam, TakesHundredsOfRanges) {
  for (bool dense : {false, true}) {
    Update update(3000);
    for (int64_t i = 0; i < 250; ++i) {
      update.pairs.push_back(i * (dense ? 2 : 11) + 3);
      update.pairs.push_back(i * (dense ? 2 : 11) + 4);
    }
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    update.expectAdam(true, true);
  }
}

// A rank's ranges are those of its share of the bucket.
TEST(DeviceAdam, ShiftsRangesOfShards) {
  for (uint32_t rank : {0u, 1u, 3u}) {
    Update update(500);
    update.sharded = true;
    update.rank = rank;
    update.pairs = {100, 200, 450, 620, 1499, 1501, 1700, 9000};
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    update.expectAdam(true, true);
  }
}

// A rank without elements has nothing to do.
TEST(DeviceAdam, TakesEmptyShards) {
  Update update(0);
  EXPECT_EQ(update.runAdam(true, true), cudaSuccess);
}

// A skipped step changes nothing, but its copy in 16 bits is written.
TEST(DeviceAdam, CopiesWhenSkipped) {
  for (DType half : {DType::F32, DType::F16}) {
    Update update(1023, half);
    update.grad.fill(nan);
    update.skip = Matrix::scalar(1);
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    EXPECT_EQ(update.p.values(), update.oldP);
    EXPECT_EQ(update.m.values(), update.oldM);
    EXPECT_EQ(update.v.values(), update.oldV);
    update.expectCopy();
  }
}

// Gradients at the ends of the range: no step of NaN from finite ones.
TEST(DeviceAdam, TakesExtremeGradients) {
  Update update(4);
  update.coef = Matrix::scalar(1);
  update.m.fill(0);
  update.v.fill(0);
  const double grads[] = {0, 1e-30, 1e15, nan};
  for (int64_t i = 0; i < 4; ++i)
    update.grad.set(0, i, grads[i]);
  update.decay = 0;
  update.step = Matrix::scalar(0, DType::I32);
  ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
  EXPECT_EQ(update.p.get(0, 0), update.oldP[0]);
  EXPECT_NEAR(update.p.get(0, 1), update.oldP[1], 1e-7);
  EXPECT_NEAR(update.p.get(0, 2), update.oldP[2] - 1e-2, 1e-6);
  EXPECT_TRUE(std::isnan(update.p.get(0, 3)));
}

// Vectors only where every tensor allows them.
TEST(DeviceAdam, TakesEachTensorWhereItIs) {
  for (Matrix Update::*moved :
       {&Update::p, &Update::grad, &Update::m, &Update::v, &Update::copy}) {
    Update update(100);
    Matrix shifted(1, 100, (update.*moved).dtype, 0, 1);
    for (int64_t i = 0; i < 100; ++i)
      shifted.set(0, i, (update.*moved).get(0, i));
    shifted.isOut = (update.*moved).isOut;
    update.*moved = shifted;
    ASSERT_EQ(update.runAdam(true, true), cudaSuccess);
    update.expectAdam(true, true);
  }
}

// Ranges out of order, half a range, tensors of other sizes.
TEST(DeviceAdam, RefusesWhatDoesNotFit) {
  Update update(100);
  for (std::vector<int64_t> pairs :
       {std::vector<int64_t>{5}, {5, 4}, {5, 9, 8, 12}, {-3, 2}}) {
    update.pairs = pairs;
    EXPECT_EQ(update.runAdam(true, true), cudaErrorInvalidValue);
  }
  Update other(100);
  other.v = Matrix(1, 99);
  EXPECT_EQ(other.runAdam(true, true), cudaErrorInvalidValue);
}

// With momentum, Nesterov's or plain.
TEST(DeviceSgd, AgreesWithDoubles) {
  for (DType half : {DType::F32, DType::F16, DType::BF16})
    for (bool nesterov : {false, true})
      for (int64_t n : oddSizes) {
        Update update(n, half, n % 2);
        update.pairs = {0, n / 3, n / 2, n};
        ASSERT_EQ(update.runSgd(nesterov), cudaSuccess);
        update.expectSgd(nesterov);
      }
}

// As for Adam.
TEST(DeviceSgd, CopiesWhenSkipped) {
  Update update(33);
  update.skip = Matrix::scalar(1);
  ASSERT_EQ(update.runSgd(true), cudaSuccess);
  EXPECT_EQ(update.p.values(), update.oldP);
  EXPECT_EQ(update.m.values(), update.oldM);
  update.expectCopy();
}

} // namespace
} // namespace ciuic::cuda::test
