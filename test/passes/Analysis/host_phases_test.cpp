//===- host_phases_test.cpp - Host memory beside the arenas ---------------===//
#include "dialect/Train/Train.h"
#include "mlir/Parser/Parser.h"
#include "passes/Analysis/HostPhases.h"
#include "runtime/abi/Staging.h"
#include "runtime/kernels/host/Scratch.h"

#include <gtest/gtest.h>

namespace ciuic::sched {
namespace {

using namespace mlir;

/// A module of 8 ranks with inputs of 64 bytes and these tasks and attributes.
class HostPhases : public testing::Test {
protected:
  std::vector<HostPhase> find(const std::string &tasks,
                              const ProcessFacts &facts,
                              const std::string &attributes = "",
                              const std::string &states = "") {
    context.getOrLoadDialect<SchedDialect>();
    context.getOrLoadDialect<train::TrainDialect>();
    std::string text = "module attributes {sched.ranks = 8 : i64" + attributes +
                       "} {\n" + states +
                       "sched.buffer @tokens 64 bytes in device\n"
                       "sched.buffer @a 4194304 bytes in device of @p\n"
                       "sched.buffer @b 4194304 bytes in device of @p\n"
                       "sched.buffer @c 4194304 bytes in device of @p\n"
                       "sched.program @p {\n" +
                       tasks + "\n}\n}";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module ? findHostPhases(*module, facts) : std::vector<HostPhase>();
  }

  static int64_t part(const std::vector<HostPhase> &phases,
                      const std::string &phase, const std::string &name) {
    for (const HostPhase &one : phases)
      for (const HostPart &part : one.parts)
        if (one.name == phase && part.name == name)
          return part.bytes;
    return -1;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

std::string view(const std::string &access, const std::string &buffer,
                 const std::string &type) {
  return "#sched.view<" + access + " @" + buffer + "[0] : tensor<" + type +
         ">>";
}

std::string product(const std::string &type) {
  return R"(sched.task gemm "g" on compute [)" +
         view("read", "a", "512x256x" + type) + ", " +
         view("read", "b", "256x512x" + type) + ", " +
         view("write", "c", "512x512x" + type) + "] ints [0, 0, 0]";
}

// What all phases have, and what each has for itself.
TEST_F(HostPhases, HaveTheirParts) {
  auto phases = find(
      product("f32"),
      {1, 4, {{"libraries", "me", 1000, false}, {"stacks", "me", 10, true}}});
  ASSERT_EQ(phases.size(), 5u);
  for (const HostPhase &phase : phases) {
    EXPECT_EQ(part(phases, phase.name, "libraries"), 1000);
    EXPECT_EQ(part(phases, phase.name, "stacks"), 40);
    EXPECT_EQ(part(phases, phase.name, "batch"), 64);
    // One task, and 8 ranks that run it.
    EXPECT_EQ(part(phases, phase.name, "tasks"), 9 * 1024);
    for (const HostPart &one : phase.parts)
      EXPECT_FALSE(one.source.empty()) << one.name;
  }
  EXPECT_EQ(part(phases, "start", "staging of values"),
            int64_t(abi::kFillStagingBytes));
  EXPECT_EQ(part(phases, "resume", "staging of values"),
            int64_t(abi::kFillStagingBytes));
  EXPECT_EQ(part(phases, "checkpoint", "staging of a tensor"),
            int64_t(abi::kSaveStagingBytes));
  EXPECT_EQ(part(phases, "export", "staging of a tensor"),
            int64_t(abi::kSaveStagingBytes));
  EXPECT_EQ(part(phases, "step", "staging of values"), -1);
  EXPECT_EQ(highestPhase(phases).name, "start");
}

// Each thread has scratch for the task that needs most; a device has its own.
// Many threads need more to measure products than to fill states.
TEST_F(HostPhases, CountScratchOfThreads) {
  auto three = find(product("f32"), {1, 3, {}});
  EXPECT_EQ(part(three, "step", "scratch of tasks"), 3 * rt::gemmMostScratch);
  auto cuda = find(product("bf16"), {1, 3, {}},
                   R"(, sched.target = "cuda", sched.architectures = "sm_80")");
  EXPECT_EQ(part(cuda, "step", "scratch of tasks"), 0);
  auto many = find(product("f32"), {1, 64, {}});
  EXPECT_EQ(part(many, "start", "staging of values"), -1);
  EXPECT_EQ(part(many, "start", "measured products"),
            3 * 4 * 1024 * 1024 + 64 * rt::gemmMostScratch);
}

// Ranks are divided among processes: each has fewer nodes, and memory for what
// it sends to the others.
TEST_F(HostPhases, DivideRanksAmongProcesses) {
  std::string reduce = R"(sched.task all_reduce "r" on reduce [)" +
                       view("read", "a", "1024xf32") + ", " +
                       view("write", "b", "1024xf32") + "] ints [1]";
  auto one = find(reduce, {1, 2, {}}), three = find(reduce, {3, 2, {}});
  EXPECT_EQ(part(one, "step", "tasks"), 9 * 1024);
  EXPECT_EQ(part(three, "step", "tasks"), 4 * 1024);
  EXPECT_EQ(part(one, "step", "scratch of tasks"), 0);
  EXPECT_EQ(part(three, "step", "scratch of tasks"), abi::kExchangeBytes);
  // With very many ranks the least piece is larger than that.
  EXPECT_GT(abi::exchangeStaging(1024, 512, 4), abi::kExchangeBytes);
}

// What passes between callers and devices is pinned, for each rank.
TEST_F(HostPhases, NamePinnedStaging) {
  auto cuda = find("", {2, 2, {}},
                   R"(, sched.target = "cuda", sched.architectures = "sm_80")");
  EXPECT_EQ(part(cuda, "step", "pinned staging"),
            4 * 8 * int64_t(abi::kPinnedPieceBytes));
  EXPECT_EQ(part(find("", {2, 2, {}}), "step", "pinned staging"), -1);
}

// No count makes a sum overflow.
TEST_F(HostPhases, StaySane) {
  auto phases =
      find(product("bf16"), {1,
                             int64_t(1) << 40,
                             {{"libraries", "me", int64_t(1) << 59, true},
                              {"more", "me", int64_t(1) << 59, false}}});
  for (const HostPhase &phase : phases) {
    EXPECT_GT(phase.bytes(), int64_t(1) << 57);
    EXPECT_LE(phase.bytes(), int64_t(1) << 59);
  }
}

} // namespace
} // namespace ciuic::sched
