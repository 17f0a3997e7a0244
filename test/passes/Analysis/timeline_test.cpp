//===- timeline_test.cpp - When tasks run, and what they take -------------===//
#include "mlir/Parser/Parser.h"
#include "passes/Analysis/TaskTimes.h"
#include "passes/Analysis/Timeline.h"

#include <gtest/gtest.h>

using namespace ciuic::sched;
using namespace mlir;

namespace {

constexpr unsigned compute = 0, gather = 1;

/// Rates in which sums are easy: a byte or an operation a microsecond.
Rates plainRates() {
  return {
      /*f32=*/1e6,       /*f16=*/4e6,   /*memory=*/1e6, /*host=*/1e6,
      /*devices=*/1e6,   /*link=*/1e6,  /*disk=*/1e6,   /*launch=*/1,
      /*collective=*/10, /*hostTask=*/2};
}

/// A module of one program with these tasks over four buffers of 64 KiB.
OwningOpRef<ModuleOp> parse(MLIRContext &context, const std::string &tasks,
                            int ranks = 4) {
  context.getOrLoadDialect<SchedDialect>();
  std::string text =
      "module attributes {sched.ranks = " + std::to_string(ranks) + " : i64} {";
  for (const char *name : {"a", "b", "c", "d", "e"})
    text += std::string("\nsched.buffer @") + name + " 65536 bytes in device";
  text += "\nsched.buffer @host 65536 bytes in host";
  text += "\nsched.program @micro_first {\n" + tasks + "\n}\n}";
  return parseSourceString<ModuleOp>(text, &context);
}

double timeOf(const std::string &task, int ranks = 4) {
  MLIRContext context;
  auto module = parse(context, task, ranks);
  if (!module)
    return -1;
  double found = -1;
  module->walk([&](TaskOp op) { found = microsecondsOf(op, plainRates()); });
  return found;
}

// Tasks of one stream follow each other; streams run side by side.
TEST(Timeline, StreamsRunSideBySide) {
  Timeline line =
      playTasks({{compute, 3, {}}, {gather, 10, {}}, {compute, 4, {}}});
  EXPECT_EQ(line.start, (std::vector<double>{0, 0, 3}));
  EXPECT_EQ(line.end, (std::vector<double>{3, 10, 7}));
  EXPECT_EQ(line.busy[compute], 7);
  EXPECT_EQ(line.busy[gather], 10);
  EXPECT_EQ(line.total, 10);
  EXPECT_EQ(line.idle(), 0);
}

// A task starts when the last that it waits for is done.
TEST(Timeline, WaitsForTheLatest) {
  const unsigned waits[] = {0, 1};
  Timeline line =
      playTasks({{compute, 3, {}}, {gather, 10, {}}, {compute, 4, waits}});
  EXPECT_EQ(line.start[2], 10);
  EXPECT_EQ(line.total, 14);
  EXPECT_EQ(line.idle(), 4);
}

// What the stream before it takes counts even where the wait is over sooner.
TEST(Timeline, OwnStreamCountsToo) {
  const unsigned waits[] = {0};
  Timeline line =
      playTasks({{gather, 1, {}}, {compute, 5, {}}, {compute, 1, waits}});
  EXPECT_EQ(line.start[2], 5);
}

// A program without tasks takes no time.
TEST(Timeline, NothingTakesNoTime) {
  Timeline line = playTasks({});
  EXPECT_EQ(line.total, 0);
  EXPECT_EQ(line.idle(), 0);
}

// Events of the program are its waits.
TEST(Timeline, PlaysAProgramsEvents) {
  MLIRContext context;
  auto module = parse(context, R"(
    %0 = sched.task zero "z" on gather [#sched.view<write @a[0] : tensor<99xf32>>]
    %1 = sched.task copy "c" on compute after (%0) [#sched.view<read @a[0] : tensor<8xf32>>, #sched.view<write @b[0] : tensor<8xf32>>])");
  ASSERT_TRUE(module);
  auto program = *module->getOps<ProgramOp>().begin();
  Timeline line = playProgram(program, plainRates());
  EXPECT_DOUBLE_EQ(line.end[0], 1 + 4 * 99);
  EXPECT_DOUBLE_EQ(line.start[1], line.end[0]);
  EXPECT_DOUBLE_EQ(line.total, line.end[0] + 1 + 2 * 32);
  // A step is this program once; there is no other.
  EXPECT_DOUBLE_EQ(stepMicroseconds(*module, 3, plainRates()), line.total);
}

// Micro-steps after the first are counted as often as they run, evaluation
// never.
TEST(Timeline, AStepIsItsPrograms) {
  MLIRContext context;
  context.getOrLoadDialect<SchedDialect>();
  std::string text = "sched.buffer @a 400 bytes in device\n";
  for (const char *name : {"micro_first", "micro_next", "apply", "eval_first"})
    text += std::string("sched.program @") + name + R"( {
      %0 = sched.task zero "z" on compute [#sched.view<write @a[0] : tensor<)" +
            (std::string(name) == "micro_next" ? "100" : "1") + "xf32>>]\n}\n";
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  EXPECT_DOUBLE_EQ(stepMicroseconds(*module, 1, plainRates()), 5 + 5);
  EXPECT_DOUBLE_EQ(stepMicroseconds(*module, 3, plainRates()), 5 + 2 * 401 + 5);
}

// A product takes 2 M N K operations where they outweigh its bytes.
TEST(TaskTimes, ProductsCountOperations) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task gemm "g" on compute [
      #sched.view<read @a[0] : tensor<16x64xf32>>,
      #sched.view<read @b[0] : tensor<64x32xf32>>,
      #sched.view<write @c[0] : tensor<16x32xf32>>] ints [0, 0, 0])"),
                   1 + 2 * 16 * 32 * 64);
}

// The inner size is the first of a transposed left side.
TEST(TaskTimes, TransposedProducts) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task gemm "g" on compute [
      #sched.view<read @a[0] : tensor<64x16xf32>>,
      #sched.view<read @b[0] : tensor<64x32xf32>>,
      #sched.view<write @c[0] : tensor<16x32xf32>>] ints [1, 0, 0])"),
                   1 + 2 * 16 * 32 * 64);
}

// 16 bits have a rate of their own.
TEST(TaskTimes, HalfProductsAreFaster) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task gemm "g" on compute [
      #sched.view<read @a[0] : tensor<16x64xbf16>>,
      #sched.view<read @b[0] : tensor<64x32xbf16>>,
      #sched.view<write @c[0] : tensor<16x32xbf16>>] ints [0, 0, 0])"),
                   1 + 2 * 16 * 32 * 64 / 4.0);
}

// A thin product is bound by its bytes.
TEST(TaskTimes, ThinProductsCountBytes) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task gemm "g" on compute [
      #sched.view<read @a[0] : tensor<1x64xf32>>,
      #sched.view<read @b[0] : tensor<64x64xf32>>,
      #sched.view<write @c[0] : tensor<1x64xf32>>] ints [0, 0, 0])"),
                   1 + 4 * (64 + 64 * 64 + 64));
}

// What is updated in place is read and written.
TEST(TaskTimes, UpdatesCountTwice) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task accumulate "a" on compute [
      #sched.view<read @a[0] : tensor<100xf32>>,
      #sched.view<update @b[0] : tensor<100xf32>>] ints [1])"),
                   1 + 3 * 400);
}

