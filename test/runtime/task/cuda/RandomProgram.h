//===- RandomProgram.h - Random programs and what they compute --*- C++ -*-===//
//
// Tasks of every kind that crosses streams, over a few buffers that all share:
// device steps, copies up and down, host steps, gathers and reductions. Waits
// are those that the order of accesses asks for, so that leaving one out is a
// race. `interpret` runs the tasks one after another.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_RUNTIME_TASK_CUDA_RANDOMPROGRAM_H
#define CIUIC_TEST_RUNTIME_TASK_CUDA_RANDOMPROGRAM_H

#include "test/runtime/task/cuda/GpuTest.h"

#include <set>

namespace ciuic::rt::test {

class RandomProgram {
public:
  static constexpr int64_t chunk = 3;
  static constexpr int buffersPerArena = 4;

  /// One of `hostEvery` host steps is kept, the others are steps of devices;
  /// 0: none.
  RandomProgram(uint32_t ranks, uint32_t seed, uint32_t tasks,
                uint32_t hostEvery)
      : test(ranks), ranks(ranks), random(seed) {
    for (int i = 0; i < buffersPerArena; ++i) {
      views.push_back(makeView(i, abi::Arena::Device));
      views.push_back(makeView(i, abi::Arena::Host));
    }
    auto &program = test.program("p");
    for (uint32_t t = 0; t < tasks; ++t)
      addTask(program, hostEvery);
  }

  /// Values of [rank][view][element].
  using Memory = std::vector<std::vector<std::vector<float>>>;

  Memory start() const {
    Memory memory(ranks);
    for (uint32_t r = 0; r < ranks; ++r)
      for (size_t v = 0; v < views.size(); ++v) {
        std::vector<float> values;
        for (int64_t i = 0; i < chunk * ranks; ++i)
          values.push_back(static_cast<float>((r * 7 + v * 5 + i * 3) % 64));
        memory[r].push_back(values);
      }
    return memory;
  }

  /// One run of the program, in order.
  void interpret(Memory &memory) const {
    for (const Action &action : actions)
      perform(action, memory);
  }

  TestBundle test;
  std::vector<abi::View> views;

private:
  enum class What { Step, HostStep, Copy, Gather, Scatter, Reduce };
  struct Action {
    What what;
    size_t from, to;
    int64_t k;
  };

  abi::View makeView(int i, abi::Arena arena) {
    names.push_back((arena == abi::Arena::Device ? "device" : "host") +
                    std::to_string(i));
    return test.view(names.back().c_str(), 1, chunk * ranks, abi::DType::F32, 1,
                     arena);
  }

  /// A view of the right arena.
  size_t pick(abi::Arena arena) {
    return 2 * (random() % buffersPerArena) + (arena == abi::Arena::Host);
  }

  static abi::View chunkOf(abi::View view) {
    view.shape[1] = chunk;
    view.rankStride = chunk * 4;
    return view;
  }

