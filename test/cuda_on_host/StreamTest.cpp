//===- StreamTest.cpp - Streams, events and races ---------------*- C++ -*-===//
#include "test/cuda_on_host/TestSupport.h"

#include <cuda.h>

#include <atomic>
#include <thread>

using namespace ciuic;
using namespace ciuic::onhost::test;

namespace {

__global__ void fill(int *out, int n, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < n;
       i += static_cast<int>(blockDim.x))
    out[i] = value;
}

__global__ void copy(int *out, const int *in, int n) {
  for (int i = static_cast<int>(threadIdx.x); i < n;
       i += static_cast<int>(blockDim.x))
    out[i] = in[i];
}

struct Streams {
  Streams() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking),
              cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking),
              cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              cudaSuccess);
    first = allocate<int>(64);
    second = allocate<int>(64);
  }
  cudaStream_t a, b;
  cudaEvent_t event;
  int *first, *second;
};

/// `fill` on one stream, `copy` on another, ordered by an event or not.
void produceAndConsume(Streams &s, bool ordered) {
  launchOn(s.a, fill, 1, 32, s.first, 64, 7);
  if (ordered) {
    EXPECT_EQ(cudaEventRecord(s.event, s.a), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(s.b, s.event), cudaSuccess);
  }
  launchOn(s.b, copy, 1, 32, s.second, s.first, 64);
}

// An event orders two streams: no report for any interleaving, right values.
TEST(Stream, EventsOrder) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    start(seed);
    Streams s;
    produceAndConsume(s, true);
    ASSERT_EQ(cudaStreamSynchronize(s.b), cudaSuccess);
    EXPECT_EQ(read(s.second, 64), std::vector<int>(64, 7));
    ASSERT_EQ(onhost::takeReports(), noReports());
  }
}

// Without it the two are a race, also where they ran in the right order.
TEST(Stream, FindsAMissingEvent) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    start(seed);
    Streams s;
    launchOn(s.a, fill, 1, 32, s.first, 64, 1);
    ASSERT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
    produceAndConsume(s, false);
    auto reports = onhost::takeReports();
    ASSERT_TRUE(contains(reports, "race: "));
    ASSERT_TRUE(contains(reports, "fill") && contains(reports, "copy"));
  }
}

// A dropped wait is found like one that was never written.
TEST(Stream, FindsADroppedWait) {
  start();
  Streams s;
  onhost::inject(onhost::Fault::DropWait, 0);
  produceAndConsume(s, true);
  auto reports = onhost::takeReports();
  EXPECT_EQ(onhost::injected(), 1u);
  EXPECT_TRUE(contains(reports, "race: ") ||
              contains(reports, "never written"));
}

// Two readers without order are no race; a writer behind one of them only is.
TEST(Stream, KeepsAllReaders) {
  start();
  Streams s;
  launchOn(s.a, fill, 1, 32, s.first, 64, 1);
  ASSERT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
  launchOn(s.a, copy, 1, 32, s.second, s.first, 64);
  int *third = allocate<int>(64);
  launchOn(s.b, copy, 1, 32, third, s.first, 64);
  EXPECT_EQ(onhost::takeReports(), noReports());
  launchOn(s.a, copy, 1, 32, s.second, s.first, 64);
  launchOn(s.b, copy, 1, 32, third, s.first, 64);
  launchOn(s.a, fill, 1, 32, s.first, 64, 2);
  EXPECT_TRUE(contains(onhost::takeReports(), "race: "));
}

// A host task that is released by a host function and signals a flag: clean
// with its token, a race if it comes after nothing.
TEST(Stream, OrdersHostTasks) {
  for (uint64_t seed = 1; seed <= 10; ++seed)
    for (bool drop : {false, true}) {
      start(seed);
      Streams s;
      int *pinned = nullptr;
      uint32_t *flag = nullptr;
      ASSERT_EQ(cudaMallocHost(&pinned, 256), cudaSuccess);
      ASSERT_EQ(cudaMallocHost(&flag, 4), cudaSuccess);
      *flag = 0;
      if (drop)
        onhost::inject(onhost::Fault::DropHostOrder, 0);
      launchOn(s.a, fill, 1, 32, s.first, 64, 3);
      ASSERT_EQ(
          cudaMemcpyAsync(pinned, s.first, 256, cudaMemcpyDeviceToHost, s.a),
          cudaSuccess);
      std::atomic<uint64_t> token = 0;
      ASSERT_EQ(cudaLaunchHostFunc(
                    s.a,
                    [](void *data) {
                      *static_cast<std::atomic<uint64_t> *>(data) =
                          onhost::hostRelease();
                    },
                    &token),
                cudaSuccess);
      std::thread task([&] {
        while (!token)
          std::this_thread::yield();
        onhost::hostAccess(token, pinned, 256, true, "double it");
        for (int i = 0; i < 64; ++i)
          pinned[i] *= 2;
        onhost::hostSignal(token, flag, 5);
        std::atomic_ref<uint32_t>(*flag).store(5);
      });
      ASSERT_EQ(cuStreamWaitValue32(s.b, reinterpret_cast<CUdeviceptr>(flag), 5,
                                    CU_STREAM_WAIT_VALUE_GEQ),
                CUDA_SUCCESS);
      ASSERT_EQ(
          cudaMemcpyAsync(s.second, pinned, 256, cudaMemcpyHostToDevice, s.b),
          cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(s.b), cudaSuccess);
      task.join();
      EXPECT_EQ(read(s.second, 64), std::vector<int>(64, 6));
      auto reports = onhost::takeReports();
      EXPECT_EQ(contains(reports, "double it"), drop);
    }
}

