//===- disk_copy_test.cpp - Programs with states in files -----------------===//
#include "test/runtime/task/StatesInFiles.h"

#include <gtest/gtest.h>
#include <numeric>

namespace ciuic::rt::test {
namespace {

using abi::TaskKind;
constexpr int64_t elements = StatesInFiles::elements;

/// What element 0 of a state of a rank starts with.
float start(uint32_t rank, size_t state) {
  return static_cast<float>(1000 * rank + 100 * state);
}

/// Whether a state of a rank holds start, start + 1, ... and `added` more.
void expectState(StatesInFiles &files, Machine &machine, uint32_t rank,
                 size_t state, float added) {
  std::vector<float> expected(elements), found(elements);
  std::iota(expected.begin(), expected.end(), start(rank, state) + added);
  Status status =
      machine.read(files.states[state], rank, 0, elements, found.data());
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(found, expected) << "rank " << rank << " state " << state;
}

// Each rank's states change in its own file, run after run, whoever moves them;
// a skipped write leaves them.
TEST(DiskCopyTest, StatesChangeInFiles) {
  for (const char *by : {"auto", "threads"}) {
    StatesInFiles files;
    auto made = files.make({.by = by});
    ASSERT_TRUE(made.ok()) << made.takeStatus().str();
    Machine &machine = **made;
    for (uint32_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i < 2; ++i) {
        std::vector<float> values(elements);
        std::iota(values.begin(), values.end(), start(rank, i));
        ASSERT_TRUE(
            machine.write(files.states[i], rank, 0, elements, values.data())
                .ok());
      }
    for (int run = 0; run < 5; ++run)
      ASSERT_TRUE(machine.run("add").ok());
    float one = 1;
    ASSERT_TRUE(machine.write(files.skip, 1, 0, 1, &one).ok());
    ASSERT_TRUE(machine.run("add").ok());
    for (uint32_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i < 2; ++i)
        expectState(files, machine, rank, i, rank == 1 ? 5 : 6);
    // Reads and writes of 3 ranks and 2 states; one rank skipped 2 writes.
    EXPECT_EQ(machine.executed(TaskKind::Copy), 6u * 3 * 4 - 2);
  }
}

// Elements of a state are read and written one by one, too.
TEST(DiskCopyTest, ElementsAreReadAndWritten) {
  StatesInFiles files;
  auto made = files.make();
  ASSERT_TRUE(made.ok());
  float in[2] = {3, 4}, out[3] = {};
  ASSERT_TRUE((*made)->write(files.states[1], 2, 4097, 2, in).ok());
  ASSERT_TRUE((*made)->read(files.states[1], 2, 4096, 3, out).ok());
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 3);
  EXPECT_EQ(out[2], 4);
  EXPECT_FALSE((*made)->read(files.states[1], 2, elements, 1, out).ok());
}

// A folder that cannot be made is told.
TEST(DiskCopyTest, FoldersAreChecked) {
  StatesInFiles files;
  auto made = files.make({.folder = "/dev/null/nvme"});
  ASSERT_FALSE(made.ok());
  Status status = made.takeStatus();
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("folder \"/dev/null/nvme\""), std::string::npos)
      << status.str();
  files.folder.clear();
  files.test.bundle.disk.folder = files.folder.c_str();
  EXPECT_FALSE(files.make().ok());
}

// Without anything in files a folder is a mistake.
TEST(DiskCopyTest, FoldersOfNoUse) {
  TestBundle test(1);
  test.bundle.target = abi::Target::Cpu;
  test.program("nothing");
  MachineOptions options;
  options.disk.folder = "/tmp";
  auto made = HostMachine::create(test.finish(), options);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.takeStatus().str().find("--nvme-path /tmp is of no use"),
            std::string::npos);
}

} // namespace
} // namespace ciuic::rt::test
