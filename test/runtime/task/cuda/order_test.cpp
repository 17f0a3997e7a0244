//===- order_test.cpp - Random programs on emulated GPUs ------------------===//
#include "runtime/task/cuda/DevicePlan.h"
#include "test/runtime/task/cuda/RandomProgram.h"

namespace ciuic::rt::test {
namespace {

/// How a program is run.
struct Way {
  uint32_t ranks;
  bool shareDevice;
  bool hostTasks;
  bool graphs = false;
  bool flags = true; ///< The driver can wait for flags in memory.
};

std::string nameOf(const testing::TestParamInfo<Way> &info) {
  const Way &way = info.param;
  return std::to_string(way.ranks) +
         (way.shareDevice ? "_shared" : "_devices") +
         (way.hostTasks ? "_host" : "") + (way.graphs ? "_graphs" : "") +
         (way.flags ? "" : "_no_flags");
}

/// How many graphs a run of it launches on all devices.
uint64_t graphsOf(RandomProgram &program, const Way &way) {
  if (!way.graphs)
    return 0;
  PlanOptions options{way.shareDevice ? way.ranks : 1, way.shareDevice, true};
  DevicePlan plan = planProgram(program.test.finish().programs[0], options);
  return plan.graphs.size() * (way.shareDevice ? 1 : way.ranks);
}

/// Runs a random program three times without waiting in between.
RandomProgram::Memory runOnGpus(RandomProgram &program, const Way &way,
                                uint64_t seed) {
  onhost::Settings settings =
      devicesOf(way.shareDevice ? 1 : static_cast<int>(way.ranks), seed);
  settings.streamMemoryOperations = way.flags;
  MachineOptions options;
  options.cuda.shareDevice = way.shareDevice;
  options.cuda.graphs = way.graphs;
  Gpus gpus(program.test, options, &settings);
  EXPECT_TRUE(gpus.status.ok()) << gpus.status.str();
  RandomProgram::Memory memory = program.start();
  if (!gpus.machine)
    return memory;
  for (uint32_t rank = 0; rank < way.ranks; ++rank)
    for (size_t v = 0; v < program.views.size(); ++v) {
      Status status = gpus.write(program.views[v], rank, memory[rank][v]);
      EXPECT_TRUE(status.ok()) << status.str();
    }
  for (int round = 0; round < 3; ++round) {
    Status status = gpus.machine->run("p");
    EXPECT_TRUE(status.ok()) << status.str();
  }
  Status status = gpus.machine->wait();
  EXPECT_TRUE(status.ok()) << status.str();
  // The first run captures and launches none.
  EXPECT_EQ(onhost::calls("cudaGraphLaunch"), 2 * graphsOf(program, way));
  EXPECT_EQ(onhost::calls("cudaGraphInstantiate"), graphsOf(program, way));
  for (uint32_t rank = 0; rank < way.ranks; ++rank)
    for (size_t v = 0; v < program.views.size(); ++v)
      memory[rank][v] = gpus.read(program.views[v], rank);
  return memory;
}

class OrderTest : public testing::TestWithParam<Way> {};

// Every interleaving of every program computes what its tasks compute one after
// another, and no two accesses are unordered.
TEST_P(OrderTest, RandomProgramsComputeWhatTheirOrderSays) {
  const Way &way = GetParam();
  uint64_t graphs = 0;
  for (uint32_t seed = 1; seed <= (way.ranks > 2 ? 6 : 12); ++seed) {
    SCOPED_TRACE(seed);
    // With graphs, stretches between host tasks that are long enough for them.
    uint32_t hostEvery = !way.hostTasks ? 0 : way.graphs ? 3 : 1;
    RandomProgram program(way.ranks, seed, 40, hostEvery);
    graphs += graphsOf(program, way);
    RandomProgram::Memory expected = program.start();
    for (int round = 0; round < 3; ++round)
      program.interpret(expected);
    RandomProgram::Memory found = runOnGpus(program, way, seed);
    for (uint32_t rank = 0; rank < way.ranks; ++rank)
      for (size_t v = 0; v < program.views.size(); ++v)
        EXPECT_EQ(found[rank][v], expected[rank][v])
            << "view " << v << " of rank " << rank;
    if (testing::Test::HasFailure())
      break;
  }
  EXPECT_EQ(graphs > 0, way.graphs);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, OrderTest,
    testing::Values(Way{1, false, true}, Way{1, false, true, false, false},
                    Way{1, false, false, true}, Way{1, false, true, true},
                    Way{1, false, true, true, false}, Way{2, false, true},
                    Way{2, false, false, true}, Way{2, false, true, true},
                    Way{2, true, true}, Way{2, true, true, false, false},
                    Way{2, true, false, true}, Way{2, true, true, true},
                    Way{2, true, true, true, false}, Way{8, false, true},
                    Way{8, true, true}, Way{8, true, false, true},
                    Way{8, true, true, true}),
    nameOf);

} // namespace
} // namespace ciuic::rt::test
