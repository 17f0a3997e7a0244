//===- state_file_test.cpp - Files that hold states -----------------------===//
#include "runtime/disk/StateFile.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace ciuic::rt::test {
namespace {

/// A folder that goes with its owner.
struct Folder {
  Folder() {
    std::string pattern = testing::TempDir() + "ciuic-disk-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

bool has(const Status &status, const std::string &text) {
  return status.str().find(text) != std::string::npos;
}

// A new file is zero, keeps what is written at any offset, and has no name.
TEST(StateFileTest, KeepsWhatIsWritten) {
  Folder folder;
  auto file = StateFile::create(folder.path, 10000, "the states");
  ASSERT_TRUE(file.ok()) << file.takeStatus().str();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  std::vector<int> values = {1, 2, 3, 4, 5}, found(5, -1);
  ASSERT_TRUE(file->read(4093, 20, found.data()).ok());
  EXPECT_EQ(found, std::vector<int>(5, 0));
  ASSERT_TRUE(file->write(4093, 20, values.data()).ok());
  ASSERT_TRUE(file->read(4093, 20, found.data()).ok());
  EXPECT_EQ(found, values);
}

// What is read beyond the end says where the file ends.
TEST(StateFileTest, SaysWhereItEnds) {
  Folder folder;
  auto file = StateFile::create(folder.path, 4096, "the states");
  ASSERT_TRUE(file.ok());
  char byte = 0;
  Status status = file->read(4096, 1, &byte);
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_TRUE(has(status, "the states in " + folder.path)) << status.str();
  EXPECT_TRUE(has(status, "no bytes from 4096 on, expected 4096"));
}

// A folder that is not there, or is a file, is the user's mistake.
TEST(StateFileTest, RefusesFolders) {
  Folder folder;
  auto missing = StateFile::create(folder.path + "/no", 4096, "the states");
  ASSERT_FALSE(missing.ok());
  Status status = missing.takeStatus();
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_TRUE(has(status, "No such file or directory")) << status.str();
  auto device = StateFile::create("/dev/null", 4096, "the states");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.takeStatus().code(), Code::Invalid);
}

// More than the disk has is refused at once, with what it has, and nothing is
// left.
TEST(StateFilesTest, RefusesMoreThanThereIs) {
  Folder folder;
  auto files = StateFiles::allocate(folder.path, {0, 2}, uint64_t(1) << 45);
  ASSERT_FALSE(files.ok());
  Status status = files.takeStatus();
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_TRUE(has(status, "2 ranks take 35184372088832 bytes each"))
      << status.str();
  EXPECT_TRUE(has(status, " free"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

// So is what the file system refuses to reserve.
TEST(StateFilesTest, ReservesAtTheStart) {
  Folder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit less{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
  auto files = StateFiles::allocate(folder.path, {4, 1}, 2 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  ASSERT_FALSE(files.ok());
  Status status = files.takeStatus();
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_TRUE(has(status, "cannot reserve 2097152 bytes for the optimizer "
                          "states of rank 4"))
      << status.str();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

// A folder that is missing is made with those above it, and all of them go with
// the files, however the path is written.
TEST(StateFilesTest, MakesFolders) {
  for (const char *path : {"/a", "/a/b/c", "/a//b/", "/a/../b/./c"}) {
    Folder folder;
    {
      auto files = StateFiles::allocate(folder.path + path, {0, 2}, 4096);
      ASSERT_TRUE(files.ok()) << files.takeStatus().str();
      EXPECT_TRUE(std::filesystem::is_directory(folder.path + path));
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path)) << path;
  }
}

// A relative one is made in the folder at hand.
TEST(StateFilesTest, MakesRelativeFolders) {
  Folder folder;
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path);
  {
    auto files = StateFiles::allocate("a/b", {0, 1}, 4096);
    EXPECT_TRUE(files.ok());
    EXPECT_TRUE(std::filesystem::is_directory(folder.path + "/a/b"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  std::filesystem::current_path(before);
}

// What was there stays, and so does what others put into a folder of ours,
// with what holds it.
TEST(StateFilesTest, LeavesFoldersOfOthers) {
  Folder folder;
  std::filesystem::create_directory(folder.path + "/a");
  {
    auto files = StateFiles::allocate(folder.path + "/a/b/c", {0, 1}, 4096);
    ASSERT_TRUE(files.ok());
    std::filesystem::create_directory(folder.path + "/a/b/theirs");
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/a/b/c"));
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/a/b/theirs"));
  {
    EXPECT_TRUE(StateFiles::allocate(folder.path + "/a", {0, 1}, 1).ok());
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/a"));
}

// A job that finds a folder leaves it to the one that made it, and keeps its
// files where that one ends first.
TEST(StateFilesTest, SharesFolders) {
  Folder folder;
  std::string path = folder.path + "/a/b";
  auto first = std::make_unique<Result<StateFiles>>(
      StateFiles::allocate(path, {0, 1}, 4096));
  auto second = StateFiles::allocate(path, {1, 1}, 4096);
  ASSERT_TRUE(first->ok() && second.ok());
  first.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  int value = 7, found = 0;
  ASSERT_TRUE(second->of(1).write(100, sizeof value, &value).ok());
  ASSERT_TRUE(second->of(1).read(100, sizeof found, &found).ok());
  EXPECT_EQ(found, 7);
}

// A folder that cannot be made is refused with its path, and what was made for
// it is gone; so is one that is made and then found too small.
TEST(StateFilesTest, RefusesFoldersThatCannotBeMade) {
  Folder folder;
  std::string file = folder.path + "/file", link = folder.path + "/link";
  std::ofstream(file) << "text";
  std::filesystem::create_symlink("nowhere/at/all", link);
  for (std::string path :
       {file, file + "/a", link, folder.path + "/a/" + std::string(300, 'x')}) {
    auto files = StateFiles::allocate(path, {0, 1}, 4096);
    ASSERT_FALSE(files.ok()) << path;
    Status status = files.takeStatus();
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_TRUE(has(status, "cannot make the folder \"" + folder.path + "/"))
        << status.str();
  }
  EXPECT_FALSE(
      StateFiles::allocate(folder.path + "/b", {0, 1}, uint64_t(1) << 45).ok());
  for (const char *made : {"/a", "/b", "/nowhere"})
    EXPECT_FALSE(std::filesystem::exists(folder.path + made)) << made;
}

// A job that keeps something in files needs a folder; another does not, and
// makes none.
TEST(StateFilesTest, AsksForAFolder) {
  EXPECT_TRUE(StateFiles::allocate("", {0, 1}, 0).ok());
  Folder folder;
  auto none = StateFiles::allocate(folder.path + "/a", {0, 1}, 0);
  EXPECT_TRUE(none.ok() && std::filesystem::is_empty(folder.path));
  auto files = StateFiles::allocate("", {0, 1}, 4096);
  ASSERT_FALSE(files.ok());
  EXPECT_TRUE(has(files.takeStatus(), "--nvme-path"));
}

} // namespace
} // namespace ciuic::rt::test
