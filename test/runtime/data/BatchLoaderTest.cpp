//===- BatchLoaderTest.cpp ------------------------------------------------===//
#include "runtime/data/BatchLoader.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/data/TokenFiles.h"

#include <gtest/gtest.h>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace {

constexpr int64_t length = 4;

/// One row: its inputs, then its labels.
using Row = std::vector<int32_t>;

class BatchLoaderTest : public testing::Test {
protected:
  /// A dataset of `sequences` full sequences, each with tokens of its own.
  void open(uint64_t sequences, double validation = 0) {
    std::vector<uint32_t> tokens(sequences * length + 1);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<uint32_t>(i);
    std::string path = folder.write("t", tokenFileText(tokens, 100000, 4));
    auto result = TokenDataset::open(
        {path}, {length, /*vocabularySize=*/100000, /*seed=*/3, validation});
    ASSERT_TRUE(result.ok()) << result.takeStatus().str();
    dataset = std::make_unique<TokenDataset>(std::move(*result));
  }

  /// All rows of a step, in the order of micro-step, rank, row.
  std::vector<Row> rows(uint64_t step, BatchLayout layout,
                        Split split = Split::Train) {
    std::vector<Row> result;
    auto loader = BatchLoader::create(*dataset, split, layout);
    if (!loader.ok()) {
      ADD_FAILURE() << loader.takeStatus().str();
      return result;
    }
    std::vector<int32_t> tokens(layout.batch * length),
        labels(layout.batch * length);
    for (int64_t micro = 0; micro < layout.accumulation; ++micro)
      for (int64_t rank = 0; rank < layout.ranks; ++rank) {
        EXPECT_OK(
            loader->fill(step, rank, micro, tokens.data(), labels.data()));
        for (int64_t row = 0; row < layout.batch; ++row) {
          Row both(tokens.begin() + row * length,
                   tokens.begin() + (row + 1) * length);
          both.insert(both.end(), labels.begin() + row * length,
                      labels.begin() + (row + 1) * length);
          result.push_back(std::move(both));
        }
      }
    return result;
  }

  TemporaryFolder folder;
  std::unique_ptr<TokenDataset> dataset;
};

} // namespace

// The global batch of a step is the same rows in every layout, over the end
// of an epoch too.
TEST_F(BatchLoaderTest, SameBatchInEveryLayout) {
  open(37);
  for (uint64_t step = 0; step < 12; ++step) {
    std::vector<Row> expected = rows(step, {8, 1, 1});
    std::sort(expected.begin(), expected.end());
    for (int64_t ranks : {1, 2, 4, 8})
      for (int64_t accumulation = 1; accumulation * ranks <= 8;
           accumulation *= 2) {
        std::vector<Row> found =
            rows(step, {8 / ranks / accumulation, ranks, accumulation});
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, expected)
            << "step " << step << ", " << ranks << " ranks, " << accumulation
            << " micro-steps";
      }
  }
}

// An epoch shows each sequence once; its last batch is filled with rows
// without labels, and the next epoch starts afresh in another order.
TEST_F(BatchLoaderTest, Epochs) {
  open(10);
  BatchLayout layout{2, 2, 1};
  ASSERT_ASSIGN(BatchLoader loader,
                BatchLoader::create(*dataset, Split::Train, layout));
  EXPECT_EQ(loader.sequencesPerEpoch(), 10u);
  EXPECT_EQ(loader.sequencesPerStep(), 4u);
  EXPECT_EQ(loader.stepsPerEpoch(), 3u);
  std::vector<std::vector<Row>> epochs;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<Row> seen;
    for (uint64_t batch = 0; batch < 3; ++batch) {
      BatchPosition position = loader.position(epoch * 3 + batch);
      EXPECT_EQ(position.epoch, epoch);
      EXPECT_EQ(position.batch, batch);
      EXPECT_EQ(position.sequences, batch == 2 ? 2u : 4u);
      EXPECT_EQ(position.labels, position.sequences * length);
      for (Row &row : rows(epoch * 3 + batch, layout))
        if (row.back() != ignoredLabel)
          seen.push_back(std::move(row));
        else
          EXPECT_EQ(row, (Row{0, 0, 0, 0, -100, -100, -100, -100}));
    }
    EXPECT_EQ(seen.size(), 10u);
    EXPECT_EQ(std::set<Row>(seen.begin(), seen.end()).size(), 10u);
    epochs.push_back(seen);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

// A batch larger than the data: one step an epoch, mostly filled.
TEST_F(BatchLoaderTest, BatchLargerThanData) {
  open(3);
  std::vector<Row> found = rows(5, {4, 2, 2});
  EXPECT_EQ(found.size(), 16u);
  EXPECT_EQ(
      std::count_if(found.begin(), found.end(),
                    [](const Row &row) { return row[length] != ignoredLabel; }),
      3);
}

// Labels are counted as they are filled in, padding left out.
TEST_F(BatchLoaderTest, CountsLabels) {
  std::string path = folder.write(
      "t", tokenFileText(std::vector<uint32_t>(length * 5 + 3, 1), 10, 2));
  ASSERT_ASSIGN(TokenDataset partial,
                TokenDataset::open({path}, {length, 10, 1, 0}));
  dataset = std::make_unique<TokenDataset>(std::move(partial));
  BatchLayout layout{2, 2, 1};
  ASSERT_ASSIGN(BatchLoader loader,
                BatchLoader::create(*dataset, Split::Train, layout));
  uint64_t total = 0;
  for (uint64_t step = 0; step < loader.stepsPerEpoch(); ++step) {
    uint64_t labels = 0;
    for (const Row &row : rows(step, layout))
      labels += static_cast<uint64_t>(
          length - std::count(row.begin() + length, row.end(), ignoredLabel));
    EXPECT_EQ(loader.position(step).labels, labels) << "step " << step;
    total += labels;
  }
  EXPECT_EQ(total, uint64_t(length) * 5 + 2);
}

// Validation is read by the same rule, in one fixed order.
TEST_F(BatchLoaderTest, Validation) {
  open(50, 0.1);
  EXPECT_EQ(rows(0, {4, 1, 1}, Split::Validation).size(), 4u);
  EXPECT_EQ(rows(0, {2, 2, 1}, Split::Validation),
            rows(2, {2, 2, 1}, Split::Validation))
      << "two steps an epoch, no shuffle between them";
}

// Layouts and requests that make no sense.
TEST_F(BatchLoaderTest, Refuses) {
  open(10);
  auto create = [&](BatchLayout layout, Split split = Split::Train) {
    return BatchLoader::create(*dataset, split, layout);
  };
  EXPECT_INVALID(create({0, 1, 1}), "is not possible");
  EXPECT_INVALID(create({1, -1, 1}), "is not possible");
  EXPECT_INVALID(create({INT64_MAX, 2, 1}), "is not possible");
  EXPECT_INVALID(create({1, 1, 1}, Split::Validation), "held back");
  ASSERT_ASSIGN(BatchLoader loader, create({1, 2, 2}));
  int32_t tokens[length], labels[length];
  EXPECT_INVALID(loader.fill(0, 2, 0, tokens, labels), "rank 2 of 2");
  EXPECT_INVALID(loader.fill(0, 0, 2, tokens, labels), "micro-step 2 of 2");
}
