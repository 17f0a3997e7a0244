//===- Machine.h - The devices that run a bundle ----------------*- C++ -*-===//
//
// What a job needs of the devices of this process: to run programs and to
// reach the bytes of a view. HostMachine runs on virtual devices of the CPU,
// CudaMachine on GPUs. A machine holds the ranks [firstRank, firstRank +
// localRanks) of the job; the others are in other processes.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_MACHINE_H
#define CIUIC_RUNTIME_TASK_MACHINE_H

#include "runtime/abi/Program.h"
#include "runtime/base/RankRange.h"
#include "runtime/base/Status.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::rt {

class ProcessGroup;

/// Where the time of a step goes.
enum class TimeKind {
  Forward,
  Backward,
  Gather,
  Reduce,
  H2D,
  D2H,
  Disk,
  Adam,
  Other
};
inline constexpr int timeKinds = 9;
const char *name(TimeKind kind);
TimeKind timeKindOf(const abi::Task &task);

/// Seconds in which tasks of each kind ran, the mean over ranks. Streams
/// overlap, so the sum may exceed the elapsed time.
using TimeTable = std::array<double, timeKinds>;

/// The runs of one task of a program.
struct TaskTime {
  std::string_view program;
  uint32_t task = 0;  ///< Its index.
  uint64_t runs = 0;  ///< On all ranks of this process.
  double seconds = 0; ///< Of all runs.
};

class Machine {
public:
  virtual ~Machine() = default;

  virtual uint32_t firstRank() const = 0;
  virtual uint32_t localRanks() const = 0;

  virtual bool has(std::string_view program) const = 0;

  /// Starts a program on all ranks of this process, after all that was started
  /// before. May return before it is done: its failure, which names the task
  /// and its rank, is then returned by a later call.
  virtual Status run(std::string_view program) = 0;

  /// Returns when all that was started is done.
  virtual Status wait() = 0;

  /// Copies elements [first, first + count) of a view of `rank`, one of this
  /// process, between it and dense memory of the host. The view is dense. Any
  /// thread may call these, several at a time; they see all that was started
  /// before, and what is started later sees them.
  virtual Status read(const abi::View &view, uint32_t rank, uint64_t first,
                      uint64_t count, void *to) = 0;
  virtual Status write(const abi::View &view, uint32_t rank, uint64_t first,
                       uint64_t count, const void *from) = 0;

  /// Host threads that run tasks.
  virtual int threads() const = 0;

  /// Memory of tasks besides the arenas, in bytes.
  virtual uint64_t scratchBytes() const = 0;

  /// Times measured since the last call.
  virtual TimeTable takeTimes() = 0;

  /// Tasks of a kind that have run so far, on the ranks of this process; a
  /// collective counts once. Skipped ones are not counted.
  virtual uint64_t executed(abi::TaskKind kind) const = 0;

  /// Floating-point operations a second that the devices of this process reach
  /// together in products of large matrices, measured; 0: not known.
  virtual double measureProducts(abi::DType dtype) { return 0; }

  /// Bytes that a rank has taken of its device, the most of any, measured; 0:
  /// not known.
  virtual uint64_t deviceBytesUsed() const { return 0; }

  /// How long each task took, in no order; empty unless asked to profile.
  virtual std::vector<TaskTime> taskTimes() { return {}; }
};

/// What states in files are told.
struct DiskFlags {
  std::string folder; ///< For the files; empty: the bundle's own.
  /// Who moves them: "auto", "io_uring" or "threads".
  std::string by = "auto";
};

/// What only CUDA devices are told.
struct CudaFlags {
  bool shareDevice = false; ///< All ranks of this process on one device.
  bool graphs = false;      ///< Replay stretches without host tasks as graphs.
  /// Who computes attention: "auto", "cudnn" or "own".
  std::string attention = "auto";
  bool tune = false; ///< Measure products anew and keep what is best.
};

struct MachineOptions {
  int threads = 0;           ///< 0: one for each processor.
  bool timing = false;       ///< Measure tasks, for takeTimes().
  uint64_t deviceMemory = 0; ///< Bytes of each device; 0: no limit.
  bool profile = false;      ///< Measure each task by itself, for taskTimes().
  /// Seconds after which a collective that does not complete is given up.
  double collectiveTimeout = 1800;
  CudaFlags cuda = {};
  DiskFlags disk = {};
  /// The bundle's folder, for what is kept in it; empty: none.
  std::string folder = {};
  /// The processes that share the job's ranks; null: this one has them all.
  ProcessGroup *group = nullptr;
};

/// Makes a machine for a bundle, which must outlive it.
using MachineFactory = std::function<Result<std::unique_ptr<Machine>>(
    const abi::Bundle &bundle, const MachineOptions &options)>;

/// Code::Invalid where there are more processes than ranks.
Status checkProcesses(uint32_t processes, uint32_t ranks);

/// What is wrong with elements [first, first + count) of a view of `rank`, if
/// they are not dense memory on one of `ranks`: for read() and write().
Status checkElements(const abi::View &view, RankRange ranks, uint32_t rank,
                     uint64_t first, uint64_t count);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_MACHINE_H
