//===- disk_queue_test.cpp - Transfers between files and memory -----------===//
#include "runtime/disk/DiskQueue.h"

#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <unistd.h>

namespace ciuic::rt::test {
namespace {

using By = DiskOptions::By;

/// Memory that direct transfers take, and one byte more.
struct Memory {
  explicit Memory(uint64_t bytes)
      : data(static_cast<std::byte *>(
            std::aligned_alloc(4096, (bytes + 4096 + 4095) / 4096 * 4096))) {}
  ~Memory() { std::free(data); }
  std::byte *data;
};

/// Waits for as many calls back as there were transfers.
class Calls {
public:
  void operator()(Status status) {
    std::scoped_lock lock(mutex);
    statuses.push_back(std::move(status));
    changed.notify_all();
  }
  std::vector<Status> wait(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return statuses.size() >= count; });
    return std::move(statuses);
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Status> statuses;
};

StateFile makeFile(uint64_t bytes) {
  auto file = StateFile::create(testing::TempDir(), bytes, "the states");
  EXPECT_TRUE(file.ok());
  return std::move(*file);
}

/// A path opened as if it was a file of states.
StateFile openAs(const char *path, int flags) {
  return StateFile::adopt(open(path, flags | O_CLOEXEC), 1 << 20,
                          "the states in /nvme");
}

class DiskQueueTest : public testing::TestWithParam<By> {
protected:
  void SetUp() override {
    auto made = DiskQueue::create({GetParam(), 8192, 3});
    if (!made.ok())
      GTEST_SKIP() << made.takeStatus().str();
    queue = std::move(*made);
  }
  Status once(DiskTransfer &transfer) {
    Calls calls;
    transfer.done = [&](Status status) { calls(std::move(status)); };
    queue->submit(transfer);
    return std::move(calls.wait(1)[0]);
  }
  std::unique_ptr<DiskQueue> queue;
};

// Many transfers of odd sizes and places at once, each in several blocks, put
// and get every byte; again with the same transfers.
TEST_P(DiskQueueTest, MovesEveryByte) {
  constexpr uint64_t bytes = 300000;
  StateFile file = makeFile(bytes);
  Memory from(bytes), to(bytes);
  const uint64_t cuts[] = {0, 1, 4096, 4096 * 9, 4096 * 9 + 5, 200000, bytes};
  for (int round = 0; round < 3; ++round) {
    std::mt19937 random(round);
    for (uint64_t i = 0; i < bytes; ++i)
      from.data[i] = std::byte(random());
    std::memset(to.data, 0, bytes);
    for (bool write : {true, false}) {
      std::deque<DiskTransfer> transfers;
      Calls calls;
      for (size_t i = 0; i + 1 < std::size(cuts); ++i) {
        DiskTransfer &transfer = transfers.emplace_back();
        transfer.file = &file;
        transfer.write = write;
        transfer.offset = cuts[i];
        transfer.bytes = cuts[i + 1] - cuts[i];
        transfer.memory = (write ? from : to).data + cuts[i];
        transfer.done = [&](Status status) { calls(std::move(status)); };
      }
      for (DiskTransfer &transfer : transfers)
        queue->submit(transfer);
      for (Status &status : calls.wait(transfers.size()))
        EXPECT_TRUE(status.ok()) << status.str();
    }
    EXPECT_EQ(std::memcmp(from.data, to.data, bytes), 0);
  }
}

// A transfer of nothing is done at once.
TEST_P(DiskQueueTest, MovesNothing) {
  StateFile file = makeFile(4096);
  DiskTransfer transfer;
  transfer.file = &file;
  EXPECT_TRUE(once(transfer).ok());
}

// A full disk is told with the file, the bytes and the place, once, however
// many blocks the transfer has.
TEST_P(DiskQueueTest, TellsOfAFullDisk) {
  StateFile file = openAs("/dev/full", O_RDWR);
  Memory memory(100000);
  std::memset(memory.data, 0, 100000);
  DiskTransfer transfer;
  transfer.file = &file;
  transfer.write = true;
  transfer.bytes = 100000;
  transfer.memory = memory.data;
  Status status = once(transfer);
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("writing "), std::string::npos);
  EXPECT_NE(
      status.str().find("of the states in /nvme: No space left on device"),
      std::string::npos)
      << status.str();
  // Others go on.
  StateFile good = makeFile(4096);
  transfer.file = &good;
  transfer.bytes = 4096;
  EXPECT_TRUE(once(transfer).ok());
}

