//===- TextFilesTest.cpp --------------------------------------------------===//
#include "runtime/data/TextFiles.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace fs = std::filesystem;

// Sorted, to the bottom, whatever the order of creation.
TEST(TextFiles, ListsSortedAndRecursively) {
  TemporaryFolder folder;
  for (const char *name : {"z.txt", "b/y.txt", "a.txt", "b/c/x.txt"})
    folder.write(name, "x");
  FileCounts counts;
  ASSERT_ASSIGN(std::vector<std::string> files,
                listFiles(folder.path(), counts));
  EXPECT_EQ(files, (std::vector<std::string>{
                       folder.path("a.txt"), folder.path("b/c/x.txt"),
                       folder.path("b/y.txt"), folder.path("z.txt")}));
  EXPECT_EQ(counts.passedOver(), 0u);
}

// A link inside a folder could lead out of it, or round in circles; pipes
// would block. Both are counted. Hidden files are left out.
TEST(TextFiles, PassesOverLinksAndPipes) {
  TemporaryFolder folder;
  folder.write("data/a.txt", "x");
  folder.write("data/.git/config", "x");
  folder.write("secret.txt", "x");
  fs::create_symlink(folder.path("secret.txt"), folder.path("data/link.txt"));
  fs::create_directory_symlink(folder.path("data"), folder.path("data/loop"));
  ASSERT_EQ(mkfifo(folder.path("data/pipe").c_str(), 0600), 0);
  FileCounts counts;
  ASSERT_ASSIGN(std::vector<std::string> files,
                listFiles(folder.path("data"), counts));
  EXPECT_EQ(files, std::vector<std::string>{folder.path("data/a.txt")});
  EXPECT_EQ(counts.links, 2u);
  EXPECT_EQ(counts.special, 1u);
  EXPECT_EQ(counts.warning(), "passed over 3 files: 2 symbolic links, 1 not "
                              "regular files");
}

// A path that is named is followed, be it a link.
TEST(TextFiles, FollowsNamedLinks) {
  TemporaryFolder folder;
  folder.write("data/a.txt", "x");
  fs::create_directory_symlink(folder.path("data"), folder.path("link"));
  FileCounts counts;
  ASSERT_ASSIGN(std::vector<std::string> files,
                listFiles(folder.path("link"), counts));
  EXPECT_EQ(files.size(), 1u);
  EXPECT_INVALID(listFiles(folder.path("none"), counts),
                 "none: no such file or folder");
}

// Valid UTF-8 of every length, also across the blocks of eight.
TEST(TextFiles, AcceptsText) {
  for (std::string_view text :
       {"", "plain", "tab\tand\nline", "h\xc3\xa9", "\xe2\x82\xac",
        "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf",
        "\xe0\xa0\x80", "\xf0\x90\x80\x80"})
    for (size_t pad = 0; pad < 9; ++pad)
      EXPECT_EQ(findNonText(std::string(pad, 'x') + std::string(text)),
                std::string_view::npos)
          << text;
}

// Lone and missing continuations, overlong forms, surrogates, values past
// U+10FFFF, and NUL, each found where it begins.
TEST(TextFiles, FindsWhatIsNotText) {
  using namespace std::string_literals;
  for (std::string text :
       {"\x80"s, "\xc3"s, "\xc3("s, "\xe2\x82"s, "\xf0\x9f\x98"s, "\xc0\xaf"s,
        "\xc1\xbf"s, "\xe0\x80\xaf"s, "\xf0\x80\x80\xaf"s, "\xed\xa0\x80"s,
        "\xed\xbf\xbf"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s,
        "\0"s})
    for (size_t pad = 0; pad < 20; ++pad) {
      EXPECT_EQ(findNonText(std::string(pad, 'x') + text), pad);
      EXPECT_EQ(findNonText(std::string(pad, 'x') + text + "12345678"), pad);
    }
}

// A document is its bytes between the two marks.
TEST(TextFiles, Document) {
  std::vector<uint16_t> tokens;
  appendDocument("a\xff", tokens);
  EXPECT_EQ(tokens, (std::vector<uint16_t>{256, 'a', 255, 257}));
}
