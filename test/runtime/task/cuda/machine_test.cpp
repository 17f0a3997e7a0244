//===- machine_test.cpp - Memory, times and counts of GPU machines --------===//
#include "runtime/comm/ProcessGroup.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace ciuic::rt::test {
namespace {

using abi::Arena;
using abi::Stream;
using abi::TaskKind;

// Tensors larger than all staging memory go in and out whole, in any pieces,
// and several threads do so at once.
TEST(CudaMemoryTest, ReadsAndWritesLargeViewsFromManyThreads) {
  TestBundle test(2);
  constexpr int64_t n = 3'000'000; // 12 MB, 8 MiB are staged.
  abi::View x = test.view("x", 1, n, abi::DType::F32, 1);
  test.program("p");
  onhost::Settings settings = devicesOf(2, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  auto work = [&](uint32_t rank, int64_t first, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] =
          static_cast<float>((first + i) % 9973) + static_cast<float>(rank);
    Status status = gpus.machine->write(x, rank, static_cast<uint64_t>(first),
                                        values.size(), values.data());
    EXPECT_TRUE(status.ok()) << status.str();
    std::vector<float> back(values.size());
    status = gpus.machine->read(x, rank, static_cast<uint64_t>(first),
                                back.size(), back.data());
    EXPECT_TRUE(status.ok()) << status.str();
    EXPECT_TRUE(back == values);
  };
  std::vector<std::thread> threads;
  for (uint32_t rank : {0u, 1u})
    for (int64_t part = 0; part < 3; ++part)
      threads.emplace_back(work, rank, part * n / 3, n / 3);
  for (std::thread &thread : threads)
    thread.join();
}

// Elements beyond a view, or of a rank elsewhere, are refused.
TEST(CudaMemoryTest, RefusesWhatIsNotThere) {
  TestBundle test(1);
  abi::View x = test.view("x", 1, 8, abi::DType::F32, 1);
  test.program("p");
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  float values[9] = {};
  EXPECT_EQ(gpus.machine->write(x, 0, 0, 9, values).code(), Code::Invalid);
  EXPECT_EQ(gpus.machine->read(x, 0, 8, 1, values).code(), Code::Invalid);
  EXPECT_EQ(gpus.machine->read(x, 1, 0, 1, values).code(), Code::Invalid);
  EXPECT_EQ(gpus.machine->run("q").code(), Code::Invalid);
  EXPECT_TRUE(gpus.machine->has("p"));
  EXPECT_FALSE(gpus.machine->has("q"));
}

// A write is seen by programs started later and not by those started before,
// though none is waited for.
TEST(CudaMachineTest, WritesKeepTheirPlaceAmongPrograms) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    TestBundle test(1);
    abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 4);
    abi::View sum = test.view("sum", 1, 4);
    auto &p = test.program("p");
    // y is read on another stream than the one that writes come by.
    uint32_t first = addStep(p, "first", x, y, Stream::Reduce);
    addStep(p, "second", y, sum, Stream::Compute, {first});
    onhost::Settings settings = devicesOf(1, seed);
    Gpus gpus(test, {}, &settings);
    ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
    for (float value = 0; value < 20; ++value) {
      ASSERT_TRUE(gpus.write(x, 0, std::vector<float>(4, value)).ok());
      ASSERT_TRUE(gpus.machine->run("p").ok());
    }
    float expected = stepped(stepped(19, 1), 1);
    EXPECT_EQ(gpus.read(sum, 0), std::vector<float>(4, expected));
  }
}

