//===- StatesInFiles.h - A program with states in files ---------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_TASK_STATESINFILES_H
#define CIUIC_TEST_RUNTIME_TASK_STATESINFILES_H

#include "runtime/task/HostMachine.h"
#include "test/runtime/task/TestProgram.h"

#include <gtest/gtest.h>

namespace ciuic::rt::test {

/// Two states a rank in a file, which each run brings to memory in turn, adds
/// one to and puts back, unless `skip` is not 0.
struct StatesInFiles {
  static constexpr int64_t elements = 5000;

  StatesInFiles() : test(3) {
    test.bundle.target = abi::Target::Cpu;
    test.bundle.disk = {folder.c_str(), 8192, 2};
    auto vector = [&](const char *name, abi::Arena arena) {
      abi::View view = test.view(name, 1, elements, abi::DType::F32, 1, arena);
      return view;
    };
    skip = test.view("skip", 1, 1, abi::DType::F32, 0, abi::Arena::Host);
    states = {vector("m", abi::Arena::Nvme), vector("v", abi::Arena::Nvme)};
    abi::View staged = vector("staged", abi::Arena::Host);
    auto &program = test.program("add");
    for (size_t i = 0; i < states.size(); ++i) {
      uint32_t read = add(program, "read", abi::TaskKind::Copy,
                          {states[i], staged}, {.stream = abi::Stream::Disk});
      TaskOptions more{.stream = abi::Stream::Host,
                       .waits = {read},
                       .ints = {1, 1},
                       .kernel = addOne};
      uint32_t done =
          add(program, "more", abi::TaskKind::Launch, {staged}, more);
      program.views.push_back(skip);
      add(program, "write", abi::TaskKind::Copy, {staged, states[i]},
          {.stream = abi::Stream::Disk,
           .waits = {done},
           .skipView = static_cast<int32_t>(program.views.size()) - 1});
    }
  }

  Result<std::unique_ptr<Machine>> make(DiskFlags flags = {}) {
    MachineOptions options;
    options.threads = 2;
    options.disk = flags;
    return HostMachine::create(test.finish(), options);
  }

  static void addOne(int64_t, int64_t, void *const *pointers) {
    auto *values = static_cast<float *>(pointers[0]);
    for (int64_t k = 0; k < elements; ++k)
      values[k] += 1;
  }

  std::string folder = testing::TempDir();
  TestBundle test;
  abi::View skip;
  std::vector<abi::View> states;
};

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_TASK_STATESINFILES_H
