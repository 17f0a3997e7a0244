//===- GpuTest.h - Programs on emulated GPUs --------------------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_TASK_CUDA_GPUTEST_H
#define CIUIC_TEST_RUNTIME_TASK_CUDA_GPUTEST_H

#include "runtime/task/cuda/CudaMachine.h"
#include "test/cuda_on_host/OnHost.h"
#include "test/runtime/task/TestProgram.h"
#include "test/runtime/task/cuda/TestKernels.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ciuic::rt::test {

inline onhost::Settings devicesOf(int devices, uint64_t seed) {
  onhost::Settings settings;
  settings.devices = devices;
  settings.seed = seed;
  settings.stuckSeconds = 20;
  return settings;
}

/// A bundle for GPUs, with what small machines need.
inline void forCuda(TestBundle &test) {
  test.bundle.target = abi::Target::Cuda;
  test.bundle.architectures = "sm_80,sm_90a";
  test.bundle.cudaReduce = reduceOnDevice;
}

/// A machine on emulated devices, or why there is none.
struct Gpus {
  Gpus(TestBundle &test, MachineOptions options = {},
       const onhost::Settings *settings = nullptr,
       CudaSettings more = {.exitGrace = 60}) {
    forCuda(test);
    if (settings)
      onhost::configure(*settings);
    options.threads = 2;
    auto made = CudaMachine::create(test.finish(), options, more);
    if (made.ok())
      machine = std::move(*made);
    else
      status = made.takeStatus();
  }
  ~Gpus() {
    machine.reset();
    for (const std::string &report : onhost::takeReports())
      if (expectClean)
        ADD_FAILURE() << report;
  }

  Status write(const abi::View &view, uint32_t rank,
               const std::vector<float> &values) {
    return machine->write(view, rank, 0, values.size(), values.data());
  }
  std::vector<float> read(const abi::View &view, uint32_t rank) {
    std::vector<float> values(
        static_cast<size_t>(view.shape[0] * view.shape[1]));
    Status status = machine->read(view, rank, 0, values.size(), values.data());
    EXPECT_TRUE(status.ok()) << status.str();
    return values;
  }

  std::unique_ptr<CudaMachine> machine;
  Status status;
  bool expectClean = true; ///< Whether findings fail the test.
};

/// A device task that does stepped().
inline uint32_t addStep(TestBundle::ProgramTables &program, const char *name,
                        const abi::View &from, const abi::View &to,
                        abi::Stream stream = abi::Stream::Compute,
                        std::vector<uint32_t> waits = {}, int64_t k = 1) {
  TaskOptions options{.stream = stream, .waits = std::move(waits), .ints = {k}};
  options.launch = launchStep;
  return add(program, name, abi::TaskKind::Launch, {from, to}, options);
}

/// A host task that does it with k = 5.
inline uint32_t addHostStep(TestBundle::ProgramTables &program,
                            const char *name, const abi::View &from,
                            const abi::View &to,
                            std::vector<uint32_t> waits = {}) {
  TaskOptions options{.stream = abi::Stream::Host,
                      .waits = std::move(waits),
                      .ints = {from.shape[1], 1},
                      .kernel = hostStep};
  return add(program, name, abi::TaskKind::Launch, {from, to}, options);
}

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_TASK_CUDA_GPUTEST_H
