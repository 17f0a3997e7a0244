//===- device_plan_test.cpp - Order and waits of a device's steps ---------===//
#include "runtime/task/cuda/PlanGraphs.h"
#include "test/runtime/task/TestProgram.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace ciuic::rt::test {
namespace {

using abi::Stream;
using abi::TaskKind;
using Kind = PlanStep::Kind;

/// What a plan orders: for each (task, rank), all (task, rank) that are done
/// before it begins. A task of all ranks is that of each. If `replayed`, within
/// graphs lanes know only what they wait for there, and of a graph's events and
/// lanes nothing is left after it but its own lane.
class Ordered {
public:
  using Place = std::pair<uint32_t, uint32_t>;

  Ordered(const DevicePlan &plan, const abi::Program &program, uint32_t ranks,
          bool shared, bool replayed = false) {
    std::vector<std::set<Place>> done(ranks * abi::kStreams), outside;
    std::map<uint32_t, std::set<Place>> recorded, recordedOutside;
    std::map<uint32_t, bool> released;
    uint32_t graphEnd = 0, graphLane = 0;
    for (uint32_t at = 0; at < plan.steps.size(); ++at) {
      const PlanStep &step = plan.steps[at];
      if (graphEnd != 0 && at == graphEnd) {
        outside[graphLane] = done[graphLane];
        done = outside;
        recorded = recordedOutside;
        graphEnd = 0;
      }
      std::set<Place> &lane = done[step.lane];
      switch (step.kind) {
      case Kind::Run: {
        bool all = shared && isAll(program.tasks[step.index].kind);
        for (uint32_t r = 0; r < ranks; ++r)
          if (all || r == step.rank)
            before[{step.index, r}] = lane;
        for (uint32_t r = 0; r < ranks; ++r)
          if (all || r == step.rank)
            lane.insert({step.index, r});
        break;
      }
      case Kind::Record:
        EXPECT_FALSE(recorded.count(step.index)) << "recorded twice";
        recorded[step.index] = lane;
        break;
      case Kind::Wait:
        EXPECT_TRUE(recorded.count(step.index)) << "awaited before recorded";
        lane.insert(recorded[step.index].begin(), recorded[step.index].end());
        break;
      case Kind::Release: {
        // What a host function has seen holds for its whole stretch.
        const HostStretch &stretch = plan.stretches[step.index];
        std::set<Place> seen = lane;
        for (uint32_t task : stretch.tasks) {
          before[{task, stretch.rank}] = seen;
          seen.insert({task, stretch.rank});
        }
        released[step.index] = true;
        break;
      }
      case Kind::Await: {
        EXPECT_TRUE(released[step.index]) << "awaited before released";
        const HostStretch &stretch = plan.stretches[step.index];
        for (uint32_t task : stretch.tasks)
          lane.insert({task, stretch.rank});
        break;
      }
      case Kind::Graph:
        EXPECT_EQ(plan.graphs[step.index].begin, at + 1);
        if (!replayed)
          break;
        graphEnd = plan.graphs[step.index].end;
        graphLane = step.lane;
        outside = done;
        for (uint32_t other = 0; other < done.size(); ++other)
          if (other != graphLane)
            done[other].clear();
        recordedOutside = std::exchange(recorded, {});
        break;
      }
    }
    for (uint32_t r = 0; r < ranks; ++r)
      end.push_back(done[laneOf(r, Stream::Compute)]);
  }

  static bool isAll(TaskKind kind) {
    return kind == TaskKind::AllGather || kind == TaskKind::ReduceScatter ||
           kind == TaskKind::AllReduce;
  }

