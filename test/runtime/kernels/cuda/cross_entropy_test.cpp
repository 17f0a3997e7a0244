//===- cross_entropy_test.cpp - The loss on the device --------------------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

constexpr double ignored = -100;

/// What a row's logits and label give, in doubles.
struct Row {
  double lse = 0, loss = 0;
  std::vector<double> grad;

  Row(const Matrix &logits, int64_t row, double label, double seed) {
    double top = -infinity, sum = 0;
    for (int64_t j = 0; j < logits.columns; ++j)
      top = std::fmax(top, logits.get(row, j));
    double shift = std::isinf(top) ? 0 : top;
    for (int64_t j = 0; j < logits.columns; ++j)
      sum += std::exp(logits.get(row, j) - shift);
    lse = shift + std::log(sum);
    grad.assign(static_cast<size_t>(logits.columns), 0);
    if (label < 0)
      return;
    auto at = static_cast<int64_t>(label);
    loss = lse - logits.get(row, at);
    for (int64_t j = 0; j < logits.columns; ++j)
      grad[static_cast<size_t>(j)] =
          seed * (std::exp(logits.get(row, j) - lse) - (j == at ? 1 : 0));
  }
};

struct Expected {
  std::vector<double> lse, grad;
  double loss = 0, count = 0;

  Expected(const Matrix &logits, const Matrix &labels, double seed) {
    for (int64_t i = 0; i < logits.rows; ++i) {
      Row row(logits, i, labels.get(i, 0), seed);
      lse.push_back(row.lse);
      grad.insert(grad.end(), row.grad.begin(), row.grad.end());
      loss += row.loss;
      count += labels.get(i, 0) >= 0 ? 1 : 0;
    }
  }
};

/// The three tasks on one set of logits. The gradient is in a matrix of its
/// own, or in the place of the logits.
struct Loss {
  Matrix seed, loss = Matrix(1, 1), count = Matrix(1, 1), lse;
  uint32_t processors = 4;
  uint64_t shuffle = 1;

  explicit Loss(const Matrix &logits, double scale = 1)
      : seed(Matrix::scalar(scale)), lse(1, logits.rows) {
    loss.asOut();
    count.asOut();
  }

  Task task(TaskKind kind, DType type, std::vector<Matrix *> views) {
    Task task{kind, type, type, std::move(views)};
    task.scratchBytes = static_cast<uint64_t>(lse.columns * 8);
    task.processors = processors;
    task.seed = shuffle;
    return task;
  }
  int forward(Matrix &logits, Matrix &labels) {
    lse.asOut();
    return task(TaskKind::CrossEntropy, logits.dtype,
                {&logits, &labels, &loss, &count, &lse})
        .run();
  }
  int backward(Matrix &logits, Matrix &labels, Matrix &grad) {
    lse.isOut = false;
    return task(TaskKind::CrossEntropyGrad, logits.dtype,
                {&seed, &logits, &labels, &lse, &grad})
        .run();
  }
  int both(Matrix &logits, Matrix &labels, Matrix &grad) {
    return task(TaskKind::CrossEntropyWithGrad, logits.dtype,
                {&seed, &logits, &labels, &loss, &count, &grad})
        .run();
  }
};

/// Labels within the vocabulary; every third row has none.
Matrix labelsFor(const Matrix &logits) {
  Matrix labels(logits.rows, 1, DType::I32);
  for (int64_t i = 0; i < logits.rows; ++i)
    labels.set(i, 0,
               i % 3 == 2 ? ignored
                          : static_cast<double>(i * 977 % logits.columns));
  return labels;
}

/// How near a gradient must be: one rounding, and the error of the fast
/// exponential and of lse.
void expectGrad(const Matrix &grad, const std::vector<double> &expected) {
  expectNear(grad, expected, rounding(grad.dtype) + 1e-5,
             grad.dtype == DType::F16 ? 6e-8 : 1e-9);
}

