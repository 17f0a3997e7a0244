//===- batches_test.cpp - Who gets which sequences ------------------------===//
#include "test/tools/oracle/Program.h"
#include "tools/oracle/Batches.h"

#include <filesystem>

using namespace ciuic;
using namespace ciuic::oracle;

namespace {
/// A file of tokens 0, 1, 2, ... and equal labels in a folder that goes away.
class TokenFile {
public:
  explicit TokenFile(std::vector<int64_t> shape,
                     rt::DType type = rt::DType::I32)
      : folder(testing::TempDir() + "batches." +
               testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder);
    std::vector<int32_t> ids(elementCount(shape));
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int32_t>(i);
    auto writer = rt::SafeTensorsWriter::create(
        path(), {{"tokens", type, shape}, {"labels", type, shape}});
    EXPECT_TRUE(writer.ok());
    for (size_t index : {0, 1})
      EXPECT_TRUE(writer->write(index, 0, ids.size(), type, ids.data()).ok());
    EXPECT_TRUE(writer->commit().ok());
  }
  ~TokenFile() { std::filesystem::remove_all(folder); }

  std::string path() const { return folder + "/tokens.safetensors"; }

private:
  std::string folder;
};
} // namespace

// Micro-step g, rank r gets rows [(g * ranks + r) * batch, ...); a run longer
// than the file starts again.
TEST(Batches, DealsOutRows) {
  TokenFile file({3, 2, 4, 5}); // 3 steps, 2 micro-steps, 2 ranks * 2, 5 tokens
  BatchGeometry geometry{2, 2, 2, 5};
  auto batches = Batches::read(file.path(), "labels", geometry);
  ASSERT_TRUE(batches.ok()) << batches.takeStatus().str();
  EXPECT_EQ(batches->steps(), 3);
  RankValues tokens = batches->tokens(1, 1);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0]->data.front(), 1 * 40 + 1 * 20);
  EXPECT_EQ(tokens[1]->data.front(), 1 * 40 + 1 * 20 + 10);
  EXPECT_EQ(tokens[1]->size(), 10);
  EXPECT_EQ(batches->tokens(4, 1)[1]->data, tokens[1]->data);
}

// The rows of a step may come in one dimension, one step without its own.
TEST(Batches, TakesLesserRanks) {
  BatchGeometry geometry{2, 2, 1, 5};
  for (std::vector<int64_t> shape : std::vector<std::vector<int64_t>>{
           {1, 2, 2, 5}, {1, 4, 5}, {2, 2, 5}, {4, 5}}) {
    TokenFile file(shape);
    auto batches = Batches::read(file.path(), "labels", geometry);
    ASSERT_TRUE(batches.ok()) << rt::shapeString(shape);
    EXPECT_EQ(batches->steps(), 1);
    EXPECT_EQ(batches->labels(0, 1)[0]->data.front(), 10.0);
  }
}

TEST(Batches, RefusesWhatDoesNotFit) {
  BatchGeometry geometry{2, 2, 1, 5};
  for (std::vector<int64_t> shape : std::vector<std::vector<int64_t>>{
           {4, 6}, {3, 5}, {3, 2, 5}, {2, 1, 2, 5}, {20}, {1, 1, 2, 2, 5}}) {
    TokenFile file(shape);
    auto batches = Batches::read(file.path(), "labels", geometry);
    EXPECT_FALSE(batches.ok()) << rt::shapeString(shape);
  }
  TokenFile floats({4, 5}, rt::DType::F32);
  EXPECT_FALSE(Batches::read(floats.path(), "labels", geometry).ok());
  TokenFile file({4, 5});
  EXPECT_FALSE(Batches::read(file.path(), "other", geometry).ok());
}

// The same global batch however it is dealt out; labels are the next tokens.
TEST(Batches, RandomTokensIgnoreTheGeometry) {
  Batches whole = Batches::random(5, 100, {1, 1, 4, 8});
  Batches dealt = Batches::random(5, 100, {2, 2, 1, 8});
  Numbers all = whole.tokens(1, 0)[0]->data, labels;
  Numbers joined;
  for (int64_t micro : {0, 1})
    for (const TensorRef &tensor : dealt.tokens(1, micro))
      joined.insert(joined.end(), tensor->data.begin(), tensor->data.end());
  EXPECT_EQ(joined, all);

  labels = whole.labels(1, 0)[0]->data;
  int ignored = 0;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    EXPECT_GE(all[i], 0.0);
    EXPECT_LT(all[i], 100.0);
    if (labels[i] == -100.0)
      ++ignored;
    else if ((i + 1) % 8 != 0)
      EXPECT_EQ(labels[i], all[i + 1]);
  }
  EXPECT_GT(ignored, 0);
}
