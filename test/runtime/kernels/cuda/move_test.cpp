//===- move_test.cpp - Copies, zeros and accumulation on the device -------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

Task copy(Matrix &from, Matrix &to) {
  return {TaskKind::Copy, from.dtype, to.dtype, {&from, &to}};
}

/// What a copy must leave in `to`: each element rounded once.
void expectCopied(const Matrix &from, const Matrix &to) {
  Matrix expected(to.rows, to.columns, to.dtype);
  for (int64_t i = 0; i < from.rows * from.columns; ++i)
    expected.set(i / to.columns, i % to.columns,
                 from.get(i / from.columns, i % from.columns));
  EXPECT_TRUE(to.sameElements(expected));
}

// Every pair of types converts as the host does, at sizes with tails.
TEST(DeviceCopy, ConvertsBetweenFloats) {
  for (DType from : floats)
    for (DType to : floats)
      for (int64_t n : oddSizes) {
        Matrix x(1, n, from), y(1, n, to);
        x.random(1, 100);
        y.asOut();
        ASSERT_EQ(copy(x, y).run(), cudaSuccess);
        expectCopied(x, y);
      }
}

// Values at the ends of the types' ranges: ties, overflow, subnormals.
TEST(DeviceCopy, ConvertsExtremes) {
  const double values[] = {0,    -0.0,  1e30,    -1e30,    infinity, -infinity,
                           nan,  65504, 65519,   65520,    6e-8,     3e-8,
                           2e-8, 1e-40, 1.00391, 1.001953, 3.4e38,   2049};
  for (DType from : floats)
    for (DType to : floats) {
      Matrix x(1, std::size(values), from), y(1, std::size(values), to);
      for (size_t i = 0; i < std::size(values); ++i)
        x.set(0, static_cast<int64_t>(i), values[i]);
      y.asOut();
      ASSERT_EQ(copy(x, y).run(), cudaSuccess);
      expectNear(
          y,
          [&] {
            Matrix expected(1, x.columns, to);
            for (int64_t i = 0; i < x.columns; ++i)
              expected.set(0, i, x.get(0, i));
            return expected.values();
          }(),
          0);
    }
}

// Whole numbers and doubles are moved as they are.
TEST(DeviceCopy, MovesOtherTypes) {
  for (DType type : {DType::I32, DType::F64})
    for (int64_t n : oddSizes) {
      Matrix x(1, n, type), y(1, n, type);
      x.random(2, 1e6);
      y.asOut();
      ASSERT_EQ(copy(x, y).run(), cudaSuccess);
      EXPECT_TRUE(y.sameElements(x));
    }
}

// Rows with gaps, aligned for vectors or not, leave the gaps alone.
TEST(DeviceCopy, KeepsWhatIsBetweenRows) {
  for (int64_t gap : {1, 16})
    for (int64_t before : {0, 1, 4}) {
      Matrix x(5, 48, DType::F32, 16), y(5, 48, DType::BF16, gap, before);
      x.random(3);
      y.asOut();
      ASSERT_EQ(copy(x, y).run(), cudaSuccess);
      expectCopied(x, y);
    }
}

// One long row and a matrix of as many elements are the same place.
TEST(DeviceCopy, ReshapesWhatHasNoGaps) {
  Matrix x(6, 35), y(1, 210);
  x.random(4);
  y.asOut();
  ASSERT_EQ(copy(x, y).run(), cudaSuccess);
  expectCopied(x, y);
}

// More elements than the threads of the device: threads go round.
TEST(DeviceCopy, GoesRoundWhenTheGridIsFull) {
  Matrix x(1, 40001, DType::BF16), y(1, 40001, DType::F32);
  x.random(5);
  y.asOut();
  Task task = copy(x, y);
  task.processors = 1;
  ASSERT_EQ(task.run(), cudaSuccess);
  expectCopied(x, y);
}

// Nothing to copy is not an error.
TEST(DeviceCopy, TakesEmptyShards) {
  Matrix x(1, 0), y(1, 0, DType::F16);
  EXPECT_EQ(copy(x, y).run(), cudaSuccess);
}

// A skipped task leaves its output as it was.
TEST(DeviceCopy, DoesNothingWhenSkipped) {
  Matrix x(1, 100), y(1, 100);
  x.random(6);
  y.fill(3);
  Task task = copy(x, y);
  task.skip = 1;
  ASSERT_EQ(task.run(), cudaSuccess);
  EXPECT_EQ(y.values(), std::vector<double>(100, 3));
}

// A copy onto itself has nothing to do.
TEST(DeviceCopy, MayBeOntoItself) {
  Matrix x(4, 9, DType::BF16, 2);
  x.random(7);
  std::vector<double> before = x.values();
  EXPECT_EQ(copy(x, x).run(), cudaSuccess);
  EXPECT_EQ(x.values(), before);
}

// A wrong type, shape or gap within a row is refused.
TEST(DeviceCopy, RefusesWhatDoesNotFit) {
  Matrix x(2, 8), shorter(2, 7), y(4, 4, DType::F32, 1), half(2, 8, DType::F16);
  EXPECT_EQ(copy(x, shorter).run(), cudaErrorInvalidValue);
  EXPECT_EQ(copy(x, y).run(), cudaErrorInvalidValue);
  Task wrong = copy(x, half);
  wrong.second = DType::BF16;
  EXPECT_EQ(wrong.run(), cudaErrorInvalidValue);
  Task few = copy(x, half);
  few.views.pop_back();
  EXPECT_EQ(few.run(), cudaErrorInvalidValue);
}

// Zeros of every type, between what must stay.
TEST(DeviceZero, ClearsEveryType) {
  for (DType type :
       {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32})
    for (int64_t gap : {0, 1, 8})
      for (int64_t columns : {0, 1, 31, 160}) {
        Matrix x(3, columns, type, gap);
        x.fill(7);
        x.asOut();
        Task task{TaskKind::Zero, type, type, {&x}};
        ASSERT_EQ(task.run(), cudaSuccess);
        EXPECT_EQ(x.values(),
                  std::vector<double>(static_cast<size_t>(3 * columns), 0));
      }
}

// out = x and out += x, from every type, aligned or not.
TEST(DeviceAccumulate, SetsAndAdds) {
  for (DType type : floats)
    for (bool add : {false, true})
      for (int64_t before : {0, 1})
        for (int64_t n : oddSizes) {
          Matrix x(2, n, type, before), out(2, n, DType::F32, 3, before);
          x.random(8);
          out.random(9);
          std::vector<double> expected = x.values(), old = out.values();
          for (size_t i = 0; add && i < expected.size(); ++i)
            expected[i] = static_cast<float>(expected[i] + old[i]);
          if (!add)
            out.asOut();
          Task task{TaskKind::Accumulate, type, DType::F32, {&x, &out}, {add}};
          ASSERT_EQ(task.run(), cudaSuccess);
          EXPECT_EQ(out.values(), expected);
        }
}

// Infinities add up, and opposite ones give NaN.
TEST(DeviceAccumulate, PassesOnInfinities) {
  Matrix x(1, 3, DType::BF16), out(1, 3);
  x.fill(infinity);
  out.set(0, 1, -infinity);
  out.set(0, 2, nan);
  Task task{TaskKind::Accumulate, x.dtype, DType::F32, {&x, &out}, {1}};
  ASSERT_EQ(task.run(), cudaSuccess);
  expectNear(out, {infinity, nan, nan}, 0);
}

} // namespace
} // namespace ciuic::cuda::test
