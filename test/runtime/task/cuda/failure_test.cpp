//===- failure_test.cpp - What fails is said, and nothing hangs -----------===//
#include "runtime/device/cuda/CudaDevice.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <functional>
#include <nccl.h>
#include <unistd.h>

namespace ciuic::rt::test {
namespace {

using abi::Arena;
using abi::Stream;
using abi::TaskKind;

/// A program with something of everything: a step, a copy down, a host step, a
/// copy up, a product, a gather and a reduction.
struct Everything {
  explicit Everything(uint32_t ranks) : test(ranks) {
    int64_t n = 4 * int64_t{ranks};
    x = test.view("activations", 1, n, abi::DType::F32, 1);
    y = test.view("gradients", 1, n, abi::DType::F32, 1);
    host = test.view("pinned", 1, n, abi::DType::F32, 1, Arena::Host);
    a = test.view("a", 4, 4);
    b = test.view("weight", 4, 4);
    c = test.view("c", 4, 4);
    scratch = test.view("scratch", 1, 4096, abi::DType::F32, 1);
    auto &p = test.program("everything");
    uint32_t step = addStep(p, "model.step", x, y);
    uint32_t down = add(p, "copy down", TaskKind::Copy, {y, host},
                        {.stream = Stream::D2H, .waits = {step}});
    uint32_t onHost = addHostStep(p, "host update", host, host, {down});
    uint32_t up = add(p, "copy up", TaskKind::Copy, {host, x},
                      {.stream = Stream::H2D, .waits = {onHost}});
    p.views.push_back(scratch);
    add(p, "model.linear", TaskKind::Gemm, {a, b, c},
        {.ints = {0, 0, 0},
         .scratchView = static_cast<int32_t>(p.views.size() - 1)});
    abi::View chunk = x;
    chunk.shape[1] = 4;
    chunk.rankStride = 16;
    uint32_t gather = add(p, "gather layers.0", TaskKind::AllGather, {chunk, y},
                          {.stream = Stream::Gather, .waits = {up, down}});
    add(p, "reduce layers.0", TaskKind::ReduceScatter, {y, chunk},
        {.stream = Stream::Reduce, .waits = {gather}, .ints = {1}});
  }

  /// First values of what the program reads.
  Status fill(Gpus &gpus) {
    for (uint32_t rank = 0; rank < gpus.machine->localRanks(); ++rank)
      for (const abi::View &view : {x, y, host, a, b}) {
        std::vector<float> values(
            static_cast<size_t>(view.shape[0] * view.shape[1]), 2.0f);
        CIUIC_TRY(gpus.write(view, rank, values));
      }
    return {};
  }