void expectAll(Matrix &logits, Matrix &labels) {
  Expected expected(logits, labels, 0.25);
  Matrix copy = logits;
  Loss with(logits, 0.25);
  ASSERT_EQ(with.forward(logits, labels), cudaSuccess);
  expectNear(with.lse, expected.lse, 1e-6, 1e-6);
  EXPECT_NEAR(with.loss.get(), expected.loss, 2e-6 * expected.loss + 1e-6);
  EXPECT_EQ(with.count.get(), expected.count);

  Matrix grad(logits.rows, logits.columns, logits.dtype);
  grad.asOut();
  ASSERT_EQ(with.backward(logits, labels, grad), cudaSuccess);
  expectGrad(grad, expected.grad);

  Loss fused(logits, 0.25);
  ASSERT_EQ(fused.both(logits, labels, logits), cudaSuccess);
  expectGrad(logits, expected.grad);
  EXPECT_TRUE(fused.loss.sameElements(with.loss));
  EXPECT_TRUE(fused.count.sameElements(with.count));
}

// All types, widths around vectors and warps, rows aligned or not.
TEST(DeviceCrossEntropy, AgreesWithDoubles) {
  for (DType type : floats)
    for (int64_t columns : {1, 7, 31, 33, 1023})
      for (int64_t before : {0, 1}) {
        Matrix logits(7, columns, type, before, before);
        logits.random(1, 3);
        Matrix labels = labelsFor(logits);
        expectAll(logits, labels);
      }
}

// A vocabulary of 128k entries, rows of which start anywhere.
TEST(DeviceCrossEntropy, TakesALargeVocabulary) {
  for (DType type : {DType::BF16, DType::F32}) {
    Matrix logits(2, 128003, type);
    logits.random(2, 4);
    Matrix labels(2, 1, DType::I32);
    labels.set(0, 0, 128002);
    labels.set(1, 0, 0);
    expectAll(logits, labels);
  }
}

// Logits and gradient that are aligned differently.
TEST(DeviceCrossEntropy, WritesAnywhere) {
  for (DType type : floats) {
    Matrix logits(3, 65, type), grad(3, 65, type, 2, 3);
    logits.random(3);
    Matrix labels = labelsFor(logits);
    Expected expected(logits, labels, 1);
    grad.asOut();
    Loss with(logits);
    ASSERT_EQ(with.both(logits, labels, grad), cudaSuccess);
    expectGrad(grad, expected.grad);
  }
}

// Without any label: no loss, no count, a gradient of zeros.
TEST(DeviceCrossEntropy, TakesRowsWithoutLabels) {
  Matrix logits(40, 100, DType::F16), labels(40, 1, DType::I32);
  logits.random(4);
  logits.set(3, 3, nan);
  labels.fill(ignored);
  Loss with(logits);
  ASSERT_EQ(with.both(logits, labels, logits), cudaSuccess);
  EXPECT_EQ(with.loss.get(), 0);
  EXPECT_EQ(with.count.get(), 0);
  EXPECT_EQ(logits.values(), std::vector<double>(4000, 0));
}

// Labels beyond the vocabulary take no part and read nothing there.
TEST(DeviceCrossEntropy, StaysWithinTheVocabulary) {
  Matrix logits(3, 16), labels(3, 1, DType::I32);
  logits.random(5);
  labels.set(0, 0, 16);
  labels.set(1, 0, -1);
  labels.set(2, 0, 2147483647);
  Loss with(logits);
  ASSERT_EQ(with.forward(logits, labels), cudaSuccess);
  EXPECT_EQ(with.count.get(), 0);
  ASSERT_EQ(with.both(logits, labels, logits), cudaSuccess);
  EXPECT_EQ(logits.values(), std::vector<double>(48, 0));
}