  std::map<Place, std::set<Place>> before;
  std::vector<std::set<Place>> end; ///< Done at each rank's end.
};

/// A program of random tasks on random streams with random waits.
struct RandomProgram {
  RandomProgram(uint32_t seed, uint32_t tasks, uint32_t hostShare = 6)
      : test(1) {
    std::mt19937 random(seed);
    abi::View view = test.scalar("x");
    auto &program = test.program("p");
    for (uint32_t t = 0; t < tasks; ++t) {
      TaskOptions options;
      TaskKind kind = TaskKind::Zero;
      options.stream = static_cast<Stream>(random() % abi::kStreams);
      if (isOfHost(options.stream) && random() % 6 >= hostShare)
        options.stream = Stream::Compute;
      if (random() % 4 == 0 && !isOfHost(options.stream)) {
        kind = TaskKind::AllReduce;
        options.stream = random() % 2 ? Stream::Gather : Stream::Reduce;
      }
      for (uint32_t n = random() % 3; t > 0 && n > 0; --n)
        options.waits.push_back(random() % t);
      add(program, "t", kind, {view}, options);
    }
  }
  const abi::Program &records() { return test.finish().programs[0]; }
  TestBundle test;
};

/// Whether a plan orders what the program's streams and waits ask for.
void expectOrder(const abi::Program &program, const PlanOptions &options) {
  DevicePlan plan = planProgram(program, options);
  Ordered ordered(plan, program, options.ranks, options.sharedCollectives,
                  options.graphs);
  std::vector<int64_t> last(abi::kStreams, -1);
  for (uint32_t t = 0; t < program.taskCount; ++t) {
    const abi::Task &task = program.tasks[t];
    std::vector<uint32_t> before(program.waits + task.waits.begin,
                                 program.waits + task.waits.end);
    int64_t &previous = last[static_cast<size_t>(task.stream)];
    if (previous >= 0)
      before.push_back(static_cast<uint32_t>(previous));
    previous = t;
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      Ordered::Place here(t, rank);
      ASSERT_TRUE(ordered.before.count(here))
          << "task " << t << " of rank " << rank << " is missing";
      ASSERT_TRUE(ordered.end[rank].count(here))
          << "the end does not wait for task " << t << " of rank " << rank;
      for (uint32_t earlier : before) {
        bool all = options.sharedCollectives && Ordered::isAll(task.kind);
        for (uint32_t r = 0; r < options.ranks; ++r)
          if (all || r == rank)
            ASSERT_TRUE(ordered.before[here].count(Ordered::Place(earlier, r)))
                << "task " << t << " of rank " << rank
                << " does not follow task " << earlier << " of rank " << r;
      }
    }
  }
}

// Whatever streams and waits say, each task follows what it must, on one rank,
// on several that share a device, and with graphs of all or of stretches.
TEST(DevicePlanTest, OrdersRandomPrograms) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed, 40, seed % 3);
    for (uint32_t ranks : {1u, 3u})
      for (bool graphs : {false, true})
        expectOrder(program.records(), {ranks, ranks > 1 || graphs, graphs});
  }
}

// A graph can be captured from its lane: every other lane waits, before all
// else, for what that lane has recorded, no event of it leaves it, and no host
// task has to do with it. Only whole programs are graphs of few tasks.
TEST(DevicePlanTest, GraphsStartAndEndOnOneLane) {
  uint32_t stretches = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed, 60, seed % 2);
    DevicePlan plan = planProgram(program.records(), {3, true, true});
    if (plan.stretches.empty())
      EXPECT_EQ(plan.graphs.size(), 1u);
    else
      stretches += static_cast<uint32_t>(plan.graphs.size());
    std::set<uint32_t> ofGraphs;
    for (const PlanGraph &graph : plan.graphs) {
      uint32_t origin = plan.steps[graph.begin - 1].lane, tasks = 0;
      std::set<uint32_t> entered = {origin}, events;
      for (uint32_t i = graph.begin; i < graph.end; ++i) {
        const PlanStep &step = plan.steps[i];
        EXPECT_NE(step.lane % abi::kStreams,
                  static_cast<uint32_t>(Stream::Host));
        if (step.kind == Kind::Wait) {
          ASSERT_TRUE(events.count(step.index));
          entered.insert(step.lane);
        }
        ASSERT_TRUE(entered.count(step.lane)) << "lane " << step.lane;
        if (step.kind == Kind::Record)
          events.insert(step.index);
        tasks += step.kind == Kind::Run;
      }
      EXPECT_EQ(tasks, graph.tasks);
      if (!plan.stretches.empty())
        EXPECT_GE(tasks, fewestOfGraph);
      ofGraphs.insert(events.begin(), events.end());
    }
    uint32_t graph = 0;
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep &step = plan.steps[i];
      if (step.kind == Kind::Graph)
        i = plan.graphs[graph++].end - 1;
      else if (step.kind == Kind::Wait)
        EXPECT_FALSE(ofGraphs.count(step.index)) << "event " << step.index;
    }
    EXPECT_EQ(graph, plan.graphs.size());
  }
  EXPECT_GT(stretches, 20u);
}

/// Steps of a kind.
uint32_t count(const DevicePlan &plan, Kind kind) {
  return static_cast<uint32_t>(
      std::count_if(plan.steps.begin(), plan.steps.end(),
                    [&](const PlanStep &step) { return step.kind == kind; }));
}

// A program on one stream needs no event.
TEST(DevicePlanTest, OneStreamNeedsNoEvent) {
  TestBundle test(1);
  abi::View x = test.scalar("x");
  auto &program = test.program("p");
  for (uint32_t t = 0; t < 5; ++t)
    add(program, "t", TaskKind::Zero, {x},
        {.waits = t ? std::vector<uint32_t>{t - 1} : std::vector<uint32_t>{}});
  DevicePlan plan = planProgram(test.finish().programs[0], {});
  EXPECT_EQ(plan.events, 0u);
  EXPECT_EQ(count(plan, Kind::Run), 5u);
  EXPECT_EQ(plan.steps.size(), 5u);
}

