//===- device_plan_test.cpp - Order and waits of a device's steps ---------===//
#include "runtime/task/cuda/DevicePlan.h"
#include "test/runtime/task/TestProgram.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace ciuic::rt::test {
namespace {

using abi::Stream;
using abi::TaskKind;
using Kind = PlanStep::Kind;

/// What a plan orders: for each (task, rank), all (task, rank) that are done
/// before it begins. A task of all ranks is that of each.
class Ordered {
public:
  using Place = std::pair<uint32_t, uint32_t>;

  Ordered(const DevicePlan &plan, const abi::Program &program, uint32_t ranks,
          bool shared) {
    std::vector<std::set<Place>> done(ranks * abi::kStreams);
    std::map<uint32_t, std::set<Place>> recorded;
    std::map<uint32_t, bool> released;
    for (const PlanStep &step : plan.steps) {
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
  RandomProgram(uint32_t seed, uint32_t tasks) : test(1) {
    std::mt19937 random(seed);
    abi::View view = test.scalar("x");
    auto &program = test.program("p");
    for (uint32_t t = 0; t < tasks; ++t) {
      TaskOptions options;
      TaskKind kind = TaskKind::Zero;
      options.stream = static_cast<Stream>(random() % abi::kStreams);
      if (random() % 4 == 0 && options.stream != Stream::Host) {
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
  Ordered ordered(plan, program, options.ranks, options.sharedCollectives);
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
// on several that share a device, and joined for capture.
TEST(DevicePlanTest, OrdersRandomPrograms) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed, 40);
    for (uint32_t ranks : {1u, 3u})
      for (bool joined : {false, true})
        expectOrder(program.records(), {ranks, ranks > 1 || joined, joined});
  }
}

// A joined plan can be captured from the first rank's compute stream: every
// other lane waits, before all else, for what that stream has recorded, and the
// first rank's end comes after all tasks of all ranks.
TEST(DevicePlanTest, JoinedPlansStartAndEndOnOneStream) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    RandomProgram program(seed, 30);
    DevicePlan plan = planProgram(program.records(), {3, true, true});
    std::set<uint32_t> entered = {laneOf(0, Stream::Compute)};
    std::set<uint32_t> events;
    for (const PlanStep &step : plan.steps) {
      if (step.kind == Kind::Wait) {
        ASSERT_TRUE(events.count(step.index));
        entered.insert(step.lane);
      }
      ASSERT_TRUE(entered.count(step.lane)) << "lane " << step.lane;
      if (step.kind == Kind::Record)
        events.insert(step.index);
    }
    Ordered ordered(plan, program.records(), 3, true);
    for (const auto &[place, before] : ordered.before)
      EXPECT_TRUE(ordered.end[0].count(place));
  }
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

} // namespace
} // namespace ciuic::rt::test
