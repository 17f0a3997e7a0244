//===- cudnn_attention_test.cpp - cuDNN, present, absent and odd ----------===//
//
// The libraries that stand in for cuDNN are FakeCudnn.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/cudnn/CudnnAttention.h"
#include "runtime/attention/cudnn/CudnnCheck.h"
#include "test/runtime/attention/FakeCudnn.h"
#include "test/runtime/kernels/cuda/AttentionInstances.h"

#include <gtest/gtest.h>

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>

namespace ciuic::rt {
namespace {

using test::FakeControl;
using test::FakeExecution;

const std::string folder = CIUIC_FAKE_CUDNN_DIR;
const std::string goodLibrary = folder + "/libfake_cudnn.so";

FakeControl &control() {
  // Never closed: cuDNN is not either.
  static auto *get = reinterpret_cast<FakeControl *(*)()>(dlsym(
      dlopen(goodLibrary.c_str(), RTLD_NOW | RTLD_LOCAL), "fakeCudnnControl"));
  return *get();
}

/// An attention task of bf16 whose addresses lead nowhere.
struct Task {
  Task(abi::TaskKind kind, int64_t sequences, int64_t seq, int64_t heads,
       int64_t kvHeads, int64_t dim)
      : kind(kind), ints{seq, heads, kvHeads} {
    const int64_t rows = sequences * seq;
    const int64_t q = heads * dim, k = kvHeads * dim;
    const bool forward = kind == abi::TaskKind::AttentionForward;
    for (int64_t columns :
         forward ? std::vector<int64_t>{q, k, k, q, 0}
                 : std::vector<int64_t>{q, q, k, k, q, 0, q, k, k}) {
      const bool isLse = columns == 0;
      if (isLse)
        columns = heads;
      views.push_back({0,
                       isLse ? abi::DType::F32 : abi::DType::BF16,
                       2,
                       0,
                       0,
                       {rows, columns},
                       {columns, 1}});
      pointers.push_back(
          reinterpret_cast<void *>(uintptr_t{0x100000} * views.size()));
    }
  }

  abi::CudaLaunch launch() {
    abi::CudaLaunch launch{};
    launch.pointers = pointers.data();
    launch.views = views.data();
    launch.viewCount = static_cast<uint32_t>(views.size());
    launch.ints = ints;
    launch.intCount = 3;
    launch.reals = &scale;
    launch.realCount = 1;
    launch.scratch = scratch;
    launch.scratchBytes = scratchBytes;
    launch.stream = stream;
    return launch;
  }