// Between programs nothing is allocated, on the device or in pinned memory, and
// no stream or event is made.
TEST(CudaMachineTest, AllocatesNothingBetweenSteps) {
  TestBundle test(2);
  abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 4);
  abi::View host = test.view("h", 1, 4, abi::DType::F32, 1, Arena::Host);
  auto &p = test.program("p");
  uint32_t step = addStep(p, "step", x, y);
  uint32_t down = add(p, "down", TaskKind::Copy, {y, host},
                      {.stream = Stream::D2H, .waits = {step}});
  addHostStep(p, "update", host, host, {down});
  add(p, "sum", TaskKind::AllReduce, {y, x},
      {.stream = Stream::Reduce, .waits = {step}, .ints = {1}});
  onhost::Settings settings = devicesOf(2, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  for (uint32_t rank : {0u, 1u}) {
    ASSERT_TRUE(gpus.write(x, rank, {1, 2, 3, 4}).ok());
    ASSERT_TRUE(gpus.write(host, rank, {1, 2, 3, 4}).ok());
  }
  auto counts = [] {
    std::vector<uint64_t> all;
    for (const char *function :
         {"cudaMalloc", "cudaHostRegister", "cudaStreamCreateWithPriority"})
      all.push_back(onhost::calls(function));
    return all;
  };
  ASSERT_TRUE(gpus.machine->run("p").ok());
  ASSERT_TRUE(gpus.machine->wait().ok());
  std::vector<uint64_t> before = counts();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(gpus.machine->run("p").ok());
    ASSERT_TRUE(gpus.write(x, 0, {1, 2, 3, 4}).ok());
    ASSERT_TRUE(gpus.write(x, 1, {1, 2, 3, 4}).ok());
  }
  ASSERT_TRUE(gpus.machine->wait().ok());
  EXPECT_EQ(counts(), before);
  EXPECT_EQ(gpus.machine->executed(TaskKind::AllReduce), 51u);
  EXPECT_EQ(gpus.machine->executed(TaskKind::Launch), 51u * 2 * 2);
  EXPECT_EQ(gpus.machine->firstRank(), 0u);
  EXPECT_EQ(gpus.machine->localRanks(), 2u);
}

// A task whose scalar is not zero does nothing; host tasks read theirs on the
// host.
TEST(CudaMachineTest, SkipsPredicatedTasks) {
  TestBundle test(1);
  abi::View skip = test.scalar("skip"), x = test.view("x", 1, 4);
  abi::View hostSkip =
      test.view("host skip", 1, 1, abi::DType::F32, 0, Arena::Host);
  abi::View host = test.view("h", 1, 4, abi::DType::F32, 1, Arena::Host);
  auto &p = test.program("p");
  p.views.push_back(skip);
  p.views.push_back(hostSkip);
  TaskOptions options{.ints = {1}, .skipView = 0};
  options.launch = launchStep;
  add(p, "step", TaskKind::Launch, {x, x}, options);
  TaskOptions there{.stream = Stream::Host, .ints = {4, 1}, .skipView = 1};
  there.kernel = hostStep;
  add(p, "update", TaskKind::Launch, {host, host}, there);
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  for (const abi::View &view : {x, host})
    ASSERT_TRUE(gpus.write(view, 0, {1, 2, 3, 4}).ok());
  for (float value : {1.0f, 0.0f}) {
    ASSERT_TRUE(gpus.write(skip, 0, {value}).ok());
    ASSERT_TRUE(gpus.write(hostSkip, 0, {value}).ok());
    ASSERT_TRUE(gpus.machine->run("p").ok());
    bool ran = value == 0;
    EXPECT_EQ(gpus.read(x, 0)[0], ran ? stepped(1, 1) : 1);
    EXPECT_EQ(gpus.read(host, 0)[0], ran ? stepped(1, 5) : 1);
  }
}

