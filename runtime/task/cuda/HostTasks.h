//===- HostTasks.h - The CPU's part of a device program ---------*- C++ -*-===//
//
// Host tasks (the CPU's optimizer, the scalars it needs) are nodes of one TBB
// flow graph: a chain of nodes a stretch. A chain starts when release() is
// called, from a CUDA host function, and ends by counting up its flag, for
// which a stream waits. The chains of a rank and stream run one after another.
//
// Copies from and to files are chains of their own, without nodes: the queue
// that makes one starts the next.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_HOSTTASKS_H
#define CIUIC_RUNTIME_TASK_CUDA_HOSTTASKS_H

#include "runtime/abi/Program.h"
#include "runtime/kernels/host/Operation.h"
#include "runtime/task/DiskCopy.h"
#include "runtime/task/Machine.h"
#include "runtime/task/cuda/CudaMemory.h"
#include "runtime/task/cuda/MachineState.h"

#include <memory>
#include <span>

namespace ciuic::rt {

class HostTasks {
public:
  /// `localRanks` ranks of a job of `ranks`; 0 threads: one a processor.
  static Result<std::unique_ptr<HostTasks>>
  create(MachineState &state, const CudaMemory &memory, DiskMemory &disk,
         const CudaDevice &device, uint32_t ranks, int threads, bool timing);
  ~HostTasks();

  /// A stretch made ready.
  class Chain;

  /// Prepares tasks of one stream, Host or Disk, of a rank; before any is
  /// released. Code::Invalid for kinds that only devices run.
  Result<Chain *> add(const abi::Program &program,
                      std::span<const uint32_t> tasks, uint32_t rank);

  /// Sets scratch aside, after the last add().
  Status commit();

  /// Counts a chain that will be released: what the flag of its rank and stream
  /// will be when it is done.
  uint32_t expect(const Chain *chain);

  /// Starts a chain and returns at once. Calls nothing of CUDA.
  static void release(Chain *chain);

  /// In pinned memory.
  const uint32_t *flag(const Chain *chain) const;
  /// Any flag of a rank, to try waits on.
  const uint32_t *flagOf(uint32_t rank) const;

  /// Whether a chain's flag has come to `value`.
  bool reached(const Chain *chain, uint32_t value) const;

  /// Under CIUIC_CUDA_ON_HOST: what the last chain of a rank and stream is
  /// known by.
  uint64_t token(const Chain *chain) const;

  /// Lets all streams go on that wait for a flag: something failed.
  void letGo();

  /// Returns when no chain runs: each that was released has ended, with all
  /// that its failure asked for.
  void drain();

  int threads() const;
  uint64_t scratchBytes() const;
  uint64_t executed(abi::TaskKind kind) const;
  /// Adds seconds, summed over ranks, since the last call.
  void takeTimes(TimeTable &table);
  /// Appends a row a task and rank; nothing may be running.
  void taskTimes(std::vector<TaskTime> &rows) const;

private:
  class Impl;
  explicit HostTasks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_HOSTTASKS_H
