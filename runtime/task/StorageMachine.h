//===- StorageMachine.h - A job's memory without devices --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_STORAGEMACHINE_H
#define CIUIC_RUNTIME_TASK_STORAGEMACHINE_H

#include "runtime/task/Machine.h"

namespace ciuic::rt {

/// Holds the states of a job for any target and runs nothing: a checkpoint can
/// be read into it and exported where there is no GPU. Memory is taken as it is
/// written, so that activations cost nothing.
class StorageMachine final : public Machine {
public:
  static Result<std::unique_ptr<Machine>> create(const abi::Bundle &bundle,
                                                 const MachineOptions &options);
  ~StorageMachine() override;

  uint32_t firstRank() const override { return 0; }
  uint32_t localRanks() const override { return bundle.ranks; }
  bool has(std::string_view program) const override;
  Status run(std::string_view program) override;
  Status wait() override { return {}; }
  Status read(const abi::View &view, uint32_t rank, uint64_t first,
              uint64_t count, void *to) override;
  Status write(const abi::View &view, uint32_t rank, uint64_t first,
               uint64_t count, const void *from) override;
  int threads() const override { return 1; }
  uint64_t scratchBytes() const override { return 0; }
  TimeTable takeTimes() override { return {}; }
  uint64_t executed(abi::TaskKind) const override { return 0; }

private:
  explicit StorageMachine(const abi::Bundle &bundle) : bundle(bundle) {}

  /// The first byte of an element of a view of `rank`.
  std::byte *at(const abi::View &view, uint32_t rank, uint64_t element);

  const abi::Bundle &bundle;
  std::byte *memory = nullptr; ///< Arenas of rank 0, then of rank 1, ...
  uint64_t bytes = 0;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_STORAGEMACHINE_H
