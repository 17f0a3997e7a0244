//===- sums_test.cpp - Sums of squares and of slots on the device ---------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

constexpr uint64_t scratchBytes = 1024 * 8;

struct SquareSum {
  int status;
  Matrix out = Matrix(1, 1, DType::F64);

  explicit SquareSum(Matrix &x, uint32_t processors = 4,
                     uint64_t scratch = scratchBytes, uint64_t seed = 1) {
    out.asOut();
    Task task{TaskKind::SquareSum, x.dtype, DType::F64, {&x, &out}};
    task.processors = processors;
    task.scratchBytes = scratch;
    task.seed = seed;
    status = task.run();
  }
};

double expectedSquareSum(const Matrix &x) {
  double sum = 0;
  for (double value : x.values())
    sum += value * value;
  return sum;
}

// Every type, sizes with tails, rows with and without gaps.
TEST(DeviceSquareSum, AgreesWithDoubles) {
  for (DType type : floats)
    for (int64_t gap : {0, 1})
      for (int64_t columns : oddSizes) {
        Matrix x(3, columns, type, gap);
        x.random(1);
        SquareSum sum(x);
        ASSERT_EQ(sum.status, cudaSuccess);
        double expected = expectedSquareSum(x);
        EXPECT_NEAR(sum.out.get(), expected, 1e-13 * expected);
      }
}

// Of more elements than blocks take in one turn.
TEST(DeviceSquareSum, AddsManyParts) {
  Matrix x(1, 300001, DType::BF16);
  x.random(2);
  SquareSum sum(x);
  ASSERT_EQ(sum.status, cudaSuccess);
  double expected = expectedSquareSum(x);
  EXPECT_NEAR(sum.out.get(), expected, 1e-13 * expected);
}

// The order is of the shape alone: neither processors nor timing change bits.
TEST(DeviceSquareSum, HasTheSameBitsEverywhere) {
  Matrix x(1, 50003);
  x.random(3, 1e10);
  SquareSum one(x, 1), many(x, 132, scratchBytes, 5);
  EXPECT_TRUE(one.out.sameElements(many.out));
}

// 1e30 squared is beyond f32 but not beyond the sum; subnormals count.
TEST(DeviceSquareSum, TakesExtremeValues) {
  Matrix large(1, 33);
  large.fill(1e30);
  double exact = large.get(0, 0) * large.get(0, 0) * 33;
  EXPECT_NEAR(SquareSum(large).out.get(), exact, 1e-13 * exact);
  Matrix small(1, 33);
  small.fill(1e-40);
  double tiny = small.get(0, 0) * small.get(0, 0) * 33;
  EXPECT_NEAR(SquareSum(small).out.get(), tiny, 1e-13 * tiny);
}

// One infinity or NaN anywhere is seen in the sum.
TEST(DeviceSquareSum, SeesWhatIsNotFinite) {
  for (DType type : floats)
    for (int64_t at : {0, 511, 1022}) {
      Matrix x(1, 1023, type);
      x.random(4);
      x.set(0, at, -infinity);
      EXPECT_EQ(SquareSum(x).out.get(), infinity);
      x.set(0, at, nan);
      EXPECT_TRUE(std::isnan(SquareSum(x).out.get()));
    }
}

// A rank without elements has the sum 0, even without scratch.
TEST(DeviceSquareSum, IsZeroOfAnEmptyShard) {
  Matrix x(1, 0, DType::BF16);
  SquareSum sum(x, 4, 0);
  ASSERT_EQ(sum.status, cudaSuccess);
  EXPECT_EQ(sum.out.get(), 0);
}

// Too little scratch is refused before anything runs.
TEST(DeviceSquareSum, RefusesTooLittleScratch) {
  Matrix x(1, 300001);
  EXPECT_EQ(SquareSum(x, 4, 16).status, cudaErrorInvalidValue);
}

Task sumSlots(Matrix &x, Matrix &out) {
  return {TaskKind::SumSlots, DType::F64, DType::F64, {&x, &out}};
}

// The bits of a plain loop, also where the order matters.
TEST(DeviceSumSlots, AddsInOrder) {
  for (int64_t n : {0, 1, 31, 255, 256, 257, 1000}) {
    Matrix x(1, n, DType::F64), out(1, 1, DType::F64);
    x.random(5);
    if (n > 2) {
      x.set(0, 0, 1e300);
      x.set(0, n / 2, -1e300);
    }
    out.asOut();
    ASSERT_EQ(sumSlots(x, out).run(), cudaSuccess);
    double sum = 0;
    for (double value : x.values())
      sum += value;
    EXPECT_EQ(out.get(), sum);
  }
}

// More rows than one are not slots.
TEST(DeviceSumSlots, RefusesMatrices) {
  Matrix x(2, 3, DType::F64), out(1, 1, DType::F64);
  EXPECT_EQ(sumSlots(x, out).run(), cudaErrorInvalidValue);
}

} // namespace
} // namespace ciuic::cuda::test
