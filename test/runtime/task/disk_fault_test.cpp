//===- disk_fault_test.cpp - Files of states that fail --------------------===//
//
// The files have no name by the time a machine runs. A test finds them among
// the descriptors of this process and puts what fails in their place.
//
//===----------------------------------------------------------------------===//
#include "test/runtime/task/StatesInFiles.h"

#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/resource.h>
#include <unistd.h>

namespace ciuic::rt::test {
namespace {

/// This process's descriptors of files of states in `folder`.
std::vector<int> descriptorsIn(const std::string &folder) {
  std::vector<int> found;
  for (const auto &entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    std::string file = std::filesystem::read_symlink(entry, error);
    std::string name = entry.path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (!error && file.starts_with(folder + "/.ciuicc-"))
      found.push_back(descriptor);
  }
  return found;
}

/// Lets the files be `path` from now on.
void replaceBy(const std::string &folder, const char *path) {
  int other = open(path, O_RDWR | O_CLOEXEC);
  ASSERT_GE(other, 0) << path;
  std::vector<int> files = descriptorsIn(folder);
  EXPECT_GE(files.size(), 3u);
  for (int file : files)
    EXPECT_EQ(dup2(other, file), file);
  close(other);
}

/// Whether files may have no more than `bytes`, while it lives; who writes more
/// is told by an error and not by a signal.
class FileLimit {
public:
  explicit FileLimit(rlim_t bytes) : handler(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
  }

private:
  rlimit before{};
  sighandler_t handler;
};

class DiskFaultTest : public testing::TestWithParam<const char *> {
protected:
  DiskFaultTest() {
    std::string pattern = testing::TempDir() + "ciuic-fault-XXXXXX";
    folder = std::filesystem::canonical(mkdtemp(pattern.data()));
    files.folder = folder;
    files.test.bundle.disk.folder = files.folder.c_str();
  }
  ~DiskFaultTest() override { std::filesystem::remove_all(folder); }

  void SetUp() override {
    DiskFlags flags;
    flags.by = GetParam();
    auto made = files.make(flags);
    if (!made.ok())
      GTEST_SKIP() << made.takeStatus().str();
    machine = std::move(*made);
    ASSERT_TRUE(machine->run("add").ok());
  }

  /// The program fails, once and again, and says `why` of which file and task;
  /// nothing stays in the folder.
  void expectFailure(const std::string &task, const std::string &why) {
    for (int run = 0; run < 2; ++run) {
      Status status = machine->run("add");
      EXPECT_EQ(status.code(), Code::Machine);
      for (const std::string &text : std::initializer_list<std::string>{
               why, " the optimizer states of rank ", " in " + folder,
               "running task \"" + task + "\" of rank "})
        EXPECT_NE((" " + status.str()).find(text), std::string::npos)
            << text << " is not in " << status.str();
    }
    machine.reset();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }

  StatesInFiles files;
  std::string folder;
  std::unique_ptr<Machine> machine;
};

// A disk that reads nothing any more: memory of a process where there is none
// gives the error that a broken disk gives.
TEST_P(DiskFaultTest, ReadsThatFail) {
  replaceBy(folder, "/proc/self/mem");
  expectFailure("read", ": Input/output error");
}

// A file that has become shorter.
TEST_P(DiskFaultTest, ShortFiles) {
  for (int file : descriptorsIn(folder))
    ASSERT_EQ(ftruncate(file, 4100), 0);
  expectFailure("read", " have no bytes from ");
}

// A disk that is full although space was reserved, as thin ones can be.
TEST_P(DiskFaultTest, FullDisks) {
  replaceBy(folder, "/dev/full");
  expectFailure("write", ": No space left on device");
}

// A limit of the user that has become smaller.
TEST_P(DiskFaultTest, LimitsOfFiles) {
  FileLimit limit(8192);
  expectFailure("write", ": File too large");
}

// What is read and written apart from programs, as checkpoints do, is told in
// the same way.
TEST_P(DiskFaultTest, ElementsOfStates) {
  replaceBy(folder, "/proc/self/mem");
  float value = 0;
  for (const Status &status :
       {machine->read(files.states[1], 2, 3, 1, &value),
        machine->write(files.states[1], 2, 3, 1, &value)}) {
    EXPECT_EQ(status.code(), Code::Machine);
    EXPECT_NE(status.str().find("of the optimizer states of rank 2 in " +
                                folder + ": Input/output error"),
              std::string::npos)
        << status.str();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DiskFaultTest,
                         testing::Values("io_uring", "threads"),
                         [](const auto &info) {
                           return std::string(info.param) == "threads"
                                      ? "Threads"
                                      : "Uring";
                         });

} // namespace
} // namespace ciuic::rt::test
