//===- TokenDatasetTest.cpp -----------------------------------------------===//
#include "runtime/data/TokenDataset.h"
#include "runtime/data/Permutation.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/data/TokenFiles.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace {

TokenDataset::Options options(int64_t length, double validation = 0,
                              uint64_t seed = 1) {
  return {length, /*vocabularySize=*/300, seed, validation};
}

/// Tokens 0, 1, ..., n - 1.
std::vector<uint32_t> ramp(size_t n) {
  std::vector<uint32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0u);
  return tokens;
}

using Rows = std::vector<int32_t>;

/// Inputs and labels of a sequence, one after the other.
Rows read(const TokenDataset &dataset, uint64_t sequence) {
  int64_t length = dataset.options().sequenceLength;
  Rows both(2 * length, -1);
  EXPECT_OK(dataset.read(sequence, both.data(), both.data() + length));
  return both;
}

/// The sequences of a split in the order of an epoch.
std::vector<uint64_t> order(const TokenDataset &dataset, Split split,
                            uint64_t epoch) {
  std::vector<uint64_t> result;
  for (uint64_t i = 0; i < dataset.sequences(split); ++i)
    result.push_back(dataset.sequenceAt(split, epoch, i));
  return result;
}

} // namespace

// For every size, each number below it comes up exactly once.
TEST(Permutation, IsABijection) {
  for (uint64_t n = 1; n < 300; ++n) {
    Permutation permutation(n, 5, n);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i)
      seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), n);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

// Every place is taken by every number about equally often over many keys:
// within five standard deviations of the binomial count.
TEST(Permutation, IsFair) {
  constexpr int n = 10, keys = 4000;
  int counts[n][n] = {};
  for (int key = 0; key < keys; ++key) {
    Permutation permutation(n, key, 1);
    for (int i = 0; i < n; ++i)
      ++counts[i][permutation(i)];
  }
  double expected = double(keys) / n;
  double deviation = std::sqrt(expected * (1 - 1.0 / n));
  for (auto &row : counts)
    for (int count : row)
      EXPECT_NEAR(count, expected, 5 * deviation);
}

