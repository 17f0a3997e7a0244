//===- embedding_test.cpp - Rows of a table on the device -----------------===//
#include "test/runtime/kernels/cuda/DeviceHarness.h"

namespace ciuic::cuda::test {
namespace {

/// Ids in [0, limit) that repeat.
Matrix tokensOf(int64_t rows, int64_t limit) {
  Matrix tokens(rows, 1, DType::I32);
  for (int64_t i = 0; i < rows; ++i)
    tokens.set(i, 0, static_cast<double>(i * i * 7 % limit));
  return tokens;
}

Task embedding(Matrix &tokens, Matrix &table, Matrix &out) {
  return {TaskKind::Embedding, table.dtype, out.dtype, {&tokens, &table, &out}};
}

uint64_t scratchFor(int64_t rows, int64_t vocabulary) {
  return static_cast<uint64_t>(2 * rows + vocabulary + 1025) * 4;
}

Task embeddingGrad(Matrix &dy, Matrix &tokens, Matrix &out, bool add) {
  Task task{TaskKind::EmbeddingGrad,
            dy.dtype,
            out.dtype,
            {&dy, &tokens, &out},
            {add}};
  task.scratchBytes = scratchFor(dy.rows, out.rows);
  return task;
}

/// What a plain loop in f32 makes of it.
Matrix expectedGrad(const Matrix &dy, const Matrix &tokens, const Matrix &out,
                    bool add) {
  Matrix result(out.rows, out.columns, out.dtype);
  for (int64_t token = 0; token < out.rows; ++token)
    for (int64_t j = 0; j < out.columns; ++j) {
      float sum = 0;
      bool any = false;
      for (int64_t i = 0; i < dy.rows; ++i)
        if (tokens.get(i, 0) == static_cast<double>(token)) {
          sum += static_cast<float>(dy.get(i, j));
          any = true;
        }
      if (add)
        sum = any ? static_cast<float>(out.get(token, j)) + sum
                  : static_cast<float>(out.get(token, j));
      result.set(token, j, sum);
    }
  return result;
}

// Rows of odd and even widths, of tables with and without gaps.
TEST(DeviceEmbedding, CopiesRows) {
  for (DType type : floats)
    for (int64_t columns : {1, 31, 64, 1023})
      for (int64_t gap : {0, 8}) {
        Matrix tokens = tokensOf(33, 11);
        Matrix table(11, columns, type, gap), out(33, columns, type);
        table.random(1);
        out.asOut();
        ASSERT_EQ(embedding(tokens, table, out).run(), cudaSuccess);
        for (int64_t i = 0; i < 33; ++i)
          for (int64_t j = 0; j < columns; ++j)
            ASSERT_EQ(out.get(i, j),
                      table.get(static_cast<int64_t>(tokens.get(i, 0)), j));
      }
}

// Ids beyond the table read its first or last row, nothing else.
TEST(DeviceEmbedding, StaysWithinTheTable) {
  Matrix tokens(1, 4, DType::I32), table(3, 8), out(4, 8);
  const double ids[] = {-1, 3, 2147483647, -2147483648.0};
  for (int64_t i = 0; i < 4; ++i)
    tokens.set(0, i, ids[i]);
  table.random(2);
  ASSERT_EQ(embedding(tokens, table, out).run(), cudaSuccess);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(out.get(i, 0), table.get(ids[i] < 0 ? 0 : 2, 0));
}

// A list of ids of another length, or a table of another type, is refused.
TEST(DeviceEmbedding, RefusesWhatDoesNotFit) {
  Matrix tokens = tokensOf(5, 3), table(3, 8), out(4, 8), five(5, 8);
  Matrix half(3, 8, DType::F16), none(0, 8);
  EXPECT_EQ(embedding(tokens, table, out).run(), cudaErrorInvalidValue);
  EXPECT_EQ(embedding(tokens, half, five).run(), cudaErrorInvalidValue);
  EXPECT_EQ(embedding(tokens, none, five).run(), cudaErrorInvalidValue);
}

// The bits of a plain loop over the rows, set or added.
TEST(DeviceEmbeddingGrad, AddsRowsInOrder) {
  for (DType type : floats)
    for (int64_t columns : {1, 31, 64, 264})
      for (bool add : {false, true}) {
        Matrix tokens = tokensOf(67, 13);
        Matrix dy(67, columns, type, columns % 8 ? 1 : 8),
            out(20, columns, type);
        dy.random(3);
        out.random(4);
        Matrix expected = expectedGrad(dy, tokens, out, add);
        if (!add)
          out.asOut();
        ASSERT_EQ(embeddingGrad(dy, tokens, out, add).run(), cudaSuccess);
        EXPECT_TRUE(out.sameElements(expected));
      }
}

// All rows of one token make one long list.
TEST(DeviceEmbeddingGrad, AddsManyRowsOfOneToken) {
  Matrix tokens(300, 1, DType::I32), dy(300, 40, DType::BF16),
      out(3, 40, DType::BF16);
  tokens.fill(1);
  dy.random(5);
  Matrix expected = expectedGrad(dy, tokens, out, false);
  out.asOut();
  ASSERT_EQ(embeddingGrad(dy, tokens, out, false).run(), cudaSuccess);
  EXPECT_TRUE(out.sameElements(expected));
}

// Neither the number of processors nor the order of threads changes bits.
TEST(DeviceEmbeddingGrad, HasTheSameBitsEverywhere) {
  Matrix tokens = tokensOf(500, 7);
  Matrix dy(500, 16);
  dy.random(6, 1e3);
  Matrix expected(9, 16);
  expected = expectedGrad(dy, tokens, expected, false);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Matrix out(9, 16);
    out.asOut();
    Task task = embeddingGrad(dy, tokens, out, false);
    task.processors = static_cast<uint32_t>(seed * seed);
    task.seed = seed;
    ASSERT_EQ(task.run(), cudaSuccess);
    EXPECT_TRUE(out.sameElements(expected));
  }
}

// A vocabulary of more entries than one segment of the scan.
TEST(DeviceEmbeddingGrad, SortsIntoALargeVocabulary) {
  constexpr int64_t vocabulary = 5000;
  Matrix tokens(40, 1, DType::I32), dy(40, 4), out(vocabulary, 4);
  for (int64_t i = 0; i < 40; ++i)
    tokens.set(i, 0, static_cast<double>(i * 1279 % vocabulary));
  tokens.set(39, 0, vocabulary - 1);
  dy.random(7);
  Matrix expected = expectedGrad(dy, tokens, out, false);
  out.asOut();
  ASSERT_EQ(embeddingGrad(dy, tokens, out, false).run(), cudaSuccess);
  EXPECT_TRUE(out.sameElements(expected));
}

// Without rows the gradient is zero, or what it was.
TEST(DeviceEmbeddingGrad, TakesNoRows) {
  for (bool add : {false, true}) {
    Matrix tokens(0, 1, DType::I32), dy(0, 8), out(5, 8);
    out.fill(2);
    ASSERT_EQ(embeddingGrad(dy, tokens, out, add).run(), cudaSuccess);
    EXPECT_EQ(out.values(), std::vector<double>(40, add ? 2 : 0));
  }
}

// Infinite and NaN rows reach their own token alone.
TEST(DeviceEmbeddingGrad, KeepsTokensApart) {
  Matrix tokens = tokensOf(8, 4), dy(8, 8, DType::F16), out(4, 8, DType::F16);
  dy.random(8);
  dy.set(0, 3, infinity);
  dy.set(1, 5, nan);
  Matrix expected = expectedGrad(dy, tokens, out, false);
  ASSERT_EQ(embeddingGrad(dy, tokens, out, false).run(), cudaSuccess);
  expectNear(out, expected.values(), 0);
}

// Ids beyond the table count for its first or last row, and write there only.
TEST(DeviceEmbeddingGrad, StaysWithinTheTable) {
  Matrix tokens(2, 1, DType::I32), dy(2, 8), out(3, 8);
  tokens.set(0, 0, -7);
  tokens.set(1, 0, 3);
  dy.fill(1);
  ASSERT_EQ(embeddingGrad(dy, tokens, out, false).run(), cudaSuccess);
  EXPECT_EQ(out.get(0, 0), 1);
  EXPECT_EQ(out.get(1, 0), 0);
  EXPECT_EQ(out.get(2, 7), 1);
}

// Too little scratch is refused.
TEST(DeviceEmbeddingGrad, RefusesTooLittleScratch) {
  Matrix tokens = tokensOf(10, 3), dy(10, 8), out(3, 8);
  Task task = embeddingGrad(dy, tokens, out, false);
  task.scratchBytes -= 4;
  EXPECT_EQ(task.run(), cudaErrorInvalidValue);
}

} // namespace
} // namespace ciuic::cuda::test
