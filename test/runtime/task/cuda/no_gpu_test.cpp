//===- no_gpu_test.cpp - The real libraries without a GPU -----------------===//
#include "runtime/task/cuda/CudaMachine.h"
#include "test/runtime/task/TestProgram.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace ciuic::rt::test {
namespace {

// The machine links to the real libraries, and says where there is no device
// that there is none, or no driver for one.
TEST(NoGpuTest, IsSaid) {
  int found = 0;
  if (cudaGetDeviceCount(&found) == cudaSuccess && found > 0)
    GTEST_SKIP() << "there is a GPU";
  TestBundle test(1);
  test.bundle.target = abi::Target::Cuda;
  test.bundle.architectures = "sm_80";
  test.program("p");
  auto made = CudaMachine::create(test.finish(), {});
  ASSERT_FALSE(made.ok());
  Status status = made.takeStatus();
  EXPECT_EQ(status.exitCode(), 3) << status.str();
  EXPECT_TRUE(status.str().find("found 0") != std::string::npos ||
              status.str().find("cudaGetDeviceCount") != std::string::npos)
      << status.str();
}

} // namespace
} // namespace ciuic::rt::test