  abi::TaskKind kind;
  int64_t ints[3];
  double scale = 0.125;
  std::vector<abi::View> views;
  std::vector<void *> pointers;
  void *scratch = reinterpret_cast<void *>(uintptr_t{0x5000000});
  uint64_t scratchBytes = 1 << 20;
  void *stream = nullptr;
};

Task forwardTask() {
  return Task(abi::TaskKind::AttentionForward, 2, 64, 4, 2, 64);
}
Task backwardTask() {
  return Task(abi::TaskKind::AttentionBackward, 2, 64, 4, 2, 64);
}

/// Why a task is not served.
std::string refusal(Cudnn &cudnn, Task &task) {
  auto made = cudnn.attention(task.kind, task.launch());
  return made.ok() ? "served" : made.takeStatus().str();
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

class CudnnTest : public testing::Test {
protected:
  void SetUp() override {
    control() = FakeControl();
    auto opened = Cudnn::open(goodLibrary);
    ASSERT_TRUE(opened.ok()) << opened.takeStatus().str();
    cudnn = std::move(*opened);
  }
  std::unique_ptr<Cudnn> cudnn;
};

// No library is a reason, not a failure of the job.
TEST(CudnnLibrary, Absent) {
  auto opened = Cudnn::open("/nowhere/libcudnn.so.9");
  ASSERT_FALSE(opened.ok());
  EXPECT_TRUE(contains(opened.takeStatus().str(), "/nowhere/libcudnn.so.9"));
}

// An older version is refused with both numbers.
TEST(CudnnLibrary, TooOld) {
  auto opened = Cudnn::open(folder + "/libfake_cudnn_old.so");
  ASSERT_FALSE(opened.ok());
  const std::string text = opened.takeStatus().str();
  EXPECT_TRUE(contains(text, "cuDNN 8.9.7")) << text;
  EXPECT_TRUE(contains(text, "expected 9.6.0")) << text;
}

// A library without one of the functions is refused by that name.
TEST(CudnnLibrary, FunctionMissing) {
  auto opened = Cudnn::open(folder + "/libfake_cudnn_incomplete.so");
  ASSERT_FALSE(opened.ok());
  EXPECT_TRUE(contains(opened.takeStatus().str(),
                       "has no function cudnnBackendExecute"));
}

// Something else by the name of cuDNN.
TEST(CudnnLibrary, NoCudnn) {
  auto opened = Cudnn::open("libm.so.6");
  ASSERT_FALSE(opened.ok());
  EXPECT_TRUE(contains(opened.takeStatus().str(), "no cudnnGetVersion"));
}

// cuDNN may be there and the device not.
TEST(CudnnLibrary, NoDevice) {
  control() = FakeControl();
  control().createResult = 1001;
  auto opened = Cudnn::open(goodLibrary);
  ASSERT_FALSE(opened.ok());
  EXPECT_TRUE(contains(opened.takeStatus().str(), "cudnnCreate: FAKE_ERROR"));
}

// The heuristics may name no engine, or engines that then refuse the graph.
TEST_F(CudnnTest, EngineRefused) {
  Task task = forwardTask();
  control().engines = {};
  EXPECT_TRUE(contains(refusal(*cudnn, task), "no engine for this graph"));
  Task other = backwardTask();
  control().engines = {{0, false, true}};
  EXPECT_TRUE(contains(refusal(*cudnn, other), "not this graph"));
}

// A refusal is kept: each layer asks again.
TEST_F(CudnnTest, RefusalIsKept) {
  Task task = forwardTask();
  control().engines = {};
  const std::string first = refusal(*cudnn, task);
  control().engines = {{}};
  EXPECT_EQ(refusal(*cudnn, task), first);
}

// Workspace is planned memory: an engine that needs more is passed over.
TEST_F(CudnnTest, WorkspaceTooLarge) {
  Task task = forwardTask();
  task.scratchBytes = 255;
  control().engines = {{256, false, false}};
  const std::string text = refusal(*cudnn, task);
  EXPECT_TRUE(contains(text, "256 bytes of workspace, 255 planned")) << text;
  Task larger = forwardTask();
  larger.scratchBytes = 256;
  control().engines = {{257, false, false}, {256, false, false}};
  auto made = cudnn->attention(larger.kind, larger.launch());
  ASSERT_TRUE(made.ok()) << made.takeStatus().str();
  EXPECT_EQ((*made)->scratchBytes(), 256u);
}

// Backward keeps a sum for each row in scratch before the workspace.
TEST_F(CudnnTest, BackwardScratch) {
  Task task = backwardTask();
  const uint64_t sums = 2 * 64 * 4 * 4, gradients = 2 * 4 * 64 * 64 * 2;
  control().engines = {{gradients + 10, false, false}};
  task.scratchBytes = sums + gradients + 9;
  EXPECT_TRUE(contains(refusal(*cudnn, task), "bytes of workspace"));
  task.scratchBytes = sums - 1;
  EXPECT_TRUE(contains(refusal(*cudnn, task), "needs 2048"));
  // Without room for the gradients of the scores no engine is asked.
  task.scratchBytes = sums + gradients - 1;
  EXPECT_TRUE(contains(refusal(*cudnn, task), "needs 67584 at least"));
  task.scratchBytes = sums + gradients + 10;
  auto made = cudnn->attention(task.kind, task.launch());
  ASSERT_TRUE(made.ok()) << made.takeStatus().str();
  ASSERT_TRUE((*made)->run(nullptr).ok());
  EXPECT_EQ(control().last.workspace, static_cast<char *>(task.scratch) + sums);
}

// Engines that say that runs may differ are passed over.
TEST_F(CudnnTest, Nondeterministic) {
  Task task = backwardTask();
  control().engines = {{0, true, false}};
  EXPECT_TRUE(contains(refusal(*cudnn, task), "runs may differ"));
}

// What the fused engines do not take is refused without asking them.
TEST_F(CudnnTest, NotServed) {
  auto refused = [&](auto change, const char *why) {
    Task task = forwardTask();
    change(task);
    const std::string text = refusal(*cudnn, task);
    EXPECT_TRUE(contains(text, why)) << text;
  };
  refused([](Task &task) { task.views[0].dtype = abi::DType::F32; },
          "f16 and bf16 only");
  refused([](Task &task) { task.ints[0] = 32; }, "a sequence of 32");
  refused([](Task &task) { task.ints[0] = 63; }, "does not divide");
  refused([](Task &task) { task.ints[2] = 3; }, "does not divide");
  refused([](Task &task) { task.views[1].strides[0] += 4; }, "view 1");
  refused(
      [](Task &task) {
        task.pointers[2] = static_cast<char *>(task.pointers[2]) + 8;
      },
      "view 2");
  refused([](Task &task) { task.kind = abi::TaskKind::Copy; },
          "attention only");
  EXPECT_EQ(control().plans, 0);
}

// Tasks of one shape share a plan; each has its own addresses.
TEST_F(CudnnTest, PlansAreShared) {
  Task first = forwardTask(), second = forwardTask();
  for (void *&pointer : second.pointers)
    pointer = static_cast<char *>(pointer) + 0x1000;
  auto a = cudnn->attention(first.kind, first.launch());
  auto b = cudnn->attention(second.kind, second.launch());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(control().plans, 1);
  int stream = 0;
  ASSERT_TRUE((*b)->run(&stream).ok());
  EXPECT_EQ(control().last.stream, &stream);
  for (void *pointer : second.pointers)
    EXPECT_TRUE(std::any_of(
        control().last.pointers.begin(), control().last.pointers.end(),
        [&](const auto &entry) { return entry.second == pointer; }));
  // The scale is read from host memory.
  EXPECT_TRUE(std::any_of(
      control().last.pointers.begin(), control().last.pointers.end(),
      [&](const auto &entry) {
        return reinterpret_cast<uintptr_t>(entry.second) > 0x10000000 &&
               *static_cast<float *>(entry.second) == 0.125f;
      }));
}

// A failed start is an error in cuDNN's words.
TEST_F(CudnnTest, ExecutionFails) {
  Task task = forwardTask();
  auto made = cudnn->attention(task.kind, task.launch());
  ASSERT_TRUE(made.ok());
  control().executeResult = 5000;
  Status status = (*made)->run(nullptr);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(contains(status.str(), "cudnnBackendExecute: FAKE_ERROR"));
  EXPECT_TRUE(contains(status.str(), "the kernel did not start"));
}

// Nothing of the library is left behind.
TEST_F(CudnnTest, DescriptorsAreDestroyed) {
  {
    Task forward = forwardTask(), backward = backwardTask();
    auto a = cudnn->attention(forward.kind, forward.launch());
    auto b = cudnn->attention(backward.kind, backward.launch());
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_GT(control().descriptors, 0);
  }
  cudnn.reset();
  EXPECT_EQ(control().descriptors, 0);
}

/// A task in emulated device memory, with the kernels of the project.
class CudnnCheckTest : public CudnnTest {
protected:
  void SetUp() override {
    CudnnTest::SetUp();
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
              cudaSuccess);
  }
  void TearDown() override {
    for (void *pointer : allocated)
      cudaFree(pointer);
    cudaStreamDestroy(stream);
  }

  void place(Task &task) {
    for (size_t i = 0; i < task.views.size(); ++i)
      task.pointers[i] =
          allocate(task.views[i].shape[0] * task.views[i].strides[0] * 4);
    task.scratch = allocate(task.scratchBytes);
    task.stream = stream;
  }
  void *allocate(size_t bytes) {
    void *pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, bytes), cudaSuccess);
    allocated.push_back(pointer);
    return pointer;
  }

