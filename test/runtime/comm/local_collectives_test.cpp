//===- local_collectives_test.cpp - Collectives within one process --------===//
#include "test/runtime/OperationHarness.h"

namespace ciuic::rt::test {
namespace {

/// The two matrices of each rank.
struct Ranks {
  Ranks(uint32_t ranks, int64_t in, int64_t out, DType dtype) : ranks(ranks) {
    for (uint32_t r = 0; r < ranks; ++r) {
      inputs.emplace_back(1, in, dtype);
      inputs.back().random(r);
      outputs.emplace_back(1, out, dtype);
      outputs.back().fill(-77);
    }
  }
  Status run(TaskKind kind, bool mean = false, int threads = 2) {
    std::vector<Tensor> views;
    for (uint32_t r = 0; r < ranks; ++r) {
      views.push_back(inputs[r].tensor());
      views.push_back(outputs[r].tensor());
    }
    return TaskRun{.kind = kind,
                   .views = views,
                   .ints = {mean},
                   .ranks = ranks,
                   .threads = threads}
        .run();
  }
  uint32_t ranks;
  std::vector<Matrix> inputs, outputs;
};

/// The sum in rank order, in f32, rounded once to the type.
double summed(const Ranks &ranks, int64_t i, float factor) {
  auto sum = static_cast<float>(ranks.inputs[0].get(0, i));
  for (uint32_t r = 1; r < ranks.ranks; ++r)
    sum += static_cast<float>(ranks.inputs[r].get(0, i));
  Matrix rounded(1, 1, ranks.inputs[0].dtype);
  rounded.set(0, 0, sum * factor);
  return rounded.get(0, 0);
}

// Every rank receives the chunks of all, in rank order.
TEST(LocalCollectivesTest, AllGather) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    Ranks ranks(3, 1023, 3069, dtype);
    EXPECT_OK(ranks.run(TaskKind::AllGather));
    for (const Matrix &whole : ranks.outputs)
      for (int64_t i = 0; i < 3069; ++i)
        ASSERT_EQ(whole.get(0, i),
                  ranks.inputs[static_cast<size_t>(i / 1023)].get(0, i % 1023));
  }
}

// Rank r keeps chunk r of the sum, added in rank order and rounded once.
TEST(LocalCollectivesTest, ReduceScatterAddsInRankOrder) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    Ranks ranks(4, 4 * 333, 333, dtype);
    EXPECT_OK(ranks.run(TaskKind::ReduceScatter));
    for (int64_t i = 0; i < 4 * 333; ++i)
      ASSERT_EQ(ranks.outputs[static_cast<size_t>(i / 333)].get(0, i % 333),
                summed(ranks, i, 1));
  }
}

// The mean divides in f32, before the one rounding.
TEST(LocalCollectivesTest, ReduceScatterMean) {
  Ranks ranks(2, 66, 33, DType::F16);
  ranks.inputs[0].fill(40000);
  ranks.inputs[1].fill(60000);
  EXPECT_OK(ranks.run(TaskKind::ReduceScatter, true));
  EXPECT_EQ(ranks.outputs[1].get(0, 32), 49984); // 50000 as a half.
}

// All ranks end with the same bits; f64 scalars are summed in f64.
TEST(LocalCollectivesTest, AllReduce) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    Ranks ranks(5, 31, 31, dtype);
    EXPECT_OK(ranks.run(TaskKind::AllReduce));
    for (int64_t i = 0; i < 31; ++i)
      ASSERT_EQ(ranks.outputs[4].get(0, i), summed(ranks, i, 1));
    EXPECT_TRUE(ranks.outputs[0].sameBits(ranks.outputs[4]));
  }
  Ranks doubles(3, 1, 1, DType::F64);
  doubles.inputs[0].set(0, 0, 1);
  doubles.inputs[1].set(0, 0, 0x1p-40);
  doubles.inputs[2].set(0, 0, 0x1p-41);
  EXPECT_OK(doubles.run(TaskKind::AllReduce));
  EXPECT_EQ(doubles.outputs[1].get(0, 0), 1 + 0x1p-40 + 0x1p-41);
}

// Operand and result may be one place.
TEST(LocalCollectivesTest, InPlace) {
  std::vector<Matrix> values;
  std::vector<Tensor> views;
  for (uint32_t r = 0; r < 3; ++r)
    values.emplace_back(1, 70000).fill(r + 1);
  for (Matrix &value : values)
    views.insert(views.end(), {value.tensor(), value.tensor()});
  EXPECT_OK((TaskRun{
      .kind = TaskKind::AllReduce, .views = views, .ints = {1}, .ranks = 3}
                 .run()));
  for (const Matrix &value : values)
    EXPECT_EQ(value.get(0, 69999), 2);
}

// One rank's inf or NaN reaches all.
TEST(LocalCollectivesTest, NonFiniteValuesSurvive) {
  Ranks ranks(2, 9, 9, DType::F16);
  ranks.inputs[1].set(0, 3, INFINITY);
  ranks.inputs[0].set(0, 4, NAN);
  EXPECT_OK(ranks.run(TaskKind::AllReduce, true));
  EXPECT_EQ(ranks.outputs[0].get(0, 3), INFINITY);
  EXPECT_TRUE(std::isnan(ranks.outputs[1].get(0, 4)));
}

// The number of threads does not change a bit.
TEST(LocalCollectivesTest, SameBitsOnAnyThreads) {
  Ranks one(3, 3 * 70001, 70001, DType::BF16),
      two(3, 3 * 70001, 70001, DType::BF16);
  EXPECT_OK(one.run(TaskKind::ReduceScatter, true, 1));
  EXPECT_OK(two.run(TaskKind::ReduceScatter, true, 2));
  for (size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(one.outputs[r].sameBits(two.outputs[r]));
}

// Sizes that do not belong together are refused with the numbers.
TEST(LocalCollectivesTest, RefusesWrongSizes) {
  Ranks ranks(2, 10, 19, DType::F32);
  Status status = ranks.run(TaskKind::AllGather);
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("19 elements, expected 20"), std::string::npos);
  EXPECT_EQ(ranks.run(TaskKind::ReduceScatter).code(), Code::Invalid);
  EXPECT_EQ(ranks.run(TaskKind::AllReduce).code(), Code::Invalid);
}

} // namespace
} // namespace ciuic::rt::test