// A flag that nobody sets is reported with what waits for it.
TEST(Stream, ReportsAStuckStream) {
  start();
  Streams s;
  uint32_t *flag = nullptr;
  ASSERT_EQ(cudaMallocHost(&flag, 4), cudaSuccess);
  *flag = 0;
  ASSERT_EQ(cuStreamWaitValue32(s.a, reinterpret_cast<CUdeviceptr>(flag), 1,
                                CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaErrorLaunchTimeout);
  EXPECT_TRUE(contains(onhost::takeReports(), "the value 1 in a flag"));
}

// Device memory runs out where the settings say so.
TEST(Stream, RunsOutOfMemory) {
  onhost::Settings settings;
  settings.memoryBytes = 1 << 20;
  onhost::configure(settings);
  void *p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 2 << 20), cudaErrorMemoryAllocation);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&p, 1 << 19), cudaSuccess);
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, size_t(1) << 19);
}

// The n-th call of a function fails with what the test asked for.
TEST(Stream, FailsTheCallThatATestNames) {
  start();
  onhost::failCall("cudaEventCreateWithFlags", 1, cudaErrorUnknown);
  cudaEvent_t event;
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&event), cudaErrorUnknown);
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
}

// A captured stretch with a branch runs as often as it is launched.
TEST(Stream, ReplaysAGraph) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed);
    Streams s;
    cudaEvent_t joined;
    ASSERT_EQ(cudaEventCreate(&joined), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal),
              cudaSuccess);
    produceAndConsume(s, true);
    ASSERT_EQ(cudaEventRecord(joined, s.b), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(s.a, joined), cudaSuccess);
    cudaGraph_t graph;
    ASSERT_EQ(cudaStreamEndCapture(s.a, &graph), cudaSuccess);
    cudaGraphExec_t exec;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(cudaGraphLaunch(exec, s.a), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
    EXPECT_EQ(read(s.second, 64), std::vector<int>(64, 7));
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

// A branch that does not lead back is refused.
TEST(Stream, RefusesAnUnjoinedCapture) {
  start();
  Streams s;
  ASSERT_EQ(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
  produceAndConsume(s, true);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureUnjoined);
}

// What a buffer held in its last life is not there in the next.
TEST(Stream, ForgetsWhatWasWritten) {
  start();
  Streams s;
  launchOn(s.a, fill, 1, 32, s.first, 64, 1);
  launchOn(s.a, copy, 1, 32, s.second, s.first, 64);
  EXPECT_EQ(onhost::takeReports(), noReports());
  onhost::forget(s.first + 32, 4);
  launchOn(s.a, copy, 1, 32, s.second, s.first, 64);
  EXPECT_TRUE(contains(onhost::takeReports(), "never written"));
}

// The host reads pinned memory after it waited for the stream, not before.
TEST(Stream, OrdersTheHost) {
  for (bool waits : {true, false}) {
    start();
    Streams s;
    int *pinned = nullptr;
    ASSERT_EQ(cudaMallocHost(&pinned, 256), cudaSuccess);
    launchOn(s.a, fill, 1, 32, pinned, 64, 1);
    if (waits) {
      ASSERT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
    }
    // The stream is done in any case; whether the host knows is the point.
    onhost::label(s.a, "");
    while (cudaStreamQuery(s.b) != cudaSuccess)
      ;
    onhost::hostReads(pinned, 256);
    auto reports = onhost::takeReports();
    EXPECT_EQ(reports.empty(), waits);
  }
}

// Stream 0 waits for other streams that do not say otherwise, and they for it.
TEST(Stream, OrdersStreamZero) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed);
    cudaStream_t blocking;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    int *first = allocate<int>(64), *second = allocate<int>(64);
    launchOn(blocking, fill, 1, 32, first, 64, 4);
    launchOn(nullptr, copy, 1, 32, second, first, 64);
    launchOn(blocking, fill, 1, 32, second, 64, 5);
    ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
    EXPECT_EQ(read(second, 64), std::vector<int>(64, 5));
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

// Pageable memory is copied aside by the call itself.
TEST(Stream, StagesPageableMemory) {
  start();
  Streams s;
  std::vector<int> host(64, 9);
  ASSERT_EQ(
      cudaMemcpyAsync(s.first, host.data(), 256, cudaMemcpyHostToDevice, s.a),
      cudaSuccess);
  host.assign(64, 0);
  ASSERT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
  EXPECT_EQ(read(s.first, 64), std::vector<int>(64, 9));
}

// Memory given back is out of bounds, and addresses are not used again.
TEST(Stream, ReportsMemoryGivenBack) {
  start();
  Streams s;
  ASSERT_EQ(cudaFree(s.first), cudaSuccess);
  EXPECT_NE(allocate<int>(64), s.first);
  launchOn(s.a, fill, 1, 32, s.first, 64, 1);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaErrorIllegalAddress);
  // An error like this stays.
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

// A host function may not call CUDA.
TEST(Stream, RefusesCallsFromHostFunctions) {
  start();
  cudaError_t error = cudaSuccess;
  ASSERT_EQ(cudaLaunchHostFunc(
                nullptr,
                [](void *data) {
                  *static_cast<cudaError_t *>(data) = cudaDeviceSynchronize();
                },
                &error),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

} // namespace