// Large logits do not overflow, nor do they lose the others' sum.
TEST(DeviceCrossEntropy, TakesExtremeLogits) {
  Matrix logits(4, 33), labels(4, 1, DType::I32);
  logits.random(6);
  logits.set(0, 5, 1e30);
  for (int64_t j = 0; j < 33; ++j) {
    logits.set(1, j, -1e30);
    logits.set(2, j, -3e38);
    logits.set(3, j, 1e-40);
  }
  labels.set(0, 0, 5);
  labels.set(1, 0, 1);
  Expected expected(logits, labels, 1);
  Loss with(logits);
  ASSERT_EQ(with.forward(logits, labels), cudaSuccess);
  expectNear(with.lse, expected.lse, 1e-6);
  ASSERT_EQ(with.both(logits, labels, logits), cudaSuccess);
  expectGrad(logits, [&] {
    // log(33) is lost beside 1e30, here as in every f32.
    for (int64_t j = 0; j < 66; ++j)
      if (j >= 33)
        expected.grad[static_cast<size_t>(j)] = j == 34 ? 0 : 1;
    for (int64_t j = 66; j < 99; ++j)
      expected.grad[static_cast<size_t>(j)] = j == 66 ? 0 : 1;
    return expected.grad;
  }());
}

// An infinite or NaN logit is seen in the loss and in lse.
TEST(DeviceCrossEntropy, SeesWhatIsNotFinite) {
  for (DType type : floats) {
    Matrix logits(4, 100, type), labels(4, 1, DType::I32);
    logits.random(7);
    logits.set(0, 99, infinity);
    logits.set(1, 50, nan);
    for (int64_t j = 0; j < 100; ++j)
      logits.set(2, j, -infinity);
    logits.set(3, 0, -infinity);
    labels.set(3, 0, 1);
    Loss with(logits);
    ASSERT_EQ(with.forward(logits, labels), cudaSuccess);
    EXPECT_EQ(with.lse.get(0, 0), infinity);
    EXPECT_TRUE(std::isnan(with.lse.get(0, 1)));
    EXPECT_EQ(with.lse.get(0, 2), -infinity);
    EXPECT_TRUE(std::isfinite(with.lse.get(0, 3)));
    EXPECT_TRUE(std::isnan(with.loss.get()));
    ASSERT_EQ(with.both(logits, labels, logits), cudaSuccess);
    EXPECT_TRUE(std::isnan(logits.get(0, 99)));
    EXPECT_TRUE(std::isnan(logits.get(1, 0)));
    EXPECT_EQ(logits.get(3, 0), 0);
  }
}

// Neither the number of processors nor the order of threads changes bits.
TEST(DeviceCrossEntropy, HasTheSameBitsEverywhere) {
  Matrix logits(40, 77, DType::BF16);
  logits.random(8);
  Matrix labels = labelsFor(logits), grads[2] = {logits, logits};
  Loss losses[2] = {Loss(logits), Loss(logits)};
  losses[1].processors = 1;
  losses[1].shuffle = 5;
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(losses[i].both(grads[i], labels, grads[i]), cudaSuccess);
  EXPECT_TRUE(losses[0].loss.sameElements(losses[1].loss));
  EXPECT_TRUE(grads[0].sameElements(grads[1]));
}

// No rows: no loss.
TEST(DeviceCrossEntropy, TakesNoRows) {
  Matrix logits(0, 50), labels(0, 1, DType::I32);
  Loss with(logits);
  ASSERT_EQ(with.both(logits, labels, logits), cudaSuccess);
  EXPECT_EQ(with.loss.get(), 0);
  EXPECT_EQ(with.count.get(), 0);
}

// Another number of labels, another shape of the gradient, or less scratch.
TEST(DeviceCrossEntropy, RefusesWhatDoesNotFit) {
  Matrix logits(4, 8), labels(4, 1, DType::I32), few(3, 1, DType::I32),
      narrow(4, 7);
  Loss with(logits);
  EXPECT_EQ(with.both(logits, few, logits), cudaErrorInvalidValue);
  EXPECT_EQ(with.both(logits, labels, narrow), cudaErrorInvalidValue);
  Loss small(Matrix(3, 1));
  EXPECT_EQ(small.both(logits, labels, logits), cudaErrorInvalidValue);
}

} // namespace
} // namespace ciuic::cuda::test
