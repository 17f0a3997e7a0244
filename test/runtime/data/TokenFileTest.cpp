//===- TokenFileTest.cpp --------------------------------------------------===//
#include "runtime/data/TokenFile.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/data/TokenFiles.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

// Both widths come back.
TEST(TokenFile, RoundTrip) {
  TemporaryFolder folder;
  for (uint32_t width : {2u, 4u}) {
    std::string path =
        folder.write("t", tokenFileText({5, 0, 65535, 7}, 70000, width));
    ASSERT_ASSIGN(TokenFile file, TokenFile::open(path));
    EXPECT_EQ(file.tokenCount(), 4u);
    EXPECT_EQ(file.vocabularySize(), 70000u);
    std::vector<int32_t> out(3);
    ASSERT_OK(file.read(1, 3, 70000, out.data()));
    EXPECT_EQ(out, (std::vector<int32_t>{0, 65535, 7}));
    EXPECT_INVALID(file.read(2, 3, 70000, out.data()), "has 4 tokens");
    EXPECT_INVALID(file.read(UINT64_MAX, 2, 70000, out.data()), "has 4 tokens");
  }
}

// A token that is not below the limit is named with its position.
TEST(TokenFile, TokenOutsideVocabulary) {
  TemporaryFolder folder;
  std::string path = folder.write("t", tokenFileText({1, 2, 9, 3}, 10, 4));
  ASSERT_ASSIGN(TokenFile file, TokenFile::open(path));
  EXPECT_OK(file.checkAll(10));
  EXPECT_INVALID(file.checkAll(9), "token 9 at position 2");
  int32_t out[2];
  EXPECT_INVALID(file.read(1, 2, 9, out), "token 9 at position 2");
  EXPECT_OK(file.read(0, 2, 9, out));
}

// Tokens that would be negative as int32 are above every vocabulary.
TEST(TokenFile, TokenWithHighBit) {
  TemporaryFolder folder;
  std::string path =
      folder.write("t", tokenFileText({1, 0xffffffff}, 0x7fffffff, 4));
  ASSERT_ASSIGN(TokenFile file, TokenFile::open(path));
  EXPECT_INVALID(file.checkAll(0x7fffffff), "token 4294967295 at position 1");
}

// Each field of the header, wrong.
TEST(TokenFile, HostileHeader) {
  TemporaryFolder folder;
  std::string sound = tokenFileText({1, 2}, 10, 2);
  auto open = [&](std::string text) {
    return TokenFile::open(folder.write("t", text));
  };
  auto with = [&](size_t offset, std::initializer_list<int> bytes) {
    std::string text = sound;
    for (int byte : bytes)
      text[offset++] = static_cast<char>(byte);
    return open(text);
  };
  EXPECT_OK(open(sound));
  EXPECT_INVALID(open(""), "is not a token file");
  EXPECT_INVALID(open(sound.substr(0, 30)), "header alone needs 64");
  EXPECT_INVALID(with(0, {'X'}), "is not a token file");
  EXPECT_INVALID(with(8, {2}), "version 2, expected 1");
  EXPECT_INVALID(with(12, {3}), "tokens of 3 bytes");
  EXPECT_INVALID(with(16, {0}), "vocabulary of 0");
  EXPECT_INVALID(with(20, {1}), "vocabulary of 4294967306");
  EXPECT_INVALID(with(24, {3}), "header tells of 3 tokens");
  EXPECT_INVALID(with(31, {0x80}), "header tells of");
  EXPECT_INVALID(with(63, {1}), "reserved header byte");
  EXPECT_INVALID(open(sound + "x"), "5 bytes of tokens");
  EXPECT_INVALID(open(sound.substr(0, 66)), "2 bytes of tokens");
}

// What the tool writes, with the file's own header in Python.
TEST(TokenFile, ReadsTheToolsFile) {
  TemporaryFolder folder;
  std::string script =
      std::string(CIUIC_SOURCE_DIR) + "/tools/tokenize_dataset.py";
  std::string text = folder.write("a.txt", "h\xc3\xa9");
  std::string out = folder.path("out.tok");
  std::string command =
      "python3 '" + script + "' --bytes -o '" + out + "' '" + text + "'";
  if (std::system("python3 -c pass") != 0)
    GTEST_SKIP() << "python3 is absent";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_ASSIGN(TokenFile file, TokenFile::open(out));
  EXPECT_EQ(file.vocabularySize(), 259u);
  std::vector<int32_t> tokens(file.tokenCount());
  ASSERT_OK(file.read(0, tokens.size(), 259, tokens.data()));
  EXPECT_EQ(tokens, (std::vector<int32_t>{256, 'h', 0xc3, 0xa9, 257}));
}
