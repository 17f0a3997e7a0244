//===- HostMachine.h - Virtual devices of the CPU ---------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_HOSTMACHINE_H
#define CIUIC_RUNTIME_TASK_HOSTMACHINE_H

#include "runtime/task/Executor.h"

namespace ciuic::rt {

/// Runs each program to its end before run() returns: what it starts is done,
/// and arenas are plain memory.
class HostMachine final : public Machine {
public:
  /// Code::Invalid for a bundle of another target.
  static Result<std::unique_ptr<Machine>> create(const abi::Bundle &bundle,
                                                 const MachineOptions &options);

  uint32_t firstRank() const override { return arenas.ranks().first; }
  uint32_t localRanks() const override { return arenas.ranks().count; }
  bool has(std::string_view program) const override {
    return executor->has(program);
  }
  Status run(std::string_view program) override {
    return executor->run(program);
  }
  Status wait() override { return {}; }
  Status read(const abi::View &view, uint32_t rank, uint64_t first,
              uint64_t count, void *to) override;
  Status write(const abi::View &view, uint32_t rank, uint64_t first,
               uint64_t count, const void *from) override;
  int threads() const override { return executor->threads(); }
  uint64_t scratchBytes() const override { return executor->scratchBytes(); }
  TimeTable takeTimes() override { return executor->takeTimes(); }
  uint64_t executed(abi::TaskKind kind) const override {
    return executor->executed(kind);
  }
  std::vector<TaskTime> taskTimes() override { return executor->taskTimes(); }
  double measureProducts(abi::DType dtype) override;

private:
  HostMachine() = default;

  RankArenas arenas;
  DiskMemory disk;
  std::unique_ptr<Executor> executor;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_HOSTMACHINE_H
