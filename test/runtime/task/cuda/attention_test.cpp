//===- attention_test.cpp - Who computes attention on a GPU ---------------===//
//
// A library that stands in for cuDNN is in test/runtime/attention: it computes
// by the project's own kernels, or wrongly, or not at all.
//
//===----------------------------------------------------------------------===//
#include "test/runtime/attention/FakeCudnn.h"
#include "test/runtime/kernels/cuda/AttentionInstances.h"
#include "test/runtime/task/cuda/GpuTest.h"

#include <dlfcn.h>

namespace ciuic::rt::test {
namespace {

using ciuic::test::FakeControl;
using ciuic::test::FakeExecution;

const std::string library = CIUIC_FAKE_CUDNN_DIR "/libfake_cudnn.so";

FakeControl &control() {
  static auto *get = reinterpret_cast<FakeControl *(*)()>(dlsym(
      dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), "fakeCudnnControl"));
  return *get();
}

int ownLaunches = 0;

int launchOwn(const abi::CudaLaunch &launch) {
  ++ownLaunches;
  return cuda::launchAttentionForward<cuda::bf16, 64>(launch);
}

/// Two layers of attention of one shape.
class AttentionJob {
public:
  static constexpr int64_t seq = 64, heads = 2, rows = 2 * seq;

  AttentionJob() : test(1) {
    const int64_t columns = heads * 64;
    const auto type = abi::DType::BF16;
    auto &program = test.program("p");
    scratch = test.view("scratch", 1, 256, abi::DType::F32, 1);
    program.views.push_back(scratch);
    for (int layer = 0; layer < 2; ++layer) {
      auto &views = layers.emplace_back();
      for (const char *name : {"q", "k", "v", "out"})
        views.push_back(test.view(name, rows, columns, type));
      views.push_back(test.view("lse", rows, heads));
      TaskOptions options{.ints = {seq, heads, heads}, .reals = {0.125}};
      options.launch = launchOwn;
      options.scratchView = 0;
      add(program, "attention", abi::TaskKind::AttentionForward, views,
          options);
    }
    ownLaunches = 0;
    control() = FakeControl();
  }

  /// What cuDNN does: the same as the own kernels, on what it is given.
  void answerRightly() {
    control().onExecute = [this](const FakeExecution &execution) {
      std::vector<void *> pointers;
      for (int64_t tensor = 0; tensor < 5; ++tensor)
        pointers.push_back(execution.pointers.at(tensor));
      const int64_t ints[] = {seq, heads, heads};
      const double scale = 0.125;
      abi::CudaLaunch launch{};
      launch.pointers = pointers.data();
      launch.views = layers[0].data();
      launch.viewCount = 5;
      launch.ints = ints;
      launch.intCount = 3;
      launch.reals = &scale;
      launch.realCount = 1;
      launch.stream = execution.stream;
      EXPECT_EQ((cuda::launchAttentionForward<cuda::bf16, 64>(launch)),
                cudaSuccess);
      ++answers;
    };
  }

  /// Makes a machine, fills q, k and v and runs; the bits of all outputs.
  std::vector<uint16_t> run(const std::string &mode,
                            const std::string &name = library) {
    MachineOptions options;
    options.cuda.attention = mode;
    Gpus gpus(test, options, nullptr, {.exitGrace = 60, .cudnn = name});
    status = gpus.status.str();
    if (!gpus.machine)
      return {};
    triedAnswers = answers;
    std::vector<uint16_t> bits(rows * heads * 64), all;
    std::mt19937 random(7);
    for (auto &views : layers)
      for (int i = 0; i < 3; ++i) {
        for (uint16_t &value : bits) // Between 0.5 and 2, both signs.
          value = static_cast<uint16_t>((random() & 0x80ff) | 0x3f00);
        EXPECT_TRUE(
            gpus.machine->write(views[i], 0, 0, bits.size(), bits.data()).ok());
      }
    EXPECT_TRUE(gpus.machine->run("p").ok());
    Status waited = gpus.machine->wait();
    EXPECT_TRUE(waited.ok()) << waited.str();
    for (auto &views : layers) {
      EXPECT_TRUE(
          gpus.machine->read(views[3], 0, 0, bits.size(), bits.data()).ok());
      all.insert(all.end(), bits.begin(), bits.end());
    }
    return all;
  }

  TestBundle test;
  abi::View scratch;
  std::vector<std::vector<abi::View>> layers;
  int answers = 0;      ///< Executions by cuDNN.
  int triedAnswers = 0; ///< Before the first run.
  std::string status;
};

// cuDNN that agrees is used for all layers, after one trial for their shape.
TEST(GpuAttention, ByCudnn) {
  AttentionJob own, cudnn;
  const auto expected = own.run("own");
  EXPECT_EQ(ownLaunches, 2);
  ownLaunches = 0;
  cudnn.answerRightly();
  EXPECT_EQ(cudnn.run("auto"), expected);
  EXPECT_EQ(cudnn.triedAnswers, 1);
  EXPECT_EQ(cudnn.answers, 3);
  EXPECT_EQ(ownLaunches, 1);
}

// One that computes something else is not used.
TEST(GpuAttention, CudnnDiffers) {
  AttentionJob own, cudnn;
  const auto expected = own.run("own");
  ownLaunches = 0;
  control().onExecute = nullptr; // Writes nothing.
  EXPECT_EQ(cudnn.run("auto"), expected);
  EXPECT_EQ(ownLaunches, 1 + 2);
  EXPECT_EQ(cudnn.run("cudnn"), std::vector<uint16_t>());
  EXPECT_NE(cudnn.status.find("cuDNN differs"), std::string::npos)
      << cudnn.status;
}

// Without an engine, or without the library, the own kernels serve; asked for
// by name, cuDNN that does not serve is an error that says why.
TEST(GpuAttention, CudnnAbsent) {
  AttentionJob own, cudnn;
  const auto expected = own.run("own");
  control().engines = {};
  EXPECT_EQ(cudnn.run("auto"), expected);
  EXPECT_EQ(cudnn.run("auto", "/nowhere/libcudnn.so.9"), expected);
  EXPECT_EQ(cudnn.run("cudnn", "/nowhere/libcudnn.so.9"),
            std::vector<uint16_t>());
  EXPECT_NE(cudnn.status.find("no cuDNN: /nowhere/libcudnn.so.9"),
            std::string::npos)
      << cudnn.status;
  EXPECT_NE(cudnn.status.find("for --attention cudnn"), std::string::npos);
}

} // namespace
} // namespace ciuic::rt::test