  TestBundle test;
  abi::View x, y, host, a, b, c, scratch;
};

/// Makes a machine and runs everything twice; the first error, if any.
Status runEverything(Everything &job, MachineOptions options,
                     const onhost::Settings &settings,
                     const std::function<void()> &beforeRun = {}) {
  onhost::configure(settings);
  Gpus gpus(job.test, options);
  gpus.expectClean = false;
  if (!gpus.status.ok())
    return std::move(gpus.status);
  CIUIC_TRY(job.fill(gpus));
  CIUIC_TRY(gpus.machine->wait());
  if (beforeRun)
    beforeRun();
  CIUIC_TRY(gpus.machine->run("everything"));
  CIUIC_TRY(gpus.machine->run("everything"));
  return gpus.machine->wait();
}

void expectSays(const Status &status, std::initializer_list<const char *> parts,
                Code code = Code::Machine) {
  EXPECT_EQ(status.code(), code) << status.str();
  for (const char *part : parts)
    EXPECT_NE(status.str().find(part), std::string::npos)
        << "no \"" << part << "\" in: " << status.str();
}

// With nothing wrong it runs, on 1, 2 and 8 devices and shared ones.
TEST(FailureTest, EverythingRuns) {
  for (uint32_t ranks : {1u, 2u, 8u})
    for (bool shared : {false, true}) {
      Everything job(ranks);
      MachineOptions options;
      options.cuda.shareDevice = shared;
      Status status = runEverything(
          job, options, devicesOf(shared ? 1 : static_cast<int>(ranks), 3));
      EXPECT_TRUE(status.ok()) << status.str();
    }
}

//===----------------------------------------------------------------------===//
// Calls that fail
//===----------------------------------------------------------------------===//

struct FailingCall {
  const char *function;
  int status;
  const char *says; ///< Found in the message, besides the function's name.
};

void PrintTo(const FailingCall &call, std::ostream *out) {
  *out << call.function;
}

class FailingPreparation : public testing::TestWithParam<FailingCall> {};

// Whichever call fails while a machine is made, there is none, the message
// names the call and its status, and the exit code is 3.
TEST_P(FailingPreparation, IsReported) {
  const FailingCall &call = GetParam();
  for (uint64_t n : {0, 1}) {
    SCOPED_TRACE(n);
    Everything job(2);
    onhost::Settings settings = devicesOf(2, 1);
    settings.stuckSeconds = 1; // Ranks that wait for one that failed.
    onhost::configure(settings);
    onhost::failCall(call.function, n, call.status);
    Gpus gpus(job.test);
    gpus.expectClean = false;
    if (onhost::injected() == 0)
      continue; // It is called once only.
    ASSERT_FALSE(gpus.status.ok());
    expectSays(gpus.status, {call.function, call.says});
    EXPECT_EQ(gpus.status.exitCode(), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FailingPreparation,
    testing::Values(
        FailingCall{"cudaGetDeviceCount", cudaErrorUnknown, "cudaErrorUnknown"},
        FailingCall{"cudaMalloc", cudaErrorMemoryAllocation, "planned"},
        FailingCall{"cudaHostRegister", cudaErrorMemoryAllocation, "planned"},
        FailingCall{"cudaMemGetInfo", cudaErrorUnknown, "cudaErrorUnknown"},
        FailingCall{"cudaStreamCreateWithPriority", cudaErrorUnknown,
                    "cudaErrorUnknown"},
        FailingCall{"cudaEventCreateWithFlags", cudaErrorUnknown,
                    "cudaErrorUnknown"},
        FailingCall{"cudaMemsetAsync", cudaErrorUnknown, "cudaErrorUnknown"},
        FailingCall{"cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED, "cublas"},
        FailingCall{"cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED,
                    "\"model.linear\" of rank"},
        FailingCall{"cublasLtMatmulAlgoGetHeuristic",
                    CUBLAS_STATUS_INTERNAL_ERROR, "\"weight\""},
        FailingCall{"ncclGetUniqueId", ncclSystemError, "ncclGetUniqueId"},
        FailingCall{"ncclCommInitRank", ncclSystemError, "joining rank"},
        FailingCall{"ncclGroupEnd", ncclUnhandledCudaError,
                    "joining 2 ranks"}));

class FailingRun : public testing::TestWithParam<FailingCall> {};

// Whichever call fails while a program is enqueued, a later call says which,
// for which task, rank and tensors; nothing hangs and the exit code is 3.
TEST_P(FailingRun, IsReported) {
  const FailingCall &call = GetParam();
  for (uint64_t n : {0, 1, 5}) {
    SCOPED_TRACE(n);
    Everything job(2);
    Status status = runEverything(job, {}, devicesOf(2, n + 1), [&] {
      onhost::failCall(call.function, n, call.status);
    });
    if (onhost::injected() == 0)
      continue; // It is called less often.
    ASSERT_FALSE(status.ok()) << call.function;
    expectSays(status, {call.function, call.says});
    EXPECT_EQ(status.exitCode(), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FailingRun,
    testing::Values(
        FailingCall{"cudaMemcpyAsync", cudaErrorInvalidValue, "rank"},
        FailingCall{"cudaEventRecord", cudaErrorUnknown, "rank"},
        FailingCall{"cudaStreamWaitEvent", cudaErrorUnknown, "rank"},
        FailingCall{"cudaLaunchHostFunc", cudaErrorUnknown, "rank"},
        FailingCall{"cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED,
                    "task \"model.linear\" of rank"},
        FailingCall{"ncclAllGather", ncclInternalError,
                    "task \"gather layers.0\" of rank"},
        FailingCall{"ncclReduceScatter", ncclInvalidUsage, "\"gradients\""}));

// A launcher's status is that of its task, with the tensors' names.
TEST(FailureTest, LaunchersFailWithTheirTask) {
  TestBundle test(1);
  abi::View x = test.view("hidden", 1, 4), y = test.view("normed", 1, 4);
  auto &p = test.program("p");
  TaskOptions options;
  options.launch = launchFailure;
  add(p, "model.norm", TaskKind::Launch, {x, y}, options);
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  EXPECT_TRUE(gpus.machine->run("p").ok());
  Status status = gpus.machine->wait();
  expectSays(status,
             {"cudaErrorInvalidConfiguration", "task \"model.norm\" of rank 0",
              "\"hidden\"", "\"normed\"", "program \"p\""});
  // It is returned by every later call.
  expectSays(gpus.machine->run("p"), {"model.norm"});
  std::vector<float> values(4);
  expectSays(gpus.machine->read(x, 0, 0, 4, values.data()), {"model.norm"});
}

// A kernel that fails while it runs, after all was enqueued: a later call says
// what the device said, for which program and rank.
TEST(FailureTest, KernelsThatFailLaterAreSaid) {
  TestBundle test(1);
  abi::View x = test.view("x", 1, 4);
  auto &p = test.program("p");
  TaskOptions options;
  options.launch = launchOutside;
  add(p, "model.norm", TaskKind::Launch, {x}, options);
  onhost::Settings settings = devicesOf(1, 1);
  Gpus gpus(test, {}, &settings);
  gpus.expectClean = false;
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  EXPECT_TRUE(gpus.machine->run("p").ok());
  Status status = gpus.machine->wait();
  expectSays(status, {"cudaError", "\"p\"", "rank 0"});
  EXPECT_EQ(status.exitCode(), 3);
}

/// Fails, and leaves a stream that never ends.
int launchForever(const abi::CudaLaunch &launch) {
  auto wait = [](void *) {
    while (true)
      pause();
  };
  cudaLaunchHostFunc(static_cast<cudaStream_t>(launch.stream), wait, nullptr);
  return cudaErrorInvalidConfiguration;
}

// Where a device does not come to its end after a failure, the process ends all
// the same, with what failed.
TEST(FailureTest, EndsThoughADeviceDoesNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto run = [] {
    TestBundle test(1);
    abi::View x = test.view("x", 1, 4);
    TaskOptions options;
    options.launch = launchForever;
    add(test.program("p"), "model.norm", TaskKind::Launch, {x}, options);
    onhost::Settings settings = devicesOf(1, 1);
    Gpus gpus(test, {}, &settings, {.exitGrace = 0.2});
    if (gpus.status.ok() && gpus.machine->run("p").ok())
      (void)gpus.machine->wait();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(3),
              "error: .*model.norm.*\n.*not come to their end within 0.2 s");
}

// A host task that fails ends the run with its name and rank.
TEST(FailureTest, HostTasksFailWithTheirName) {
  TestBundle test(2);
  abi::View x = test.view("x", 1, 4, abi::DType::F32, 1, Arena::Host);
  abi::View out = test.view("out", 1, 4);
  auto &p = test.program("p");
  TaskOptions options{.stream = Stream::Host, .ints = {4, 1}};
  options.kernel = [](int64_t, int64_t, void *const *pointers) {
    if (static_cast<float *>(pointers[0])[0] == 7)
      throw std::runtime_error("seven");
  };
  uint32_t update = add(p, "cpu adam", TaskKind::Launch, {x}, options);
  add(p, "up", TaskKind::Copy, {x, out},
      {.stream = Stream::H2D, .waits = {update}});
  onhost::Settings settings = devicesOf(2, 1);
  Gpus gpus(test, {}, &settings);
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  ASSERT_TRUE(gpus.write(x, 0, {1, 1, 1, 1}).ok());
  ASSERT_TRUE(gpus.write(x, 1, {7, 1, 1, 1}).ok());
  // What follows goes on without having waited.
  gpus.expectClean = false;
  EXPECT_TRUE(gpus.machine->run("p").ok());
  expectSays(gpus.machine->wait(), {"seven", "task \"cpu adam\" of rank 1"});
}

//===----------------------------------------------------------------------===//
// Devices and libraries that do not fit
//===----------------------------------------------------------------------===//

Status make(uint32_t ranks, onhost::Settings settings,
            MachineOptions options = {}) {
  Everything job(ranks);
  Gpus gpus(job.test, options, &settings);
  return std::move(gpus.status);
}

// Fewer devices than ranks: both numbers, and what would help.
TEST(RefusalTest, FewerDevices) {
  expectSays(make(8, devicesOf(3, 1)),
             {"8 ranks", "found 3", "--share-device"});
}

// An architecture that the kernels were not compiled for: both are named.
TEST(RefusalTest, OlderArchitecture) {
  onhost::Settings settings = devicesOf(1, 1);
  settings.major = 7;
  settings.minor = 5;
  expectSays(make(1, settings), {"sm_80,sm_90a", "sm_75"}, Code::Invalid);
}

// Whether kernels run follows from their targets alone: what is tied to an
// architecture runs there, all else on newer ones, too.
TEST(RefusalTest, Architectures) {
  EXPECT_TRUE(checkArchitecture("sm_80", 8, 0).ok());
  EXPECT_TRUE(checkArchitecture("sm_80", 8, 9).ok());
  EXPECT_TRUE(checkArchitecture("sm_80", 12, 0).ok());
  EXPECT_FALSE(checkArchitecture("sm_86", 8, 0).ok());
  EXPECT_TRUE(checkArchitecture("sm_90a", 9, 0).ok());
  EXPECT_FALSE(checkArchitecture("sm_90a", 10, 0).ok());
  EXPECT_TRUE(checkArchitecture("sm_100f", 10, 3).ok());
  EXPECT_FALSE(checkArchitecture("sm_100f", 11, 0).ok());
  EXPECT_TRUE(checkArchitecture("sm_120,sm_90a", 9, 0).ok());
  EXPECT_FALSE(checkArchitecture("80", 8, 0).ok());
}

// Older driver, cuBLASLt and NCCL, with both versions.
TEST(RefusalTest, OlderLibraries) {
  onhost::Settings settings = devicesOf(2, 1);
  settings.driverVersion = 11080;
  expectSays(make(2, settings), {"driver", "11080", "13000"});
  settings = devicesOf(2, 1);
  settings.cublasLtVersion = 110000;
  expectSays(make(2, settings), {"cuBLASLt", "110000"});
  settings = devicesOf(2, 1);
  settings.ncclVersion = 20100;
  expectSays(make(2, settings), {"NCCL", "20100"});
  settings = devicesOf(2, 1);
  settings.runtimeVersion = 12000;
  expectSays(make(2, settings), {"runtime", "12000"});
}

// Too little memory: planned and free, for one rank and for ranks that share.
TEST(RefusalTest, TooLittleMemory) {
  Everything job(2);
  uint64_t planned = job.test.bundle.arenaBytes[0];
  std::string text = "planned " + std::to_string(planned);
  onhost::Settings settings = devicesOf(2, 1);
  settings.memoryBytes = uint64_t(1) << 30;
  settings.usedBytes = settings.memoryBytes - planned + 1;
  expectSays(make(2, settings),
             {text.c_str(), std::to_string(planned - 1).c_str(), "device 0"});
  settings.devices = 1;
  settings.usedBytes = settings.memoryBytes - 2 * planned + 1;
  MachineOptions options;
  options.cuda.shareDevice = true;
  expectSays(make(2, settings, options), {text.c_str(), "each of 2 ranks"});
  settings.usedBytes = 0;
  options.deviceMemory = planned - 1;
  expectSays(make(2, settings, options), {"bytes on each device"},
             Code::Invalid);
}

// What a machine cannot run is refused when it is made, with its task.
TEST(RefusalTest, TasksThatDoNotFit) {
  auto refused = [](const std::function<void(TestBundle &)> &fill) {
    TestBundle test(1);
    test.program("p");
    fill(test);
    onhost::Settings settings = devicesOf(1, 1);
    Gpus gpus(test, {}, &settings);
    EXPECT_FALSE(gpus.status.ok());
    return gpus.status.str();
  };
  auto has = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused([](TestBundle &test) {
        abi::View x = test.view("x", 2, 2);
        add(test.programTables[0], "sum", TaskKind::ColumnSum, {x, x});
      }),
      "no launcher");
  has(refused([](TestBundle &test) {
        abi::View x = test.view("x", 2, 2);
        abi::View h = test.view("h", 2, 2, abi::DType::F32, 2, Arena::Host);
        TaskOptions options{.ints = {1}};
        options.launch = launchStep;
        add(test.programTables[0], "norm", TaskKind::Launch, {x, h}, options);
      }),
      "host memory");
  has(refused([](TestBundle &test) {
        abi::View x = test.view("x", 1, 4);
        TaskOptions options{.stream = Stream::Host, .ints = {4, 1}};
        options.kernel = hostStep;
        add(test.programTables[0], "adam", TaskKind::Launch, {x, x}, options);
      }),
      "device memory");
  has(refused([](TestBundle &test) {
        abi::View x = test.view("x", 1, 4), y = test.view("y", 1, 3);
        add(test.programTables[0], "all", TaskKind::AllReduce, {x, y},
            {.ints = {0}});
      }),
      "\"all\" of rank 0");
}

//===----------------------------------------------------------------------===//
// Collectives that do not end
//===----------------------------------------------------------------------===//

// A rank that never enters a collective: after the timeout the others are told
// of it by rank and task, with what each last finished, the communicators are
// aborted and the run ends.
TEST(WatchTest, NamesTheCollectiveThatDoesNotEnd) {
  Everything job(2);
  MachineOptions options;
  options.collectiveTimeout = 2;
  onhost::Settings settings = devicesOf(2, 1);
  settings.stuckSeconds = 60;
  Status status = runEverything(job, options, settings, [] {
    // Of the second run: each has two on each of two ranks.
    onhost::inject(onhost::Fault::NeverEnter, 4);
  });
  expectSays(status, {" layers.0\" of program \"everything\"",
                      "has not completed on rank", "2 s",
                      "rank 0 last finished", "rank 1 last finished"});
  EXPECT_EQ(status.exitCode(), 3);
  EXPECT_GT(onhost::calls("ncclCommAbort"), 0u);
}

// What NCCL finds in the background, the watch reports.
TEST(WatchTest, ReportsWhatNcclFinds) {
  Everything job(2);
  onhost::configure(devicesOf(2, 1));
  Gpus gpus(job.test);
  gpus.expectClean = false;
  ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
  ASSERT_TRUE(job.fill(gpus).ok());
  ASSERT_TRUE(gpus.machine->wait().ok());
  onhost::failCall("ncclAsyncError", 0, ncclRemoteError);
  // The second collective never ends: there is time to look.
  onhost::inject(onhost::Fault::NeverEnter, 1);
  (void)gpus.machine->run("everything");
  Status status = gpus.machine->wait();
  expectSays(status, {"a collective: ", "rank"});
  EXPECT_EQ(status.exitCode(), 3);
}

// What takes long before a collective begins is no reason.
TEST(WatchTest, WaitsForWhatComesBefore) {
  Everything job(2);
  MachineOptions options;
  options.collectiveTimeout = 600;
  Status status = runEverything(job, options, devicesOf(2, 9));
  EXPECT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(onhost::calls("ncclCommAbort"), 0u);
}

//===----------------------------------------------------------------------===//
// Mistakes that the emulation must find
//===----------------------------------------------------------------------===//

// Each wait, record and signal of the program is needed: without any one of
// them, some interleaving shows two accesses that nothing orders.
TEST(DroppedTest, OneDroppedEventIsFound) {
  using onhost::Fault;
  for (Fault fault : {Fault::DropWait, Fault::DropRecord, Fault::DropSignal,
                      Fault::DropHostOrder}) {
    uint64_t found = 0, tried = 0;
    for (uint64_t n = 0; n < 40; ++n) {
      Everything job(1);
      onhost::Settings settings = devicesOf(1, n + 1);
      onhost::configure(settings);
      Gpus gpus(job.test);
      gpus.expectClean = false;
      ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
      ASSERT_TRUE(job.fill(gpus).ok());
      ASSERT_TRUE(gpus.machine->wait().ok());
      EXPECT_TRUE(onhost::takeReports().empty());
      onhost::inject(fault, n);
      (void)gpus.machine->run("everything");
      (void)gpus.machine->run("everything");
      (void)gpus.machine->wait();
      if (onhost::injected() == 0)
        break;
      ++tried;
      found += !onhost::takeReports().empty();
    }
    EXPECT_GT(tried, 0u) << static_cast<int>(fault);
    EXPECT_GT(found, 0u) << static_cast<int>(fault);
  }
}

// Collectives that a rank enters in another order, or with another size, are
// found as well.
TEST(DroppedTest, OtherCollectivesAreFound) {
  using onhost::Fault;
  for (Fault fault : {Fault::SwapCollectives, Fault::ShrinkCollective})
    for (uint64_t n = 0; n < 3; ++n) {
      SCOPED_TRACE(n);
      Everything job(2);
      MachineOptions options;
      options.collectiveTimeout = 2;
      onhost::configure(devicesOf(2, n + 1));
      Gpus gpus(job.test, options);
      gpus.expectClean = false;
      ASSERT_TRUE(gpus.status.ok()) << gpus.status.str();
      ASSERT_TRUE(job.fill(gpus).ok());
      ASSERT_TRUE(gpus.machine->wait().ok());
      onhost::inject(fault, n);
      (void)gpus.machine->run("everything");
      (void)gpus.machine->run("everything");
      Status status = gpus.machine->wait();
      EXPECT_GT(onhost::injected(), 0u);
      EXPECT_TRUE(!status.ok() || !onhost::takeReports().empty())
          << static_cast<int>(fault);
    }
}

} // namespace
} // namespace ciuic::rt::test
