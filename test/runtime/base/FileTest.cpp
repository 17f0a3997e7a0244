//===- FileTest.cpp -------------------------------------------------------===//
#include "runtime/base/File.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace fs = std::filesystem;

// An empty file maps to no bytes: mmap itself refuses it.
TEST(File, MapsEmptyFile) {
  TemporaryFolder folder;
  ASSERT_ASSIGN(MappedFile file, MappedFile::open(folder.write("empty", "")));
  EXPECT_TRUE(file.bytes().empty());
}

// Missing files, folders and pipes are refused; a pipe must not block.
TEST(File, MapsOnlyRegularFiles) {
  TemporaryFolder folder;
  EXPECT_INVALID(MappedFile::open(folder.path("none")), "none: cannot open");
  EXPECT_INVALID(MappedFile::open(folder.path()), "is a folder");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_INVALID(MappedFile::open(folder.path("pipe")), "not a regular file");
}

// A text longer than its limit is refused before it is read.
TEST(File, TextLimit) {
  TemporaryFolder folder;
  std::string path = folder.write("text", "12345");
  ASSERT_ASSIGN(std::string text, readTextFile(path, 5));
  EXPECT_EQ(text, "12345");
  EXPECT_INVALID(readTextFile(path, 4), "more than the 4 allowed");
}

// Before the commit the old content stands, after it the new; without one
// nothing is left.
TEST(File, AtomicReplacement) {
  TemporaryFolder folder;
  std::string path = folder.write("file", "old");
  {
    ASSERT_ASSIGN(AtomicFile file, AtomicFile::create(path));
    ASSERT_OK(file.write(0, std::as_bytes(std::span("abandoned", 9))));
    EXPECT_EQ(readFile(path), "old");
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"file"});
  ASSERT_OK(writeTextFile(path, "new"));
  EXPECT_EQ(readFile(path), "new");
  EXPECT_EQ(folder.names(), std::set<std::string>{"file"});
}

// An output goes into the pipe that its path names, which stays a pipe; one
// without a reader is an error.
TEST(File, OutputIntoPipe) {
  TemporaryFolder folder;
  std::string path = folder.path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Status status = writeOutputFile(path, "text");
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("pipe: cannot write"), std::string::npos);
  int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_OK(writeOutputFile(path, "text"));
  char text[8];
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(folder.names(), std::set<std::string>{"pipe"});
}

// An output through a link replaces the file that it leads to.
TEST(File, OutputThroughLink) {
  TemporaryFolder folder;
  std::string file = folder.write("file", "old");
  fs::create_symlink("file", folder.path("link"));
  EXPECT_OK(writeOutputFile(folder.path("link"), "new"));
  EXPECT_EQ(readFile(file), "new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
}

// Pieces may be written in any order.
TEST(File, WritesAtOffsets) {
  TemporaryFolder folder;
  ASSERT_ASSIGN(AtomicFile file, AtomicFile::create(folder.path("file")));
  ASSERT_OK(file.resize(6));
  ASSERT_OK(file.write(3, std::as_bytes(std::span("def", 3))));
  ASSERT_OK(file.write(0, std::as_bytes(std::span("abc", 3))));
  ASSERT_OK(file.commit());
  EXPECT_EQ(readFile(folder.path("file")), "abcdef");
}

// What cannot be written is the machine's error, with the path in it.
TEST(File, CannotWriteIntoMissingFolder) {
  TemporaryFolder folder;
  Status status = writeTextFile(folder.path("none/file"), "x");
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("none/file: cannot write"), std::string::npos)
      << status.str();
}

// The new folder takes the place of the old one, whole.
TEST(File, ReplacesFolders) {
  TemporaryFolder folder;
  folder.write("new/a", "1");
  ASSERT_OK(replaceFolder(folder.path("new"), folder.path("there")));
  EXPECT_EQ(folder.names(), std::set<std::string>{"there"});
  folder.write("new/b", "2");
  ASSERT_OK(replaceFolder(folder.path("new"), folder.path("there")));
  EXPECT_EQ(folder.names(), std::set<std::string>{"there"});
  EXPECT_EQ(folder.names("there"), std::set<std::string>{"b"});
}

// A file in the way is not taken for a folder.
TEST(File, ReplacesOnlyFolders) {
  TemporaryFolder folder;
  folder.write("new/a", "1");
  std::string file = folder.write("file", "precious");
  EXPECT_INVALID(replaceFolder(folder.path("new"), file), "is not a folder");
  EXPECT_EQ(readFile(file), "precious");
}

// Removing a link to a folder leaves the folder's content alone.
TEST(File, RemovalFollowsNoLinks) {
  TemporaryFolder folder;
  folder.write("precious/file", "1");
  fs::create_directory_symlink(folder.path("precious"), folder.path("link"));
  ASSERT_OK(removeFolder(folder.path("link")));
  EXPECT_EQ(folder.names("precious"), std::set<std::string>{"file"});
  EXPECT_OK(removeFolder(folder.path("none")));
}

// A folder is locked once at a time, and free again with its lock gone.
TEST(File, LocksFolders) {
  TemporaryFolder folder;
  {
    ASSERT_ASSIGN(FolderLock lock, FolderLock::take(folder.path()));
    EXPECT_INVALID(FolderLock::take(folder.path()), "in use by another run");
  }
  EXPECT_OK(FolderLock::take(folder.path()));
  EXPECT_TRUE(folder.names().empty());
}

// What could be made is told without making it: below a folder, not a file.
TEST(File, ChecksWithoutMaking) {
  TemporaryFolder folder;
  EXPECT_OK(checkWritable(folder.path("a/b/c")));
  EXPECT_OK(checkWritable("no-such-name"));
  EXPECT_TRUE(folder.names().empty());
  folder.write("file", "1");
  Status status = checkWritable(folder.path("file/a/b"));
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("Not a directory"), std::string::npos);
}

// Names that lead out of a folder.
TEST(File, PlainFileNames) {
  EXPECT_TRUE(isPlainFileName("model-00001-of-00002.safetensors"));
  EXPECT_TRUE(isPlainFileName("..."));
  for (std::string_view bad :
       {std::string_view(""), std::string_view("."), std::string_view(".."),
        std::string_view("../x"), std::string_view("/etc/passwd"),
        std::string_view("a/b"), std::string_view("a\0b", 3)})
    EXPECT_FALSE(isPlainFileName(bad)) << bad;
}