// A rank sends the shards of all others, or its own to them.
TEST(TaskTimes, GathersCountWhatOthersHold) {
  const char *task = R"(%0 = sched.task all_gather "g" on gather [
      #sched.view<read @a[0] : tensor<1000xf32>>,
      #sched.view<write @b[0] : tensor<4000xf32>>])";
  // In memory 20000 bytes are touched, which takes longer here.
  EXPECT_DOUBLE_EQ(timeOf(task), 10 + 20000);
  MLIRContext context;
  auto module = parse(context, task);
  ASSERT_TRUE(module);
  module->walk([](TaskOp op) {
    EXPECT_DOUBLE_EQ(workOf(op).sent, 12000);
    Rates rates = plainRates();
    rates.memory = 1e9;
    EXPECT_DOUBLE_EQ(microsecondsOf(op, rates), 10 + 12000);
  });
  EXPECT_DOUBLE_EQ(gatherMicroseconds(16000, 4, plainRates()), 10 + 12000);
}

// A copy to the device moves its bytes over the link once.
TEST(TaskTimes, CopiesBetweenMemoriesCountOnce) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task copy "c" on h2d [
      #sched.view<read @host[0] : tensor<100xf32>>,
      #sched.view<write @b[0] : tensor<100xf32>>])"),
                   1 + 400);
  EXPECT_DOUBLE_EQ(transferMicroseconds(400, plainRates()), 1 + 400);
}

// Attention is causal: half of each row's products.
TEST(TaskTimes, AttentionCountsItsProducts) {
  // 2 heads of 8 over 32 tokens: 2 products of 32 * 32 * 16 / 2, 2 operations
  // each, at half the rate.
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task attention "a" on compute [
      #sched.view<read @a[0] : tensor<32x16xf32>>,
      #sched.view<read @b[0] : tensor<32x16xf32>>,
      #sched.view<read @c[0] : tensor<32x16xf32>>,
      #sched.view<write @d[0] : tensor<32x16xf32>>,
      #sched.view<write @e[0] : tensor<32x2xf32>>]
      ints [32, 2, 2] reals [0.35])"),
                   1 + 2 * (2 * 2 * 32 * 32 * 16 / 2));
}

// Of a table only the rows that are looked up are read.
TEST(TaskTimes, LookUpsReadFewRows) {
  EXPECT_DOUBLE_EQ(timeOf(R"(%0 = sched.task embedding "e" on compute [
      #sched.view<read @a[0] : tensor<1x4xi32>>,
      #sched.view<read @b[0] : tensor<1000x16xf32>>,
      #sched.view<write @c[0] : tensor<4x16xf32>>])"),
                   1 + 16 + 2 * 4 * 16 * 4);
}

} // namespace
