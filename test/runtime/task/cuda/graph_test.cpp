//===- graph_test.cpp - Stretches of tasks replayed as graphs -------------===//
#include "runtime/task/cuda/PlanGraphs.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <cuda_runtime_api.h>

namespace ciuic::rt::test {
namespace {

using abi::Arena;
using abi::Stream;
using abi::TaskKind;

/// A program whose graph stands between two host tasks. On the reduce stream
/// `y` is written before the graph, read in it for `z`, and `z` is read after
/// it: only the stream's own order says so, and that a graph has to keep.
struct Stretches {
  Stretches() : test(1) {
    x = test.view("x", 1, 4);
    y = test.view("y", 1, 4);
    z = test.view("z", 1, 4);
    sum = test.view("sum", 1, 4);
    last = test.view("last", 1, 4);
    host = test.view("host", 1, 4, abi::DType::F32, 1, Arena::Host);
    auto &p = test.program("p");
    addStep(p, "before", x, y, Stream::Reduce);
    uint32_t down =
        add(p, "down", TaskKind::Copy, {x, host}, {.stream = Stream::D2H});
    uint32_t update = addHostStep(p, "update", host, host, {down});
    addStep(p, "within", y, z, Stream::Reduce);
    uint32_t many = 0;
    for (uint32_t i = 0; i < fewestOfGraph; ++i)
      many = addStep(p, "many", sum, sum);
    uint32_t again = addHostStep(p, "update again", host, host, {many});
    uint32_t after = addStep(p, "after", z, last, Stream::Reduce);
    add(p, "up", TaskKind::Copy, {host, x},
        {.stream = Stream::H2D, .waits = {update, again, after}});
  }

  Status fill(Gpus &gpus) {
    for (const abi::View &view : {x, sum})
      CIUIC_TRY(gpus.write(view, 0, {1, 2, 3, 4}));
    return gpus.machine->wait();
  }

  DevicePlan plan() {
    return planProgram(test.finish().programs[0], {.graphs = true});
  }

  TestBundle test;
  abi::View x, y, z, sum, last, host;
};

MachineOptions withGraphs(bool graphs) {
  MachineOptions options;
  options.cuda.graphs = graphs;
  return options;
}

// With graphs and without, with waits for flags and without, there are the same
// values after every run; each run but the first launches the one graph, and
// all tasks are counted.
TEST(GraphTest, StretchesComputeTheSame) {
  for (uint64_t seed = 1; seed <= 6; ++seed)
    for (bool flags : {true, false}) {
      SCOPED_TRACE(seed);
      std::vector<std::vector<float>> found[2];
      for (bool graphs : {false, true}) {
        Stretches job;
        onhost::Settings settings = devicesOf(1, seed);
        settings.streamMemoryOperations = flags;
        Gpus gpus(job.test, withGraphs(graphs), &settings);
        ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
        ASSERT_TRUE(job.fill(gpus).ok());
        for (int run = 0; run < 4; ++run) {
          ASSERT_TRUE(gpus.machine->run("p").ok());
          if (run % 2)
            for (const abi::View &view : {job.x, job.sum, job.last})
              found[graphs].push_back(gpus.read(view, 0));
        }
        EXPECT_EQ(onhost::calls("cudaGraphLaunch"), graphs ? 3u : 0u);
        EXPECT_EQ(onhost::calls("cudaGraphInstantiate"), graphs ? 1u : 0u);
        EXPECT_EQ(gpus.machine->executed(TaskKind::Launch),
                  4 * (fewestOfGraph + 5));
      }
      EXPECT_EQ(found[0], found[1]);
      EXPECT_EQ(found[0].size(), 6u);
    }
}

// Of the waits around a graph the one into it and the one out of it are each
// needed: without it, some interleaving shows accesses that nothing orders.
TEST(GraphTest, DroppedJoinsAreFound) {
  DevicePlan plan = Stretches().plan();
  ASSERT_EQ(plan.graphs.size(), 1u);
  const PlanGraph &graph = plan.graphs[0];
  // Among the waits that a launched program enqueues.
  std::vector<uint64_t> joins;
  uint64_t waits = 0;
  for (uint32_t i = 0; i < plan.steps.size(); ++i) {
    if (i == graph.begin)
      i = graph.end;
    if (plan.steps[i].kind != PlanStep::Kind::Wait)
      continue;
    // Right before the Graph step, and after the record that ends the graph.
    if (i == graph.begin - 2 || i == graph.end + 1)
      joins.push_back(waits);
    ++waits;
  }
  ASSERT_EQ(joins.size(), 2u);
  for (uint64_t join : joins) {
    SCOPED_TRACE(join);
    uint64_t found = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      Stretches job;
      onhost::Settings settings = devicesOf(1, seed);
      Gpus gpus(job.test, withGraphs(true), &settings);
      gpus.expectClean = false;
      ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
      ASSERT_TRUE(job.fill(gpus).ok());
      ASSERT_TRUE(gpus.machine->run("p").ok());
      ASSERT_TRUE(gpus.machine->run("p").ok());
      ASSERT_TRUE(gpus.machine->wait().ok());
      EXPECT_TRUE(onhost::takeReports().empty());
      onhost::inject(onhost::Fault::DropWait, join);
      (void)gpus.machine->run("p");
      (void)gpus.machine->wait();
      EXPECT_EQ(onhost::injected(), 1u);
      found += !onhost::takeReports().empty();
    }
    EXPECT_GT(found, 0u);
  }
}

// What fails of a graph is said with its program.
TEST(GraphTest, FailuresNameTheProgram) {
  for (const char *call : {"cudaStreamBeginCapture", "cudaStreamEndCapture",
                           "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    SCOPED_TRACE(call);
    Stretches job;
    onhost::Settings settings = devicesOf(1, 1);
    Gpus gpus(job.test, withGraphs(true), &settings);
    gpus.expectClean = false;
    ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
    ASSERT_TRUE(job.fill(gpus).ok());
    ASSERT_TRUE(gpus.machine->run("p").ok());
    ASSERT_TRUE(gpus.machine->wait().ok());
    onhost::failCall(call, 0, cudaErrorInvalidValue);
    (void)gpus.machine->run("p");
    Status status = gpus.machine->wait();
    EXPECT_EQ(status.code(), Code::Machine);
    for (const char *part : {call, "program \"p\""})
      EXPECT_NE(status.str().find(part), std::string::npos) << status.str();
  }
}

} // namespace
} // namespace ciuic::rt::test
