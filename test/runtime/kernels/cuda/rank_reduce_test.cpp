//===- rank_reduce_test.cpp - Reductions of ranks on one device -----------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

/// Runs a reduction of `inputs` to `out`, or to the place of input `inPlace`.
int reduce(std::vector<Matrix> &inputs, Matrix &out, bool mean,
           int inPlace = -1) {
  onhost::configure({});
  std::vector<std::unique_ptr<DeviceBytes>> places;
  std::vector<const void *> pointers;
  for (Matrix &input : inputs) {
    places.push_back(std::make_unique<DeviceBytes>(input.bytes()));
    input.upload(places.back()->data);
    pointers.push_back(places.back()->data + input.at(0, 0));
  }
  DeviceBytes own(out.bytes());
  char *place =
      inPlace < 0 ? own.data : places[static_cast<size_t>(inPlace)]->data;
  if (inPlace < 0)
    out.upload(place);
  int status = reduceLauncher()(
      out.dtype, pointers.data(), static_cast<uint32_t>(inputs.size()),
      place + out.at(0, 0), static_cast<uint64_t>(out.columns), mean, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  if (status == cudaSuccess)
    out.download(place);
  for (const std::string &report : onhost::takeReports())
    ADD_FAILURE() << report;
  return status;
}

std::vector<Matrix> inputsOf(size_t ranks, int64_t n, DType dtype,
                             int64_t before = 0) {
  std::vector<Matrix> inputs;
  for (size_t rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(1, n, dtype, 0, before);
    inputs.back().random(rank, dtype == DType::I32 ? 1e6 : 1);
  }
  return inputs;
}

/// The plain loop: in f32, in f64 for doubles, in rank order.
Matrix expectedOf(const std::vector<Matrix> &inputs, const Matrix &like,
                  bool mean) {
  Matrix result = like;
  double factor = mean ? 1.0 / static_cast<double>(inputs.size()) : 1.0;
  for (int64_t i = 0; i < like.columns; ++i) {
    double wide = inputs[0].get(0, i);
    auto single = static_cast<float>(wide);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      wide += inputs[rank].get(0, i);
      single += static_cast<float>(inputs[rank].get(0, i));
    }
    bool isWide = like.dtype == DType::F64 || like.dtype == DType::I32;
    result.set(0, i,
               isWide ? wide * factor : single * static_cast<float>(factor));
  }
  return result;
}

// Every type, sizes with tails, aligned or not, one rank to eight.
TEST(DeviceRankReduce, HasTheBitsOfAPlainLoop) {
  for (DType dtype :
       {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32})
    for (size_t ranks : {1, 2, 5, 8})
      for (int64_t n : oddSizes) {
        bool mean = n % 4 == 3 && dtype != DType::I32;
        int64_t before = n == 33 ? 1 : 0;
        std::vector<Matrix> inputs = inputsOf(ranks, n, dtype, before);
        Matrix out(1, n, dtype, 0, before);
        out.asOut();
        Matrix expected = expectedOf(inputs, out, mean);
        ASSERT_EQ(reduce(inputs, out, mean), cudaSuccess);
        EXPECT_TRUE(out.sameElements(expected));
      }
}

// The result may take the place of an input.
TEST(DeviceRankReduce, WorksInPlace) {
  for (int rank : {0, 2}) {
    std::vector<Matrix> inputs = inputsOf(3, 1000, DType::BF16);
    Matrix out(1, 1000, DType::BF16);
    Matrix expected = expectedOf(inputs, out, true);
    ASSERT_EQ(reduce(inputs, out, true, rank), cudaSuccess);
    EXPECT_TRUE(out.sameElements(expected));
  }
}

// An overflow of one rank reaches the result; f16 sums do not overflow inside.
TEST(DeviceRankReduce, TakesExtremeValues) {
  std::vector<Matrix> inputs = inputsOf(2, 4, DType::F16);
  for (Matrix &input : inputs)
    input.fill(60000);
  inputs[1].set(0, 0, infinity);
  inputs[1].set(0, 1, nan);
  Matrix out(1, 4, DType::F16);
  ASSERT_EQ(reduce(inputs, out, true), cudaSuccess);
  expectNear(out, {infinity, nan, 60000, 60000}, 1e-3);
  ASSERT_EQ(reduce(inputs, out, false), cudaSuccess);
  expectNear(out, {infinity, nan, infinity, infinity}, 0);
}

// No elements is nothing to do; too many ranks and means of whole numbers are
// refused.
TEST(DeviceRankReduce, RefusesWhatItCannotDo) {
  std::vector<Matrix> empty = inputsOf(2, 0, DType::F32);
  Matrix none(1, 0);
  EXPECT_EQ(reduce(empty, none, false), cudaSuccess);
  std::vector<Matrix> many = inputsOf(257, 1, DType::F32);
  Matrix one(1, 1);
  EXPECT_EQ(reduce(many, one, false), cudaErrorInvalidValue);
  std::vector<Matrix> whole = inputsOf(2, 4, DType::I32);
  Matrix four(1, 4, DType::I32);
  EXPECT_EQ(reduce(whole, four, true), cudaErrorInvalidValue);
}

} // namespace
} // namespace ciuic::cuda::test