// What follows from an earlier wait is not waited for again.
TEST(DevicePlanTest, LeavesOutWhatFollows) {
  TestBundle test(1);
  abi::View x = test.scalar("x");
  auto &program = test.program("p");
  uint32_t first = add(program, "a", TaskKind::Zero, {x});
  uint32_t second = add(program, "b", TaskKind::Zero, {x});
  TaskOptions there{.stream = Stream::D2H, .waits = {second}};
  uint32_t third = add(program, "c", TaskKind::Zero, {x}, there);
  // The stream has waited for b, so for a; d2h has, so its next need not.
  add(program, "d", TaskKind::Zero, {x},
      {.stream = Stream::D2H, .waits = {first, second}});
  add(program, "e", TaskKind::Zero, {x}, {.waits = {first, third}});
  DevicePlan plan = planProgram(test.finish().programs[0], {});
  // c for b, e for c, and the end for d.
  EXPECT_EQ(plan.waits, 3u);
  EXPECT_EQ(plan.events, 3u);
}

// Host tasks that follow each other are released together; one that waits for
// a device task, or for which one waits, ends a stretch.
TEST(DevicePlanTest, CutsStretchesWhereDevicesWait) {
  TestBundle test(1);
  abi::View x = test.scalar("x");
  auto &program = test.program("p");
  TaskOptions host{.stream = Stream::Host};
  add(program, "h0", TaskKind::Zero, {x}, host);
  uint32_t h1 = add(program, "h1", TaskKind::Zero, {x}, host);
  uint32_t up = add(program, "up", TaskKind::Zero, {x},
                    {.stream = Stream::H2D, .waits = {h1}});
  uint32_t h2 = add(program, "h2", TaskKind::Zero, {x}, host);
  add(program, "h3", TaskKind::Zero, {x},
      {.stream = Stream::Host, .waits = {up}});
  DevicePlan plan = planProgram(test.finish().programs[0], {});
  ASSERT_EQ(plan.stretches.size(), 3u);
  EXPECT_EQ(plan.stretches[0].tasks, (std::vector<uint32_t>{0, h1}));
  EXPECT_EQ(plan.stretches[1].tasks, (std::vector<uint32_t>{h2}));
  EXPECT_EQ(plan.stretches[2].tasks, (std::vector<uint32_t>{4}));
  EXPECT_EQ(count(plan, Kind::Release), 3u);
  EXPECT_EQ(count(plan, Kind::Await), 3u);
}

// A stretch is cut where a host task stands, before what waits for one and
// after what one waits for; a stretch of too few tasks is no graph.
TEST(DevicePlanTest, CutsGraphsWhereHostTasksAre) {
  TestBundle test(1);
  abi::View x = test.scalar("x");
  auto &program = test.program("p");
  auto addMany = [&](uint32_t tasks) {
    for (uint32_t i = 0; i < tasks; ++i)
      add(program, "many", TaskKind::Zero, {x});
  };
  TaskOptions host{.stream = Stream::Host};
  addMany(fewestOfGraph);
  uint32_t down = add(program, "down", TaskKind::Zero, {x},
                      {.stream = Stream::D2H, .waits = {0}});
  // The host task comes after these, but waits for a task before them.
  addMany(fewestOfGraph + 1);
  uint32_t update = add(program, "update", TaskKind::Zero, {x},
                        {.stream = Stream::Host, .waits = {down}});
  addMany(fewestOfGraph + 2);
  add(program, "up", TaskKind::Zero, {x},
      {.stream = Stream::H2D, .waits = {update}});
  addMany(fewestOfGraph - 2);
  add(program, "update", TaskKind::Zero, {x}, host);
  addMany(fewestOfGraph - 1);
  DevicePlan plan = planProgram(test.finish().programs[0], {.graphs = true});
  std::vector<uint32_t> tasks;
  for (const PlanGraph &graph : plan.graphs)
    tasks.push_back(graph.tasks);
  EXPECT_EQ(tasks, (std::vector<uint32_t>{fewestOfGraph + 1, fewestOfGraph + 1,
                                          fewestOfGraph + 2}));
  EXPECT_EQ(count(plan, Kind::Graph), 3u);
  // Without graphs, none.
  EXPECT_TRUE(planProgram(test.finish().programs[0], {}).graphs.empty());
}

} // namespace
} // namespace ciuic::rt::test