// A file that is shorter than it was is no endless read.
TEST_P(DiskQueueTest, TellsOfAShortFile) {
  StateFile file = makeFile(50000);
  ASSERT_EQ(ftruncate(file.descriptor(nullptr, 1, 1), 20000), 0);
  Memory memory(50000);
  DiskTransfer transfer;
  transfer.file = &file;
  transfer.bytes = 50000;
  transfer.memory = memory.data;
  Status status = once(transfer);
  EXPECT_EQ(status.code(), Code::Machine);
  EXPECT_NE(status.str().find("have no bytes from "), std::string::npos)
      << status.str();
}

// What the system refuses is told with its reason.
TEST_P(DiskQueueTest, TellsWhatTheSystemSays) {
  StateFile file = openAs("/dev/zero", O_RDONLY);
  Memory memory(4096);
  DiskTransfer transfer;
  transfer.file = &file;
  transfer.write = true;
  transfer.bytes = 4096;
  transfer.memory = memory.data;
  Status status = once(transfer);
  EXPECT_NE(status.str().find("Bad file descriptor"), std::string::npos)
      << status.str();
}

INSTANTIATE_TEST_SUITE_P(All, DiskQueueTest,
                         testing::Values(By::Uring, By::Threads),
                         [](const auto &info) {
                           return info.param == By::Uring ? "Uring" : "Threads";
                         });

// A ring that breaks fails what is under way and what comes after, and nobody
// waits for ever.
TEST(UringQueueTest, TellsOfABrokenRing) {
  auto rings = [] {
    std::set<int> found;
    for (const auto &entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      auto target = std::filesystem::read_symlink(entry, error);
      if (!error && target == "anon_inode:[io_uring]")
        found.insert(std::stoi(entry.path().filename()));
    }
    return found;
  };
  std::set<int> before = rings();
  auto queue = DiskQueue::create({By::Uring, 4096, 2});
  if (!queue.ok())
    GTEST_SKIP() << queue.takeStatus().str();
  for (int ring : rings())
    if (!before.contains(ring)) {
      int other = open("/dev/null", O_RDWR | O_CLOEXEC);
      ASSERT_EQ(dup2(other, ring), ring);
      close(other);
    }
  StateFile file = makeFile(100000);
  Memory memory(100000);
  for (int round = 0; round < 3; ++round) {
    // More blocks than are under way at once.
    Calls calls;
    DiskTransfer transfers[3];
    for (DiskTransfer &transfer : transfers) {
      transfer.file = &file;
      transfer.bytes = 100000;
      transfer.memory = memory.data;
      transfer.done = [&](Status status) { calls(std::move(status)); };
      (*queue)->submit(transfer);
    }
    for (Status &status : calls.wait(3))
      EXPECT_NE(status.str().find("of the states in "), std::string::npos)
          << status.str();
  }
}

// Blocks and depths out of range are refused.
TEST(DiskQueueOptionsTest, AreChecked) {
  for (DiskOptions options :
       {DiskOptions{By::Any, 0, 8}, DiskOptions{By::Any, 5000, 8},
        DiskOptions{By::Any, 4096, 0}, DiskOptions{By::Any, 4096, 5000}}) {
    auto made = DiskQueue::create(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.takeStatus().code(), Code::Invalid);
  }
}

} // namespace
} // namespace ciuic::rt::test
