//===- TestProgram.h - Builds small program tables in tests -----*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_TASK_TESTPROGRAM_H
#define CIUIC_TEST_RUNTIME_TASK_TESTPROGRAM_H

#include "runtime/abi/Sizes.h"

#include <deque>
#include <string>
#include <vector>

namespace ciuic::rt::test {

/// Owns the tables of a bundle. Buffers are laid out one after another.
class TestBundle {
public:
  explicit TestBundle(uint32_t ranks) {
    bundle.version = abi::kVersion;
    bundle.ranks = ranks;
    bundle.modelName = "test";
    bundle.microBatch = 1;
    bundle.sequence = 4;
    bundle.accumulation = 1;
    bundle.vocabulary = 300;
    bundle.isa = "x86-64";
    // Tokens and labels, for tests that do not care: buffer 0.
    bundle.tokensBuffer = bundle.labelsBuffer =
        static_cast<int32_t>(buffer("inputs", 16));
  }

  uint32_t buffer(const char *name, uint64_t bytes,
                  abi::Arena arena = abi::Arena::Device) {
    uint64_t &used = bundle.arenaBytes[static_cast<int>(arena)];
    buffers.push_back({name, bytes, used, arena});
    used += (bytes + 255) / 256 * 256;
    return static_cast<uint32_t>(buffers.size() - 1);
  }

  /// All of a new buffer as a matrix.
  abi::View view(const char *name, int64_t rows, int64_t columns,
                 abi::DType dtype = abi::DType::F32, int rank = 2,
                 abi::Arena arena = abi::Arena::Device) {
    uint32_t index = buffer(
        name, static_cast<uint64_t>(rows * columns) * byteSize(dtype), arena);
    return {index,           dtype,       static_cast<uint8_t>(rank), 0, 0,
            {rows, columns}, {columns, 1}};
  }
  abi::View scalar(const char *name, abi::DType dtype = abi::DType::F32) {
    return view(name, 1, 1, dtype, 0);
  }

  struct ProgramTables {
    std::vector<abi::Task> tasks;
    std::vector<abi::View> views;
    std::vector<uint32_t> waits;
    std::vector<int64_t> ints;
    std::vector<double> reals;
    const char *name;
  };

  ProgramTables &program(const char *name) {
    programTables.push_back({});
    programTables.back().name = name;
    return programTables.back();
  }

  /// Points the bundle at the tables; again after they changed.
  const abi::Bundle &finish() {
    programs.clear();
    for (const ProgramTables &p : programTables)
      programs.push_back({p.name, p.tasks.data(),
                          static_cast<uint32_t>(p.tasks.size()), p.views.data(),
                          p.waits.data(), p.ints.data(), p.reals.data(),
                          static_cast<uint32_t>(p.views.size()),
                          static_cast<uint32_t>(p.waits.size()),
                          static_cast<uint32_t>(p.ints.size()),
                          static_cast<uint32_t>(p.reals.size())});
    bundle.buffers = buffers.data();
    bundle.bufferCount = static_cast<uint32_t>(buffers.size());
    bundle.programs = programs.data();
    bundle.programCount = static_cast<uint32_t>(programs.size());
    bundle.states = states.data();
    bundle.stateCount = static_cast<uint32_t>(states.size());
    bundle.buckets = buckets.data();
    bundle.bucketCount = static_cast<uint32_t>(buckets.size());
    bundle.members = members.data();
    bundle.memberCount = static_cast<uint32_t>(members.size());
    return bundle;
  }

  abi::Bundle bundle{};
  std::vector<abi::Buffer> buffers;
  std::deque<ProgramTables> programTables;
  std::vector<abi::Program> programs;
  std::vector<abi::State> states;
  std::vector<abi::Bucket> buckets;
  std::vector<abi::Member> members;
};

/// What add() takes besides the views.
struct TaskOptions {
  abi::Stream stream = abi::Stream::Compute;
  std::vector<uint32_t> waits = {};
  std::vector<int64_t> ints = {};
  std::vector<double> reals = {};
  abi::KernelFn kernel = nullptr;
  int32_t skipView = -1; ///< Index among the program's views.
  abi::Phase phase = abi::Phase::Other;
  abi::CudaLaunchFn launch = nullptr;
  int32_t scratchView = -1; ///< Index among the program's views.
};

/// Appends a task; its index.
inline uint32_t add(TestBundle::ProgramTables &p, const char *name,
                    abi::TaskKind kind, const std::vector<abi::View> &views,
                    const TaskOptions &options = {}) {
  auto append = [](auto &table, const auto &more) {
    auto begin = static_cast<uint32_t>(table.size());
    table.insert(table.end(), more.begin(), more.end());
    return abi::Range{begin, static_cast<uint32_t>(table.size())};
  };
  abi::Task task{};
  task.kind = kind;
  task.stream = options.stream;
  task.skipView = options.skipView;
  task.views = append(p.views, views);
  task.waits = append(p.waits, options.waits);
  task.ints = append(p.ints, options.ints);
  task.reals = append(p.reals, options.reals);
  task.kernel = options.kernel;
  task.name = name;
  task.phase = options.phase;
  task.launch = options.launch;
  task.scratchView = options.scratchView;
  p.tasks.push_back(task);
  return static_cast<uint32_t>(p.tasks.size() - 1);
}

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_TASK_TESTPROGRAM_H
