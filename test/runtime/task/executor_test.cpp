//===- executor_test.cpp - Order, skipping, failure of programs -----------===//
#include "runtime/task/Executor.h"
#include "test/runtime/task/TestProgram.h"

#include <cstring>
#include <gtest/gtest.h>

namespace ciuic::rt::test {
namespace {

using abi::DType;
using abi::Stream;
using abi::TaskKind;

/// Arenas and an executor for a bundle.
struct Started {
  explicit Started(TestBundle &test, ExecutorOptions options = {.threads = 2}) {
    const abi::Bundle &bundle = test.finish();
    auto memory = RankArenas::allocate({0, bundle.ranks}, bundle.arenaBytes[0],
                                       bundle.arenaBytes[1], 0);
    EXPECT_TRUE(memory.ok());
    arenas = std::move(*memory);
    auto made = Executor::create(bundle, arenas, options);
    if (made.ok())
      executor = std::move(*made);
    else
      status = made.takeStatus();
  }
  float *floats(const abi::View &view, uint32_t rank) {
    return executor->resolve(view, rank).as<float>();
  }
  RankArenas arenas;
  std::unique_ptr<Executor> executor;
  Status status;
};

/// out = 2 * in + 1 for one element; order matters in chains of it.
void doublePlusOne(int64_t begin, int64_t end, void *const *pointers) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(pointers[1])[i] =
        2 * static_cast<const float *>(pointers[0])[i] + 1;
}

TaskOptions launch(Stream stream, std::vector<uint32_t> waits = {}) {
  return {.stream = stream,
          .waits = std::move(waits),
          .ints = {1, 1},
          .kernel = doublePlusOne};
}

// Tasks of one stream run in order, and waits order streams: a chain of a
// hundred updates of one place, alternating between streams, on each rank.
TEST(ExecutorTest, KeepsTheOrder) {
  TestBundle test(3);
  abi::View x = test.scalar("x"), step = test.scalar("step");
  auto &program = test.program("chain");
  uint32_t last = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    Stream stream = i % 3 == 0 ? Stream::Host : Stream::Compute;
    auto options = launch(stream, i ? std::vector<uint32_t>{last}
                                    : std::vector<uint32_t>{});
    options.kernel = [](int64_t, int64_t, void *const *pointers) {
      auto *value = static_cast<float *>(pointers[0]);
      auto *count = static_cast<float *>(pointers[1]);
      // Only the right order gives multiples and sums in turn.
      *value = static_cast<int>(*count) % 2 ? *value * 0.5f : *value + 3;
      *count += 1;
    };
    last = add(program, "link", TaskKind::Launch, {x, step}, options);
  }
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  for (int round = 1; round <= 3; ++round) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      *machine.floats(x, rank) = static_cast<float>(rank);
      *machine.floats(step, rank) = 0;
    }
    ASSERT_TRUE(machine.executor->run("chain").ok());
    for (uint32_t rank = 0; rank < 3; ++rank) {
      float expected = static_cast<float>(rank);
      for (int i = 0; i < 50; ++i)
        expected = (expected + 3) * 0.5f;
      EXPECT_EQ(*machine.floats(x, rank), expected);
    }
  }
  EXPECT_EQ(machine.executor->executed(TaskKind::Launch), 3u * 3 * 100);
}

// A collective starts when every rank has reached it, and what follows waits
// for it on every rank; a view's rank stride picks each rank's chunk.
TEST(ExecutorTest, CollectivesJoinRanks) {
  TestBundle test(4);
  abi::View whole = test.view("whole", 1, 4, DType::F32, 1);
  abi::View chunk = whole;
  chunk.shape[1] = 1;
  chunk.rankStride = 4;
  abi::View out = test.scalar("out");
  auto &program = test.program("p");
  uint32_t first = add(program, "own", TaskKind::Launch, {chunk, chunk},
                       launch(Stream::Compute));
  uint32_t gather = add(program, "gather", TaskKind::AllGather, {chunk, whole},
                        {.stream = Stream::Gather, .waits = {first}});
  auto options = launch(Stream::Compute, {gather});
  options.kernel = [](int64_t, int64_t, void *const *pointers) {
    auto *all = static_cast<const float *>(pointers[0]);
    *static_cast<float *>(pointers[1]) = all[0] + all[1] + all[2] + all[3];
  };
  add(program, "sum", TaskKind::Launch, {whole, out}, options);
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  for (int round = 0; round < 50; ++round) {
    for (uint32_t rank = 0; rank < 4; ++rank)
      *machine.floats(chunk, rank) = static_cast<float>(rank);
    ASSERT_TRUE(machine.executor->run("p").ok());
    for (uint32_t rank = 0; rank < 4; ++rank)
      EXPECT_EQ(*machine.floats(out, rank), 1 + 3 + 5 + 7);
  }
  EXPECT_EQ(machine.executor->executed(TaskKind::AllGather), 50u);
}