// Sizes past 32 bits.
TEST(Permutation, LargeSizes) {
  uint64_t n = uint64_t(1) << 40;
  Permutation permutation(n, 5, 1);
  std::set<uint64_t> seen;
  for (uint64_t i = n - 1000; i < n; ++i) {
    uint64_t value = permutation(i);
    EXPECT_LT(value, n);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// Labels are the inputs moved by one; sequences follow each other without
// overlap; the last one is padded.
TEST(TokenDataset, CutsSequences) {
  TemporaryFolder folder;
  std::string path = folder.write("t", tokenFileText(ramp(7), 300, 2));
  ASSERT_ASSIGN(TokenDataset dataset, TokenDataset::open({path}, options(4)));
  EXPECT_EQ(dataset.sequences(Split::Train), 2u);
  EXPECT_EQ(dataset.tokenCount(), 7u);
  EXPECT_EQ(read(dataset, 0), (Rows{0, 1, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(read(dataset, 1), (Rows{4, 5, 0, 0, 5, 6, -100, -100}));
  EXPECT_EQ(dataset.labelCount(0), 4);
  EXPECT_EQ(dataset.labelCount(1), 2);
}

// The number of sequences at the borders: T + 1 tokens are one, T + 2 two.
TEST(TokenDataset, CountsSequences) {
  TemporaryFolder folder;
  auto count = [&](size_t tokens) {
    std::string path = folder.write("t", tokenFileText(ramp(tokens), 300, 2));
    auto dataset = TokenDataset::open({path}, options(4));
    EXPECT_TRUE(dataset.ok());
    return dataset.ok() ? dataset->sequences(Split::Train) : 0;
  };
  EXPECT_EQ(count(5), 1u);
  EXPECT_EQ(count(6), 2u);
  EXPECT_EQ(count(9), 2u);
  EXPECT_EQ(count(10), 3u);
}

// Without shuffling every epoch takes the sequences in the data's order,
// whatever the seed; those held back are the same as with shuffling, and left
// out.
TEST(TokenDataset, KeepsTheDataInOrder) {
  TemporaryFolder folder;
  std::string path = folder.write("t", tokenFileText(ramp(161), 300, 2));
  for (double share : {0.0, 0.1, 0.5, 0.9}) {
    ASSERT_ASSIGN(TokenDataset shuffled,
                  TokenDataset::open({path}, options(4, share)));
    TokenDataset::Options plain = options(4, share, 7);
    plain.shuffle = false;
    ASSERT_ASSIGN(TokenDataset dataset, TokenDataset::open({path}, plain));
    EXPECT_EQ(order(dataset, Split::Validation, 0),
              order(shuffled, Split::Validation, 0));
    std::vector<uint64_t> expected = order(shuffled, Split::Train, 0);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(order(dataset, Split::Train, 0), expected);
    EXPECT_EQ(order(dataset, Split::Train, 3), expected);
  }
}

// Text files are documents of one stream.
TEST(TokenDataset, JoinsTexts) {
  TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a.txt", "a");
  ASSERT_ASSIGN(TokenDataset dataset,
                TokenDataset::open({folder.path()}, options(4)));
  EXPECT_TRUE(dataset.isText());
  EXPECT_EQ(read(dataset, 0), (Rows{256, 'a', 257, 256, 'a', 257, 256, 'b'}));
  EXPECT_EQ(read(dataset, 1),
            (Rows{'b', 258, 258, 258, 257, -100, -100, -100}));
}

// No sequence runs from one token file into the next, and empty or tiny files
// among others do no harm.
TEST(TokenDataset, KeepsTokenFilesApart) {
  TemporaryFolder folder;
  std::vector<std::string> paths;
  for (auto [name, count] :
       {std::pair("a", 0), {"b", 6}, {"c", 1}, {"d", 0}, {"e", 5}})
    paths.push_back(folder.write(name, tokenFileText(ramp(count), 300, 4)));
  ASSERT_ASSIGN(TokenDataset dataset, TokenDataset::open(paths, options(4)));
  EXPECT_EQ(dataset.sequences(Split::Train), 3u);
  EXPECT_EQ(read(dataset, 0), (Rows{0, 1, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(read(dataset, 1), (Rows{4, 0, 0, 0, 5, -100, -100, -100}));
  EXPECT_EQ(read(dataset, 2), (Rows{0, 1, 2, 3, 1, 2, 3, 4}));
}

// What is not text is counted in a folder, and an error when it is named.
TEST(TokenDataset, BinaryFiles) {
  TemporaryFolder folder;
  folder.write("a.txt", "some text");
  folder.write("empty.txt", "");
  std::string binary = folder.write("b.bin", "x\xff\xfe");
  ASSERT_ASSIGN(TokenDataset dataset,
                TokenDataset::open({folder.path()}, options(4)));
  EXPECT_EQ(dataset.counts().files, 1u);
  EXPECT_EQ(dataset.counts().notText, 1u);
  EXPECT_EQ(dataset.counts().empty, 1u);
  EXPECT_EQ(dataset.tokenCount(), 11u);
  EXPECT_INVALID(TokenDataset::open({binary}, options(4)),
                 "neither a token file nor UTF-8 text: byte 0xff at offset 1");
}

// Paths that hold no data, or not enough of it for one sequence.
TEST(TokenDataset, EmptyOrTooShort) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("none"));
  std::string empty = folder.write("empty", "");
  std::string text = folder.write("short.txt", "abc");
  std::string file = folder.write("t", tokenFileText({}, 300, 2));
  EXPECT_INVALID(TokenDataset::open({}, options(4)), "no data");
  EXPECT_INVALID(TokenDataset::open({folder.path("none")}, options(4)),
                 "no data was found");
  EXPECT_INVALID(TokenDataset::open({empty}, options(4)), "1 empty");
  EXPECT_INVALID(TokenDataset::open({file}, options(4)), "no data was found");
  EXPECT_INVALID(TokenDataset::open({text}, options(5)),
                 "5 tokens, one sequence of length 5 needs 6");
  EXPECT_OK(TokenDataset::open({text}, options(4)));
  EXPECT_INVALID(TokenDataset::open({folder.path("x")}, options(4)),
                 "no such file");
}

// A vocabulary that is too small for text, for a token file's header, or for
// a token in spite of its header.
TEST(TokenDataset, Vocabulary) {
  TemporaryFolder folder;
  std::string text = folder.write("a.txt", "some text");
  std::string wide = folder.write("w", tokenFileText(ramp(9), 301, 2));
  std::string lies =
      folder.write("l", tokenFileText({1, 2, 3, 77, 4, 5}, 50, 2));
  TokenDataset::Options small = options(4);
  small.vocabularySize = 258;
  EXPECT_INVALID(TokenDataset::open({text}, small),
                 "read with a vocabulary of 259, the model has 258");
  EXPECT_INVALID(TokenDataset::open({wide}, options(4)),
                 "has a vocabulary of 301, the model has 300");
  EXPECT_INVALID(TokenDataset::open({lies}, options(4)),
                 "token 77 at position 3");
}

// Bytes and a tokenizer's numbers cannot be told apart by a model.
TEST(TokenDataset, RefusesToMixKinds) {
  TemporaryFolder folder;
  folder.write("a.txt", "some text");
  folder.write("t", tokenFileText(ramp(9), 300, 2));
  EXPECT_INVALID(TokenDataset::open({folder.path()}, options(4)),
                 "is text, but");
}

// Options outside their range.
TEST(TokenDataset, Options) {
  TemporaryFolder folder;
  std::string text = folder.write("a.txt", "some text");
  auto open = [&](TokenDataset::Options options) {
    return TokenDataset::open({text}, options);
  };
  EXPECT_INVALID(open(options(0)), "sequence length is 0");
  EXPECT_INVALID(open(options(-1)), "sequence length is -1");
  EXPECT_INVALID(open(options(4, -0.1)), "validation share is -0.1");
  EXPECT_INVALID(open(options(4, 1)), "validation share is 1");
  EXPECT_INVALID(open(options(4, std::nan(""))), "validation share is nan");
  EXPECT_INVALID(open({4, 0, 1, 0}), "vocabulary size is 0");
  EXPECT_INVALID(open(options(10, 0.5)), "leaves none to train on");
}

// The splits share no sequence and together are all; the split does not
// depend on the seed, the order does, on the epoch as well.
TEST(TokenDataset, SplitAndOrder) {
  TemporaryFolder folder;
  std::string path =
      folder.write("t", tokenFileText(std::vector<uint32_t>(401, 7), 300, 2));
  ASSERT_ASSIGN(TokenDataset a, TokenDataset::open({path}, options(4, 0.1, 1)));
  ASSERT_ASSIGN(TokenDataset b, TokenDataset::open({path}, options(4, 0.1, 2)));
  EXPECT_EQ(a.sequences(Split::Validation), 10u);
  EXPECT_EQ(a.sequences(Split::Train), 90u);
  std::vector<uint64_t> train = order(a, Split::Train, 0);
  std::vector<uint64_t> held = order(a, Split::Validation, 0);
  std::set<uint64_t> all(train.begin(), train.end());
  all.insert(held.begin(), held.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(*all.rbegin(), 99u);
  EXPECT_FALSE(std::is_sorted(train.begin(), train.end()));

  EXPECT_EQ(order(b, Split::Validation, 3), held);
  EXPECT_NE(order(b, Split::Train, 0), train);
  std::vector<uint64_t> second = order(a, Split::Train, 1);
  EXPECT_NE(second, train);
  std::sort(second.begin(), second.end());
  std::sort(train.begin(), train.end());
  EXPECT_EQ(second, train);
}

// A small share holds back one sequence rather than none.
TEST(TokenDataset, HoldsBackAtLeastOne) {
  TemporaryFolder folder;
  std::string path = folder.write("t", tokenFileText(ramp(41), 300, 2));
  ASSERT_ASSIGN(TokenDataset dataset,
                TokenDataset::open({path}, options(4, 0.001)));
  EXPECT_EQ(dataset.sequences(Split::Validation), 1u);
}

// A real text: every byte but the first mark is a label once in an epoch.
TEST(TokenDataset, RealText) {
  std::string path =
      std::string(CIUIC_CORPUS_DIR) + "/assets/tinyshakespeare_input.txt";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is absent";
  ASSERT_ASSIGN(TokenDataset dataset, TokenDataset::open({path}, options(128)));
  EXPECT_EQ(dataset.tokenCount(), std::filesystem::file_size(path) + 2);
  uint64_t labels = 0;
  for (uint64_t sequence : order(dataset, Split::Train, 0))
    labels += static_cast<uint64_t>(dataset.labelCount(sequence));
  EXPECT_EQ(labels, dataset.tokenCount() - 1);
}
