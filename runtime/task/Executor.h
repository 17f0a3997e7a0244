//===- Executor.h - Runs compiled programs over ranks -----------*- C++ -*-===//
//
// Each program becomes one flow graph: a node a task and rank, with edges from
// the task before it on its stream and from the tasks it waits for. A
// collective is one node for all ranks, so no task ever waits inside its body;
// where other processes have some of the ranks, a thread runs the collectives.
// Copies from and to files are left to a queue, which tells the graph.
// Graphs are built when the bundle is loaded; running one allocates nothing
// for tensors and decides nothing.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_EXECUTOR_H
#define CIUIC_RUNTIME_TASK_EXECUTOR_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"
#include "runtime/device/host/HostArena.h"
#include "runtime/kernels/host/Operation.h"
#include "runtime/task/DiskCopy.h"
#include "runtime/task/Machine.h"

#include <memory>
#include <string_view>

namespace ciuic::rt {

struct ExecutorOptions {
  int threads = 0;      ///< 0: one for each processor.
  bool timing = false;  ///< Measure tasks, for takeTimes().
  bool profile = false; ///< Measure each task by itself, for taskTimes().
  /// The processes that have the other ranks; null where all are here.
  ProcessGroup *group = nullptr;
  /// The files of the arenas' ranks; null for a job without.
  DiskMemory *disk = nullptr;
};

class Executor {
public:
  /// Checks the whole bundle and prepares every task of the arenas' ranks.
  /// `bundle` and `arenas` must outlive the executor.
  static Result<std::unique_ptr<Executor>>
  create(const abi::Bundle &bundle, const RankArenas &arenas,
         const ExecutorOptions &options = {});
  ~Executor();

  bool has(std::string_view program) const;

  /// Runs a program on all ranks and waits for it. The first task that fails
  /// stops it; the message names the task and its rank.
  Status run(std::string_view program);

  /// A view's place on one rank.
  Tensor resolve(const abi::View &view, uint32_t rank) const;

  int threads() const;

  /// Scratch of tasks, besides the arenas.
  uint64_t scratchBytes() const;

  /// Times measured since the last call.
  TimeTable takeTimes();

  /// How long each task took, of those that have run.
  std::vector<TaskTime> taskTimes() const;

  /// Tasks of a kind that have run so far, on the arenas' ranks; a collective
  /// counts once. Skipped ones are not counted.
  uint64_t executed(abi::TaskKind kind) const;

private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_EXECUTOR_H
