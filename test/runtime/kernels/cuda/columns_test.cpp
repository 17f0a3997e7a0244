//===- columns_test.cpp - Sums over rows on the device --------------------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

uint64_t scratchFor(const Matrix &x) {
  return static_cast<uint64_t>(128 * x.columns * 4);
}

Task columnSum(Matrix &x, Matrix &out) {
  Task task{TaskKind::ColumnSum, x.dtype, out.dtype, {&x, &out}};
  task.scratchBytes = scratchFor(x);
  return task;
}

Task normWeightGrad(Matrix &dy, Matrix &x, Matrix &rstd, Matrix &out) {
  Task task{
      TaskKind::NormWeightGrad, x.dtype, out.dtype, {&dy, &x, &rstd, &out}};
  task.scratchBytes = scratchFor(x);
  return task;
}

std::vector<double> sums(const Matrix &x) {
  std::vector<double> result(static_cast<size_t>(x.columns));
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j)
      result[static_cast<size_t>(j)] += x.get(i, j);
  return result;
}

// Rows around slices and columns around tiles, all types, with gaps or not.
TEST(DeviceColumnSum, AgreesWithDoubles) {
  for (DType type : floats)
    for (int64_t rows : {0, 1, 31, 33, 1023})
      for (int64_t columns : {1, 31, 33, 264})
        for (int64_t gap : {0, 8}) {
          Matrix x(rows, columns, type, gap), out(1, columns, DType::F32);
          x.random(1);
          out.asOut();
          ASSERT_EQ(columnSum(x, out).run(), cudaSuccess);
          expectNear(out, sums(x), 1e-6, 1e-4);
        }
}

// More rows than the slices' least share.
TEST(DeviceColumnSum, SharesManyRows) {
  Matrix x(9001, 40, DType::BF16), out(1, 40, DType::BF16);
  x.random(2);
  out.asOut();
  ASSERT_EQ(columnSum(x, out).run(), cudaSuccess);
  expectNear(out, sums(x), rounding(DType::BF16), 1e-3);
}

// The order is of the shape alone.
TEST(DeviceColumnSum, HasTheSameBitsEverywhere) {
  Matrix x(700, 72, DType::F16), one(1, 72), many(1, 72);
  x.random(3);
  Task first = columnSum(x, one), second = columnSum(x, many);
  first.processors = 1;
  second.processors = 132;
  second.seed = 9;
  ASSERT_EQ(first.run(), cudaSuccess);
  ASSERT_EQ(second.run(), cudaSuccess);
  EXPECT_TRUE(one.sameElements(many));
}

// What is not finite stays in its column.
TEST(DeviceColumnSum, KeepsColumnsApart) {
  Matrix x(65, 40, DType::BF16), out(1, 40);
  x.fill(1);
  x.set(64, 7, infinity);
  x.set(3, 8, nan);
  x.set(1, 9, 1e30);
  ASSERT_EQ(columnSum(x, out).run(), cudaSuccess);
  std::vector<double> expected(40, 65);
  expected[7] = infinity;
  expected[8] = nan;
  expected[9] = x.get(1, 9);
  expectNear(out, expected, 1e-6);
}

// Scratch for fewer slices than there are is refused.
TEST(DeviceColumnSum, RefusesTooLittleScratch) {
  Matrix x(100, 16), out(1, 16);
  Task task = columnSum(x, out);
  task.scratchBytes = 4 * 16 * 4 - 1;
  EXPECT_EQ(task.run(), cudaErrorInvalidValue);
  task.scratchBytes = 4 * 16 * 4;
  EXPECT_EQ(task.run(), cudaSuccess);
}

// Sums of dy * x * rstd, all types, odd shapes, rows aligned or not.
TEST(DeviceNormWeightGrad, AgreesWithDoubles) {
  for (DType type : floats)
    for (int64_t rows : {1, 33, 257})
      for (int64_t columns : {1, 31, 64, 264})
        for (int64_t before : {0, 1}) {
          Matrix dy(rows, columns, type, before, before),
              x(rows, columns, type), rstd(1, rows), out(1, columns, type);
          dy.random(4);
          x.random(5);
          rstd.random(6);
          out.asOut();
          ASSERT_EQ(normWeightGrad(dy, x, rstd, out).run(), cudaSuccess);
          std::vector<double> expected(static_cast<size_t>(columns));
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j)
              expected[static_cast<size_t>(j)] +=
                  dy.get(i, j) * x.get(i, j) * rstd.get(0, i);
          expectNear(out, expected, rounding(type) + 1e-6, 1e-4);
        }
}

// Shapes that do not belong together are refused.
TEST(DeviceNormWeightGrad, RefusesOtherShapes) {
  Matrix dy(4, 8), x(4, 8), rstd(1, 4), out(1, 8);
  Matrix narrow(4, 7), few(1, 3), half(4, 8, DType::F16);
  EXPECT_EQ(normWeightGrad(dy, x, rstd, out).run(), cudaSuccess);
  EXPECT_EQ(normWeightGrad(narrow, x, rstd, out).run(), cudaErrorInvalidValue);
  EXPECT_EQ(normWeightGrad(dy, x, few, out).run(), cudaErrorInvalidValue);
  Task mixed = normWeightGrad(half, x, rstd, out);
  EXPECT_EQ(mixed.run(), cudaErrorInvalidValue);
}

} // namespace
} // namespace ciuic::cuda::test
