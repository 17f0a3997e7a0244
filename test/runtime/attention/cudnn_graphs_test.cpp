//===- cudnn_graphs_test.cpp - The real cuDNN, without a device -----------===//
//
// cuDNN plans for a device that is only described: its engines recognise the
// graphs and compile kernels for them. Loading these takes a driver; the test
// runs with the toolkit's stub of one, which refuses to load. So each engine's
// last word must be that of the driver, not that the graph is not supported.
//
//===----------------------------------------------------------------------===//

#include "runtime/attention/cudnn/CudnnAttention.h"

#include <gtest/gtest.h>

#include <vector>

namespace ciuic::rt {
namespace {

/// cuDNN's description of a device; the numbers that differ.
std::string deviceJson(int version, int processors, int sharedBytes) {
  return R"({"maxGridSize":[2147483647,65535,65535],)"
         R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("multiProcessorCount":)" +
         std::to_string(processors) +
         R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("maxSharedMemoryPerBlockOptin":)" +
         std::to_string(sharedBytes) +
         R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
         R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"smClockRateKHz":1410000,)"
         R"("memClockRateKHz":1215000,"l2CacheSize":41943040,)"
         R"("deviceName":"described","deviceVer":)" +
         std::to_string(version) +
         R"(,"driverVer":13000,"cudaDeviceId":0,)"
         R"("totalGlobalMem":42949672960})";
}

/// What becomes of an attention task on a described device.
std::string outcome(const std::string &device, bool forward, int64_t heads,
                    int64_t kvHeads, int64_t dim) {
  auto opened = Cudnn::openWithoutDevice(device);
  if (!opened.ok())
    return opened.takeStatus().str();
  const int64_t sequences = 2, seq = 1024, rows = sequences * seq;
  std::vector<abi::View> views;
  std::vector<void *> pointers;
  auto add = [&](int64_t columns, abi::DType dtype) {
    views.push_back({0, dtype, 2, 0, 0, {rows, columns}, {columns, 1}});
    pointers.push_back(
        reinterpret_cast<void *>(uintptr_t{0x10000000} * views.size()));
  };
  const int64_t q = heads * dim, k = kvHeads * dim;
  const auto type = abi::DType::BF16;
  if (forward) {
    for (int64_t columns : {q, k, k, q})
      add(columns, type);
    add(heads, abi::DType::F32);
  } else {
    for (int64_t columns : {q, q, k, k, q})
      add(columns, type);
    add(heads, abi::DType::F32);
    for (int64_t columns : {q, k, k})
      add(columns, type);
  }
  const int64_t ints[] = {seq, heads, kvHeads};
  const double scale = 0.125;
  abi::CudaLaunch task{};
  task.pointers = pointers.data();
  task.views = views.data();
  task.viewCount = static_cast<uint32_t>(views.size());
  task.ints = ints;
  task.intCount = 3;
  task.reals = &scale;
  task.realCount = 1;
  task.scratch = reinterpret_cast<void *>(uintptr_t{0x900000000});
  task.scratchBytes = uint64_t{1} << 32;
  auto made = (*opened)->attention(forward ? abi::TaskKind::AttentionForward
                                           : abi::TaskKind::AttentionBackward,
                                   task);
  return made.ok() ? "served" : made.takeStatus().str();
}

class CudnnGraphs : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    auto library = cudnn::Library::open("libcudnn.so.9");
    if (!library.ok())
      GTEST_SKIP() << library.takeStatus().str();
    if ((*library)->version() < 90800)
      GTEST_SKIP() << "plans without a device take 9.8";
  }
  void expectCompiled(bool forward, int64_t heads, int64_t kvHeads,
                      int64_t dim) {
    const std::string text = outcome(GetParam(), forward, heads, kvHeads, dim);
    EXPECT_TRUE(text == "served" ||
                text.find("cuLibraryLoadData") != std::string::npos)
        << text;
  }
};

// Forward, one key head for each query head.
TEST_P(CudnnGraphs, Forward) { expectCompiled(/*forward=*/true, 8, 8, 64); }

// Backward, query heads in groups: what a group shares is summed over it.
TEST_P(CudnnGraphs, Backward) { expectCompiled(/*forward=*/false, 16, 4, 128); }

INSTANTIATE_TEST_SUITE_P(Devices, CudnnGraphs,
                         testing::Values(deviceJson(800, 108, 166912),
                                         deviceJson(900, 132, 232448)),
                         [](const auto &info) {
                           return info.index == 0 ? "sm_80" : "sm_90";
                         });

} // namespace
} // namespace ciuic::rt