// A predicated task does nothing where its scalar is not zero.
TEST(ExecutorTest, SkipsPredicatedTasks) {
  TestBundle test(2);
  abi::View skip = test.scalar("skip"), x = test.scalar("x");
  auto &program = test.program("p");
  program.views.push_back(skip);
  auto options = launch(Stream::Compute);
  options.skipView = 0;
  add(program, "update", TaskKind::Launch, {x, x}, options);
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  *machine.floats(skip, 1) = 1;
  ASSERT_TRUE(machine.executor->run("p").ok());
  EXPECT_EQ(*machine.floats(x, 0), 1);
  EXPECT_EQ(*machine.floats(x, 1), 0);
}

// A failing task ends the program with its name and rank, and the executor
// can be used again.
TEST(ExecutorTest, NamesTheTaskThatFails) {
  TestBundle test(2);
  abi::View tokens = test.view("tokens", 1, 4, DType::I32);
  abi::View table = test.view("table", 5, 2), out = test.view("out", 4, 2);
  abi::View after = test.scalar("after");
  auto &program = test.program("p");
  add(program, "model.embed", TaskKind::Embedding, {tokens, table, out});
  add(program, "later", TaskKind::Launch, {after, after},
      launch(Stream::Compute));
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  auto *ids = machine.executor->resolve(tokens, 1).as<int32_t>();
  ids[2] = 99;
  Status status = machine.executor->run("p");
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("token of row 2 is 99"), std::string::npos);
  EXPECT_NE(status.str().find("\"model.embed\" of rank 1"), std::string::npos)
      << status.str();
  EXPECT_EQ(*machine.floats(after, 1), 0);
  ids[2] = 0;
  EXPECT_TRUE(machine.executor->run("p").ok());
}

// Unknown programs are refused by name.
TEST(ExecutorTest, UnknownProgram) {
  TestBundle test(1);
  test.buffer("b", 16);
  test.program("p");
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  EXPECT_TRUE(machine.executor->run("p").ok());
  EXPECT_NE(machine.executor->run("q").str().find("\"q\""), std::string::npos);
}

// Running allocates nothing for tensors, however often.
TEST(ExecutorTest, AllocatesNothingWhileRunning) {
  TestBundle test(2);
  abi::View a = test.view("a", 300, 70), b = test.view("b", 600, 70),
            c = test.view("c", 300, 600);
  auto &program = test.program("p");
  add(program, "product", TaskKind::Gemm, {a, b, c}, {.ints = {0, 1, 0}});
  uint64_t before = tensorMemory().bytes;
  Started machine(test);
  ASSERT_TRUE(machine.status.ok()) << machine.status.str();
  TensorMemory loaded = tensorMemory();
  EXPECT_EQ(loaded.bytes - before, 2 * test.bundle.arenaBytes[0]);
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(machine.executor->run("p").ok());
  EXPECT_EQ(tensorMemory().bytes, loaded.bytes);
  EXPECT_EQ(tensorMemory().allocations, loaded.allocations);
}

// Times are kept by kind of work, and only when asked for.
TEST(ExecutorTest, MeasuresByKind) {
  TestBundle test(1);
  abi::View a = test.view("a", 200, 200), b = test.view("b", 200, 200);
  auto &program = test.program("p");
  TaskOptions forward{.ints = {0, 1, 0}, .phase = abi::Phase::Forward};
  abi::View c = test.view("c", 200, 200);
  add(program, "product", TaskKind::Gemm, {a, b, c}, forward);
  add(program, "copy", TaskKind::Copy, {a, b},
      {.stream = Stream::D2H, .waits = {0}});
  Started silent(test);
  ASSERT_TRUE(silent.executor->run("p").ok());
  EXPECT_EQ(silent.executor->takeTimes(), TimeTable{});
  Started timed(test, {.threads = 1, .timing = true});
  ASSERT_TRUE(timed.executor->run("p").ok());
  TimeTable times = timed.executor->takeTimes();
  EXPECT_GT(times[static_cast<int>(TimeKind::Forward)], 0);
  EXPECT_GT(times[static_cast<int>(TimeKind::D2H)], 0);
  EXPECT_EQ(times[static_cast<int>(TimeKind::Backward)], 0);
  EXPECT_EQ(timed.executor->takeTimes(), TimeTable{});
}

// A device arena above the device's memory is refused with both numbers.
TEST(ExecutorTest, DeviceLimit) {
  auto arenas = RankArenas::allocate({0, 2}, 4096, 0, 4000);
  ASSERT_FALSE(arenas.ok());
  Status status = arenas.takeStatus();
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("4096"), std::string::npos);
  EXPECT_NE(status.str().find("4000"), std::string::npos);
  auto huge = RankArenas::allocate({0, 8}, uint64_t(1) << 45, 0, 0);
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.takeStatus().code(), Code::Machine);
}

} // namespace
} // namespace ciuic::rt::test
