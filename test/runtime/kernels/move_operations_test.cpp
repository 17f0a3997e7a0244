//===- move_operations_test.cpp - Copies, sums, reductions ----------------===//
#include "test/runtime/OperationHarness.h"

#include <atomic>

namespace ciuic::rt::test {
namespace {

constexpr DType types[] = {DType::F32, DType::F16, DType::BF16};
constexpr int64_t sizes[] = {1, 31, 33, 1023, 70001};

Status copy(Matrix &from, Matrix &to) {
  return TaskRun{.kind = TaskKind::Copy, .views = {from.tensor(), to.tensor()}}
      .run();
}

// A copy to another type rounds each element once.
TEST(MoveOperationsTest, CopyConverts) {
  for (DType from : types)
    for (DType to : types)
      for (int64_t n : sizes) {
        Matrix x(1, n, from), y(1, n, to), rounded(1, n, to);
        x.random(1);
        for (int64_t i = 0; i < n; ++i)
          rounded.set(0, i, x.get(0, i));
        EXPECT_OK(copy(x, y));
        EXPECT_EQ(y.values(), rounded.values()) << n;
      }
}

// Rows with gaps are copied row by row, and nothing between them is written.
TEST(MoveOperationsTest, CopyLeavesGaps) {
  Matrix x(33, 31, DType::F32, 2), y(33, 31, DType::F32, 5);
  x.random(1);
  Matrix untouched(33, 36, DType::F32);
  EXPECT_OK(copy(x, y));
  EXPECT_EQ(x.values(), y.values());
  Tensor whole = y.tensor();
  for (int64_t i = 0; i < 33; ++i)
    for (int64_t j = 31; j < 36; ++j)
      EXPECT_EQ(whole.as<float>()[i * 36 + j], 0.0f);
}

// Counters are copied as they are, and not converted.
TEST(MoveOperationsTest, CopyIntegers) {
  Matrix x(1, 3, DType::I32), y(1, 3, DType::I32), z(1, 3);
  x.set(0, 1, -100);
  EXPECT_OK(copy(x, y));
  EXPECT_EQ(y.get(0, 1), -100);
  EXPECT_EQ(copy(x, z).code(), Code::Invalid);
}

// A copy between halves of one matrix is fine, one onto what it reads is not.
TEST(MoveOperationsTest, CopyRefusesOverlap) {
  Matrix x(5, 8);
  x.random(1);
  Tensor left = x.tensor(), right = x.tensor();
  left.shape[1] = right.shape[1] = 4;
  right.data = right.as<float>() + 4;
  auto run = [](const Tensor &from, const Tensor &to) {
    return TaskRun{.kind = TaskKind::Copy, .views = {from, to}}.run();
  };
  EXPECT_OK(run(left, right));
  EXPECT_EQ(x.get(4, 7), x.get(4, 3));
  EXPECT_OK(run(right, left));
  EXPECT_OK(run(left, left));
  right.data = right.as<float>() - 1;
  EXPECT_EQ(run(left, right).code(), Code::Invalid);
  EXPECT_EQ(run(right, left).code(), Code::Invalid);
}

// Zero clears every element and no more.
TEST(MoveOperationsTest, Zero) {
  Matrix x(31, 33, DType::BF16, 3);
  x.random(1);
  Tensor only = x.tensor();
  only.shape[0] = 30;
  EXPECT_OK((TaskRun{.kind = TaskKind::Zero, .views = {only}}.run()));
  EXPECT_EQ(x.get(29, 32), 0);
  EXPECT_NE(x.get(30, 0), 0);
}

// The first accumulation sets, later ones add in f32.
TEST(MoveOperationsTest, Accumulate) {
  for (DType dtype : types) {
    Matrix x(31, 33, dtype), sum(31, 33);
    x.random(1);
    sum.fill(NAN);
    auto run = [&](int64_t add) {
      return TaskRun{.kind = TaskKind::Accumulate,
                     .views = {x.tensor(), sum.tensor()},
                     .ints = {add}}
          .run();
    };
    EXPECT_OK(run(0));
    EXPECT_EQ(sum.values(), x.values());
    EXPECT_OK(run(1));
    EXPECT_EQ(sum.get(30, 32), 2 * x.get(30, 32));
  }
}

double squareSum(Matrix &x, int threads = 2) {
  Matrix out(1, 1, DType::F64);
  EXPECT_OK((TaskRun{.kind = TaskKind::SquareSum,
                     .views = {x.tensor(), out.tensor()},
                     .threads = threads}
                 .run()));
  return out.get(0, 0);
}

// Sums of squares are taken in double, in an order that threads do not change.
TEST(MoveOperationsTest, SquareSum) {
  for (DType dtype : types)
    for (int64_t n : sizes) {
      Matrix x(1, n, dtype);
      double expected = 0;
      for (double value : x.random(1).values())
        expected += value * value;
      EXPECT_NEAR(squareSum(x), expected, 1e-12 * expected);
      EXPECT_EQ(squareSum(x, 1), squareSum(x, 2));
    }
}

// Finite values whose squares overflow f32 have a finite sum; inf and NaN are
// seen wherever they are.
TEST(MoveOperationsTest, SquareSumSeesNonFinite) {
  Matrix x(1, 1023);
  x.fill(1e30);
  EXPECT_TRUE(std::isfinite(squareSum(x)));
  for (int64_t at : {0, 500, 1022}) {
    Matrix bad(1, 1023, DType::F16);
    bad.set(0, at, INFINITY);
    EXPECT_EQ(squareSum(bad), INFINITY);
    bad.set(0, at, NAN);
    EXPECT_TRUE(std::isnan(squareSum(bad)));
  }
}

// Slots are added in order.
TEST(MoveOperationsTest, SumSlots) {
  Matrix x(1, 31, DType::F64), out(1, 1, DType::F64);
  double expected = 0;
  for (double value : x.random(1).values())
    expected += value;
  EXPECT_OK(
      (TaskRun{.kind = TaskKind::SumSlots, .views = {x.tensor(), out.tensor()}}
           .run()));
  EXPECT_EQ(out.get(0, 0), expected);
}

// Column sums, for widths on either side of a block and for gaps.
TEST(MoveOperationsTest, ColumnSum) {
  for (DType dtype : types)
    for (int64_t n : {1, 31, 64, 65, 200}) {
      Matrix x(1023, n, dtype, 1), out(1, n, dtype);
      x.random(1);
      std::vector<double> expected(static_cast<size_t>(n));
      for (int64_t i = 0; i < 1023; ++i)
        for (int64_t j = 0; j < n; ++j)
          expected[static_cast<size_t>(j)] += x.get(i, j);
      EXPECT_OK((TaskRun{.kind = TaskKind::ColumnSum,
                         .views = {x.tensor(), out.tensor()}}
                     .run()));
      EXPECT_LE(relativeError(out.values(), expected), tolerance(dtype));
    }
}

// The gradient of a norm's weight: sum of dy * x * rstd over rows.
TEST(MoveOperationsTest, NormWeightGrad) {
  for (DType dtype : types)
    for (int64_t rows : {1, 63, 130}) {
      Matrix dy(rows, 33, dtype), x(rows, 33, dtype), rstd(1, rows),
          out(1, 33, dtype);
      dy.random(1);
      x.random(2);
      rstd.random(3);
      std::vector<double> expected(33);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < 33; ++j)
          expected[static_cast<size_t>(j)] +=
              dy.get(i, j) * x.get(i, j) * rstd.get(0, i);
      EXPECT_OK((TaskRun{
          .kind = TaskKind::NormWeightGrad,
          .views = {dy.tensor(), x.tensor(), rstd.tensor(), out.tensor()}}
                     .run()));
      EXPECT_LE(relativeError(out.values(), expected), tolerance(dtype));
    }
}

// An emitted kernel gets every row once, in pieces of its grain.
TEST(MoveOperationsTest, Launch) {
  Matrix counts(1, 1000, DType::F32);
  Tensor tensor = counts.tensor();
  Workspace workspace;
  TaskArguments arguments;
  arguments.kind = TaskKind::Launch;
  arguments.views = {&tensor, 1};
  int64_t ints[] = {1000, 7};
  arguments.ints = ints;
  arguments.kernel = [](int64_t begin, int64_t end, void *const *pointers) {
    EXPECT_LE(end - begin, 7);
    for (int64_t i = begin; i < end; ++i)
      static_cast<float *>(pointers[0])[i] += 1;
  };
  auto operation = makeOperation(arguments);
  ASSERT_TRUE(operation.ok());
  EXPECT_OK((*operation)->run());
  EXPECT_EQ(counts.values(), std::vector<double>(1000, 1.0));
}

} // namespace
} // namespace ciuic::rt::test