// Times are kept by kind and by task where that is asked for, and only there.
TEST(CudaMachineTest, MeasuresTasks) {
  TestBundle test(1);
  abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 4);
  abi::View host = test.view("h", 1, 4, abi::DType::F32, 1, Arena::Host);
  auto &p = test.program("p");
  TaskOptions options{.ints = {1}, .phase = abi::Phase::Forward};
  options.launch = launchStep;
  add(p, "forward", TaskKind::Launch, {x, y}, options);
  add(p, "down", TaskKind::Copy, {y, host},
      {.stream = Stream::D2H, .waits = {0}});
  for (bool asked : {false, true}) {
    onhost::Settings settings = devicesOf(1, 1);
    MachineOptions machineOptions;
    machineOptions.timing = machineOptions.profile = asked;
    // Graphs and times exclude each other; times win.
    machineOptions.cuda.graphs = asked;
    Gpus gpus(test, machineOptions, &settings);
    ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
    ASSERT_TRUE(gpus.write(x, 0, {1, 2, 3, 4}).ok());
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(gpus.machine->run("p").ok());
    TimeTable times = gpus.machine->takeTimes();
    EXPECT_EQ(times[static_cast<int>(TimeKind::Forward)] > 0, asked);
    EXPECT_EQ(times[static_cast<int>(TimeKind::D2H)] > 0, asked);
    EXPECT_EQ(times[static_cast<int>(TimeKind::Backward)], 0);
    EXPECT_EQ(gpus.machine->takeTimes(), TimeTable{});
    std::vector<TaskTime> rows = gpus.machine->taskTimes();
    ASSERT_EQ(rows.size(), asked ? 2u : 0u);
    if (asked) {
      EXPECT_EQ(rows[0].program, "p");
      EXPECT_EQ(rows[1].task, 1u);
      EXPECT_EQ(rows[1].runs, 3u);
    }
  }
}