  void addTask(TestBundle::ProgramTables &program, uint32_t hostEvery) {
    using abi::Arena, abi::Stream, abi::TaskKind;
    Action action{static_cast<What>(random() % 6), pick(Arena::Device),
                  pick(Arena::Device), static_cast<int64_t>(random() % 16)};
    if (action.what == What::HostStep &&
        (hostEvery == 0 || ++hostSteps % hostEvery != 0))
      action.what = What::Step;
    TaskOptions options;
    TaskKind kind = TaskKind::Launch;
    bool down = random() % 2;
    switch (action.what) {
    case What::Step: {
      constexpr Stream any[] = {Stream::Compute, Stream::Compute,
                                Stream::Gather, Stream::Reduce};
      options.stream = any[random() % 4];
      options.ints = {action.k};
      options.launch = launchStep;
      break;
    }
    case What::HostStep:
      action.from = pick(Arena::Host);
      action.to = pick(Arena::Host);
      action.k = 5;
      options.stream = Stream::Host;
      options.ints = {chunk * ranks, 1};
      options.kernel = hostStep;
      break;
    case What::Copy:
      kind = TaskKind::Copy;
      (down ? action.to : action.from) = pick(Arena::Host);
      options.stream = down ? Stream::D2H : Stream::H2D;
      break;
    case What::Gather:
      kind = TaskKind::AllGather;
      options.stream = Stream::Gather;
      break;
    case What::Scatter:
    case What::Reduce:
      kind = action.what == What::Scatter ? TaskKind::ReduceScatter
                                          : TaskKind::AllReduce;
      options.stream = Stream::Reduce;
      options.ints = {0};
      break;
    }
    // A collective works in place or on two buffers; a chunk within its own
    // whole is in place.
    abi::View from = views[action.from], to = views[action.to];
    if (action.what == What::Gather)
      from = chunkOf(from);
    if (action.what == What::Scatter)
      to = chunkOf(to);
    append(program, action, kind, from, to, options);
    // Sums of sums would soon not be exact.
    if (action.what == What::Scatter || action.what == What::Reduce) {
      Action small{What::Step, action.to, action.to, 3};
      TaskOptions after{.ints = {3}};
      after.launch = launchStep;
      append(program, small, TaskKind::Launch, views[action.to],
             views[action.to], after);
    }
  }

  void append(TestBundle::ProgramTables &program, const Action &action,
              abi::TaskKind kind, const abi::View &from, const abi::View &to,
              TaskOptions options) {
    options.waits = hazards(action);
    note(action, add(program, "task", kind, {from, to}, options));
    actions.push_back(action);
  }

  /// Tasks that must be done before: the last writer of what is read, and all
  /// users of what is written.
  std::vector<uint32_t> hazards(const Action &action) {
    std::set<uint32_t> waits;
    auto last = [&](size_t view) {
      if (view < writers.size() && writers[view] >= 0)
        waits.insert(static_cast<uint32_t>(writers[view]));
    };
    last(action.from);
    last(action.to);
    if (action.to < readers.size())
      waits.insert(readers[action.to].begin(), readers[action.to].end());
    return {waits.begin(), waits.end()};
  }

  void note(const Action &action, uint32_t task) {
    writers.resize(views.size(), -1);
    readers.resize(views.size());
    readers[action.from].push_back(task);
    writers[action.to] = task;
    readers[action.to].clear();
    if (action.from == action.to)
      readers[action.to].push_back(task);
  }

  void perform(const Action &action, Memory &memory) const {
    auto n = static_cast<size_t>(chunk);
    Memory before = memory;
    for (uint32_t r = 0; r < ranks; ++r) {
      std::vector<float> &to = memory[r][action.to];
      const std::vector<float> &from = before[r][action.from];
      switch (action.what) {
      case What::Step:
      case What::HostStep:
        for (size_t i = 0; i < to.size(); ++i)
          to[i] = stepped(from[i], action.k);
        break;
      case What::Copy:
        to = from;
        break;
      case What::Gather:
        for (uint32_t s = 0; s < ranks; ++s)
          for (size_t i = s * n; i < (s + 1) * n; ++i)
            to[i] = before[s][action.from][i];
        break;
      case What::Scatter:
      case What::Reduce:
        for (size_t i = 0; i < to.size(); ++i) {
          if (action.what == What::Scatter && (i < r * n || i >= (r + 1) * n))
            continue;
          to[i] = 0;
          for (uint32_t s = 0; s < ranks; ++s)
            to[i] += before[s][action.from][i];
        }
        break;
      }
    }
  }

  const uint32_t ranks;
  std::mt19937 random;
  uint32_t hostSteps = 0;
  std::deque<std::string> names;
  std::vector<Action> actions;
  std::vector<int64_t> writers;
  std::vector<std::vector<uint32_t>> readers;
};

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_TASK_CUDA_RANDOMPROGRAM_H
