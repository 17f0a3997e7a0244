//===- storage_machine_test.cpp - A job's memory without devices ----------===//
#include "runtime/task/StorageMachine.h"

#include <gtest/gtest.h>

#include <vector>

namespace ciuic::rt {
namespace {

/// Two ranks with a whole table and chunks in memories and files; no tasks.
struct Tables {
  abi::Buffer buffers[3] = {{"w", 64, 256, abi::Arena::Device},
                            {"m", 32, 0, abi::Arena::Host},
                            {"v", 32, 256, abi::Arena::Nvme}};
  abi::Program programs[1] = {};
  abi::Bundle bundle = {};

  Tables() {
    programs[0].name = "apply";
    bundle.version = abi::kVersion;
    bundle.ranks = 2;
    bundle.arenaBytes[0] = 512;
    bundle.arenaBytes[1] = 256;
    bundle.arenaBytes[2] = 512;
    bundle.buffers = buffers;
    bundle.bufferCount = 3;
    bundle.programs = programs;
    bundle.programCount = 1;
    bundle.target = abi::Target::Cuda;
  }

  std::unique_ptr<Machine> make() {
    auto made = StorageMachine::create(bundle, {});
    EXPECT_TRUE(made.ok());
    return made.ok() ? std::move(*made) : nullptr;
  }
};

abi::View view(uint32_t buffer, int64_t elements, uint64_t offset = 0,
               int64_t rankStride = 0) {
  return {buffer,        abi::DType::F32, 1, offset, rankStride,
          {1, elements}, {elements, 1}};
}

// What is written to a rank is read from it, and only from it.
TEST(StorageMachineTest, KeepsEachRank) {
  Tables tables;
  auto machine = tables.make();
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->localRanks(), 2u);
  std::vector<float> out(8, -1);
  for (uint32_t buffer : {0u, 1u, 2u})
    for (uint32_t rank : {0u, 1u}) {
      std::vector<float> in(8, float(1 + 2 * buffer + rank));
      ASSERT_TRUE(machine->write(view(buffer, 8), rank, 0, 8, in.data()).ok());
    }
  for (uint32_t buffer : {0u, 1u, 2u})
    for (uint32_t rank : {0u, 1u}) {
      ASSERT_TRUE(machine->read(view(buffer, 8), rank, 0, 8, out.data()).ok());
      EXPECT_EQ(out, std::vector<float>(8, float(1 + 2 * buffer + rank)));
    }
}

// A chunk is where its rank's part of the whole begins; part of it can be read.
TEST(StorageMachineTest, FindsChunks) {
  Tables tables;
  auto machine = tables.make();
  ASSERT_TRUE(machine);
  std::vector<float> whole = {0, 1, 2, 3, 4, 5, 6, 7};
  ASSERT_TRUE(machine->write(view(0, 8), 1, 0, 8, whole.data()).ok());
  std::vector<float> part(2);
  ASSERT_TRUE(machine->read(view(0, 4, 0, 16), 1, 1, 2, part.data()).ok());
  EXPECT_EQ(part, (std::vector<float>{5, 6}));
}

// What was never written is zero.
TEST(StorageMachineTest, StartsAsZero) {
  Tables tables;
  auto machine = tables.make();
  ASSERT_TRUE(machine);
  std::vector<float> out(16, 1);
  ASSERT_TRUE(machine->read(view(0, 16), 0, 0, 16, out.data()).ok());
  EXPECT_EQ(out, std::vector<float>(16, 0));
}

// Elements beyond the view, and ranks that are not there, are refused.
TEST(StorageMachineTest, RefusesWhatIsNotThere) {
  Tables tables;
  auto machine = tables.make();
  ASSERT_TRUE(machine);
  float value = 0;
  EXPECT_FALSE(machine->read(view(0, 16), 0, 16, 1, &value).ok());
  EXPECT_FALSE(machine->write(view(0, 16), 2, 0, 1, &value).ok());
}

// It knows the programs and runs none.
TEST(StorageMachineTest, RunsNothing) {
  Tables tables;
  auto machine = tables.make();
  ASSERT_TRUE(machine);
  EXPECT_TRUE(machine->has("apply"));
  EXPECT_FALSE(machine->has("eval_first"));
  EXPECT_FALSE(machine->run("apply").ok());
}

} // namespace
} // namespace ciuic::rt