// Without cuDNN attention is the bundle's kernel, unless cuDNN was asked for.
TEST(CudaMachineTest, AttentionFallsBackToTheBundle) {
  for (const char *choice : {"auto", "own", "cudnn", "other"}) {
    SCOPED_TRACE(choice);
    TestBundle test(1);
    abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 4);
    auto &p = test.program("p");
    TaskOptions options{.ints = {1}};
    options.launch = launchStep; // Stands for a kernel of attention.
    add(p, "attention", TaskKind::AttentionForward, {x, y}, options);
    onhost::Settings settings = devicesOf(1, 1);
    MachineOptions machineOptions;
    machineOptions.cuda.attention = choice;
    Gpus gpus(test, machineOptions, &settings);
    bool works = std::string(choice) == "auto" || std::string(choice) == "own";
    ASSERT_EQ(gpus.status.ok(), works) << gpus.status.str();
    if (!works) {
      EXPECT_NE(gpus.status.str().find("attention"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(gpus.write(x, 0, {1, 2, 3, 4}).ok());
    ASSERT_TRUE(gpus.machine->run("p").ok());
    EXPECT_EQ(gpus.read(y, 0)[0], stepped(1, 1));
  }
}

// Rows with gaps are copied row by row, dense ones reshaped.
TEST(CudaMachineTest, CopiesRowsWithGaps) {
  TestBundle test(1);
  abi::View wide = test.view("wide", 3, 5);
  abi::View host = test.view("host", 3, 2, abi::DType::F32, 2, Arena::Host);
  abi::View flat = test.view("flat", 1, 6, abi::DType::F32, 1);
  abi::View part = wide;
  part.shape[1] = 2;
  part.offset = 4;
  auto &p = test.program("p");
  uint32_t down =
      add(p, "down", TaskKind::Copy, {part, host}, {.stream = Stream::D2H});
  add(p, "up", TaskKind::Copy, {host, flat},
      {.stream = Stream::H2D, .waits = {down}});
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  std::vector<float> values;
  for (int i = 0; i < 15; ++i)
    values.push_back(static_cast<float>(i));
  ASSERT_TRUE(gpus.write(wide, 0, values).ok());
  ASSERT_TRUE(gpus.machine->run("p").ok());
  EXPECT_EQ(gpus.read(flat, 0), (std::vector<float>{1, 2, 6, 7, 11, 12}));
}

//===----------------------------------------------------------------------===//
// Several processes
//===----------------------------------------------------------------------===//

/// Processes that are threads of this one.
class ThreadGroup {
public:
  explicit ThreadGroup(uint32_t count) : count(count), posted(count) {}

  class Member final : public ProcessGroup {
  public:
    Member(ThreadGroup &group, uint32_t self) : group(group), self(self) {}
    uint32_t process() const override { return self; }
    uint32_t processes() const override { return group.count; }
    Status exchange(std::span<const std::span<const std::byte>> send,
                    std::span<const std::span<std::byte>> receive) override {
      group.posted[self] = {send.begin(), send.end()};
      group.meet();
      for (uint32_t from = 0; from < receive.size(); ++from) {
        auto bytes = group.posted[from].empty() ? std::span<const std::byte>()
                                                : group.posted[from][self];
        std::copy(bytes.begin(), bytes.end(), receive[from].begin());
      }
      group.meet();
      return {};
    }
    void abort(const Status &) override {}

  private:
    ThreadGroup &group;
    const uint32_t self;
  };

private:
  void meet() {
    std::unique_lock lock(mutex);
    uint64_t mine = round;
    if (++arrived == count) {
      arrived = 0;
      ++round;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return round != mine; });
  }

  const uint32_t count;
  std::vector<std::vector<std::span<const std::byte>>> posted;
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t arrived = 0;
  uint64_t round = 0;
};

// Two processes of two devices each gather and add as one of four does, and
// take over what the first has tuned.
TEST(CudaProcessTest, TwoProcessesAreOneJob) {
  TestBundle test(4);
  abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 4);
  abi::View a = test.view("a", 8, 8), c = test.view("c", 8, 8);
  abi::View scratch = test.view("s", 1, 1 << 12);
  scratch.rank = 1;
  auto &p = test.program("p");
  p.views.push_back(scratch);
  abi::View chunk = x;
  chunk.rank = 1;
  chunk.shape[1] = 1;
  chunk.rankStride = 4;
  uint32_t gather = add(p, "gather", TaskKind::AllGather, {chunk, y},
                        {.stream = Stream::Gather});
  uint32_t step = addStep(p, "step", y, y, Stream::Compute, {gather});
  add(p, "sum", TaskKind::AllReduce, {y, x},
      {.stream = Stream::Reduce, .waits = {step}, .ints = {0}});
  add(p, "product", TaskKind::Gemm, {a, a, c},
      {.ints = {0, 0, 0}, .scratchView = 0});
  forCuda(test);
  const abi::Bundle &bundle = test.finish();
  onhost::configure(devicesOf(4, 5));
  TemporaryFolder folder;
  ThreadGroup group(2);
  std::vector<std::vector<float>> results(4);
  auto work = [&](uint32_t process) {
    ThreadGroup::Member member(group, process);
    MachineOptions options;
    options.threads = 1;
    options.group = &member;
    options.cuda.tune = true;
    options.folder = folder.path(std::to_string(process));
    CudaSettings settings;
    settings.firstDevice = static_cast<int>(process) * 2;
    auto made = CudaMachine::create(bundle, options, settings);
    ASSERT_TRUE(made.ok()) << made.takeStatus().str();
    CudaMachine &machine = **made;
    EXPECT_EQ(machine.firstRank(), process * 2);
    EXPECT_EQ(machine.localRanks(), 2u);
    for (uint32_t rank = process * 2; rank < process * 2 + 2; ++rank) {
      std::vector<float> values(4, static_cast<float>(rank));
      ASSERT_TRUE(machine.write(x, rank, 0, 4, values.data()).ok());
      values.resize(64);
      ASSERT_TRUE(machine.write(a, rank, 0, 64, values.data()).ok());
    }
    for (int round = 0; round < 2; ++round)
      ASSERT_TRUE(machine.run("p").ok());
    for (uint32_t rank = process * 2; rank < process * 2 + 2; ++rank) {
      results[rank].resize(4);
      Status status = machine.read(x, rank, 0, 4, results[rank].data());
      EXPECT_TRUE(status.ok()) << status.str();
    }
    EXPECT_FALSE(machine.read(x, (process * 2 + 2) % 4, 0, 1, &results).ok());
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(onhost::takeReports(), std::vector<std::string>{});
  std::vector<float> expected = {0, 1, 2, 3};
  for (int round = 0; round < 2; ++round)
    for (float &value : expected)
      value = 4 * stepped(value, 1);
  for (const std::vector<float> &result : results)
    EXPECT_EQ(result, expected);
  // Only the first writes down what was tuned.
  EXPECT_TRUE(std::filesystem::exists(folder.path("0/tuning/gemm.json")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("1/tuning/gemm.json")));
}

} // namespace
} // namespace ciuic::rt::test