  /// Runs the check where cuDNN computes what `compute` does.
  Status check(Task &task, abi::CudaLaunchFn own,
               std::function<void()> compute) {
    control().onExecute = [&](const FakeExecution &) { compute(); };
    auto made = cudnn->attention(task.kind, task.launch());
    if (!made.ok())
      return made.takeStatus();
    return checkCudnnTask(**made, task.kind, task.launch(), own);
  }

  cudaStream_t stream = nullptr;
  std::vector<void *> allocated;
};

int forwardLauncher(const abi::CudaLaunch &launch) {
  return cuda::launchAttentionForward<cuda::bf16, 64>(launch);
}
int backwardLauncher(const abi::CudaLaunch &launch) {
  return cuda::launchAttentionBackward<cuda::bf16, 64>(launch);
}

// A library that computes the same passes.
TEST_F(CudnnCheckTest, Agrees) {
  Task forward = forwardTask(), backward = backwardTask();
  place(forward);
  place(backward);
  Status status = check(forward, forwardLauncher,
                        [&] { forwardLauncher(forward.launch()); });
  EXPECT_TRUE(status.ok()) << status.str();
  status = check(backward, backwardLauncher,
                 [&] { backwardLauncher(backward.launch()); });
  EXPECT_TRUE(status.ok()) << status.str();
}

// A library that writes nothing, or statistics a head after the other, fails.
TEST_F(CudnnCheckTest, Differs) {
  Task task = forwardTask();
  place(task);
  Status status = check(task, forwardLauncher, [] {});
  EXPECT_TRUE(contains(status.str(), "view 3, row 0")) << status.str();
  status = check(task, forwardLauncher, [&] {
    forwardLauncher(task.launch());
    const size_t count = task.views[4].shape[0] * task.views[4].shape[1];
    std::vector<float> lse(count), turned(count);
    cudaMemcpyAsync(lse.data(), task.pointers[4], count * 4,
                    cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    const int64_t seq = 64, heads = 4;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t t = 0; t < seq; ++t)
        for (int64_t h = 0; h < heads; ++h)
          turned[(b * heads + h) * seq + t] = lse[(b * seq + t) * heads + h];
    cudaMemcpyAsync(task.pointers[4], turned.data(), count * 4,
                    cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
  });
  EXPECT_TRUE(contains(status.str(), "view 4")) << status.str();
}

} // namespace
} // namespace ciuic::rt
