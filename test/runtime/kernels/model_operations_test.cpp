//===- model_operations_test.cpp - Embedding and the loss -----------------===//
#include "test/runtime/OperationHarness.h"

namespace ciuic::rt::test {
namespace {

constexpr DType types[] = {DType::F32, DType::F16, DType::BF16};

/// Ids below `limit` that repeat and leave some out.
Matrix ids(int64_t rows, int64_t limit) {
  Matrix all(1, rows, DType::I32);
  for (int64_t i = 0; i < rows; ++i)
    all.set(0, i, static_cast<double>((i * i + 3) % limit));
  return all;
}

// Each token's row is copied.
TEST(EmbeddingTest, LooksUpRows) {
  for (DType dtype : types) {
    Matrix tokens = ids(33, 17), table(17, 31, dtype), out(33, 31, dtype);
    table.random(1);
    EXPECT_OK((TaskRun{.kind = TaskKind::Embedding,
                       .views = {tokens.tensor(), table.tensor(), out.tensor()}}
                   .run()));
    for (int64_t i = 0; i < 33; ++i)
      for (int64_t j = 0; j < 31; ++j)
        ASSERT_EQ(out.get(i, j),
                  table.get(static_cast<int64_t>(tokens.get(0, i)), j));
  }
}

// A token outside the vocabulary fails with its row and the bounds.
TEST(EmbeddingTest, RefusesUnknownTokens) {
  Matrix tokens = ids(9, 5), table(5, 4), out(9, 4);
  for (int64_t bad : {-1, 5, 2000000000}) {
    tokens.set(0, 7, static_cast<double>(bad));
    Status status =
        TaskRun{.kind = TaskKind::Embedding,
                .views = {tokens.tensor(), table.tensor(), out.tensor()}}
            .run();
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_NE(status.str().find("row 7"), std::string::npos) << status.str();
  }
}

Status embeddingGrad(Matrix &dy, Matrix &tokens, Matrix &out, bool add,
                     int threads = 2) {
  return TaskRun{.kind = TaskKind::EmbeddingGrad,
                 .views = {dy.tensor(), tokens.tensor(), out.tensor()},
                 .ints = {add},
                 .threads = threads}
      .run(2);
}

// Rows of one token are summed in f32 in rising order; unused rows become
// zero. Running it twice gives the same.
TEST(EmbeddingTest, GradientSumsRows) {
  for (DType dtype : types)
    for (int64_t columns : {1, 33, 700}) {
      Matrix tokens = ids(101, 13), dy(101, columns, dtype),
             out(13, columns, dtype), expected(13, columns, dtype);
      dy.random(1);
      out.fill(NAN);
      for (int64_t v = 0; v < 13; ++v)
        for (int64_t j = 0; j < columns; ++j) {
          float sum = 0;
          for (int64_t i = 0; i < 101; ++i)
            if (tokens.get(0, i) == static_cast<double>(v))
              sum += static_cast<float>(dy.get(i, j));
          expected.set(v, j, sum);
        }
      EXPECT_OK(embeddingGrad(dy, tokens, out, false));
      EXPECT_EQ(out.values(), expected.values());
    }
}

// With `accumulate` it adds to what is there, and leaves unused rows alone.
TEST(EmbeddingTest, GradientAccumulates) {
  Matrix tokens = ids(4, 3), dy(4, 2), out(9, 2);
  dy.fill(1);
  out.fill(10);
  EXPECT_OK((TaskRun{.kind = TaskKind::EmbeddingGrad,
                     .views = {dy.tensor(), tokens.tensor(), out.tensor()},
                     .ints = {1}}
                 .run()));
  EXPECT_EQ(out.get(8, 1), 10);
  double sum = 0;
  for (double value : out.values())
    sum += value;
  EXPECT_EQ(sum, 18 * 10 + 8);
}

// The number of threads does not change a bit.
TEST(EmbeddingTest, SameBitsOnAnyThreads) {
  Matrix tokens = ids(1023, 97), dy(1023, 130), one(97, 130), two(97, 130);
  dy.random(1);
  EXPECT_OK(embeddingGrad(dy, tokens, one, false, 1));
  EXPECT_OK(embeddingGrad(dy, tokens, two, false, 2));
  EXPECT_TRUE(one.sameBits(two));
}

struct Loss {
  Loss(int64_t rows, int64_t columns, DType dtype)
      : logits(rows, columns, dtype), labels(ids(rows, columns)), loss(1, 1),
        count(1, 1), lse(1, rows), seed(1, 1), grad(rows, columns, dtype) {
    logits.random(1, 3);
    seed.set(0, 0, 0.125);
  }
  Status forward(int threads = 2) {
    return TaskRun{.kind = TaskKind::CrossEntropy,
                   .views = {logits.tensor(), labels.tensor(), loss.tensor(),
                             count.tensor(), lse.tensor()},
                   .threads = threads}
        .run();
  }
  Status backward(Matrix &to) {
    return TaskRun{.kind = TaskKind::CrossEntropyGrad,
                   .views = {seed.tensor(), logits.tensor(), labels.tensor(),
                             lse.tensor(), to.tensor()}}
        .run();
  }
  double logSum(int64_t row) const {
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < logits.columns; ++j)
      top = std::max(top, logits.get(row, j));
    for (int64_t j = 0; j < logits.columns; ++j)
      sum += std::exp(logits.get(row, j) - top);
    return top + std::log(sum);
  }
  Matrix logits, labels, loss, count, lse, seed, grad;
};

// Loss, count and gradient are the formulas; ignored rows count for nothing.
TEST(CrossEntropyTest, MatchesFormula) {
  for (DType dtype : types)
    for (int64_t columns : {1, 31, 257, 1023}) {
      Loss l(33, columns, dtype);
      l.labels.set(0, 4, -100);
      l.labels.set(0, 32, -100);
      double expected = 0;
      std::vector<double> grad;
      for (int64_t i = 0; i < 33; ++i) {
        auto label = static_cast<int64_t>(l.labels.get(0, i));
        double log = l.logSum(i);
        if (label >= 0)
          expected += log - l.logits.get(i, label);
        for (int64_t j = 0; j < columns; ++j)
          grad.push_back(label < 0
                             ? 0
                             : 0.125 * (std::exp(l.logits.get(i, j) - log) -
                                        (j == label)));
      }
      EXPECT_OK(l.forward());
      EXPECT_OK(l.backward(l.grad));
      EXPECT_NEAR(l.loss.get(0, 0), expected, 1e-5 * expected + 1e-5);
      EXPECT_EQ(l.count.get(0, 0), 31);
      EXPECT_LE(relativeError(l.grad.values(), grad), 5 * tolerance(dtype));
      // In the place of the logits it is the same.
      EXPECT_OK(l.backward(l.logits));
      EXPECT_EQ(l.logits.values(), l.grad.values());
    }
}

// Where all labels are ignored loss, count and gradient are zero.
TEST(CrossEntropyTest, AllIgnored) {
  Loss l(5, 7, DType::F32);
  l.labels.fill(-100);
  l.grad.fill(NAN);
  EXPECT_OK(l.forward());
  EXPECT_OK(l.backward(l.grad));
  EXPECT_EQ(l.loss.get(0, 0), 0);
  EXPECT_EQ(l.count.get(0, 0), 0);
  EXPECT_EQ(l.grad.values(), std::vector<double>(35, 0.0));
}

// inf and NaN logits reach the loss and the gradient.
TEST(CrossEntropyTest, NonFiniteValuesSurvive) {
  for (double bad : {double(NAN), double(INFINITY)}) {
    Loss l(5, 70, DType::F16);
    l.logits.set(2, 69, bad);
    EXPECT_OK(l.forward());
    EXPECT_OK(l.backward(l.grad));
    EXPECT_FALSE(std::isfinite(l.loss.get(0, 0)));
    EXPECT_FALSE(std::isfinite(l.grad.get(2, 69)));
    EXPECT_TRUE(std::isfinite(l.grad.get(1, 69)));
  }
}

// Labels other than -100 must be in the vocabulary.
TEST(CrossEntropyTest, RefusesUnknownLabels) {
  Loss l(5, 7, DType::F32);
  for (int64_t bad : {-1, -101, 7}) {
    l.labels.set(0, 3, static_cast<double>(bad));
    Status status = l.forward();
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_NE(status.str().find("label of row 3"), std::string::npos);
    EXPECT_EQ(l.backward(l.grad).code(), Code::Invalid);
  }
}

// The number of threads does not change a bit.
TEST(CrossEntropyTest, SameBitsOnAnyThreads) {
  Loss one(200, 1023, DType::BF16), two(200, 1023, DType::BF16);
  EXPECT_OK(one.forward(1));
  EXPECT_OK(two.forward(2));
  EXPECT_TRUE(one.loss.sameBits(two.loss) && one.lse.sameBits(two.lse));
}

} // namespace
} // namespace ciuic::rt::test
