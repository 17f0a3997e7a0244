//===- DeviceQueue.h - The thread that enqueues a device's work -*- C++ -*-===//
//
// Programs and copies in the order in which they are posted. The thread only
// enqueues: what waits for what is left to streams. Without the driver's waits
// for flags in memory, a program whose next step needs host tasks that are not
// done is left where it is; the thread goes on with it when they are.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_DEVICEQUEUE_H
#define CIUIC_RUNTIME_TASK_CUDA_DEVICEQUEUE_H

#include "runtime/blas/cublaslt/CublasLt.h"
#include "runtime/task/cuda/AttentionTasks.h"
#include "runtime/task/cuda/DeviceProgram.h"
#include "runtime/task/cuda/Staging.h"

#include <deque>
#include <thread>
#include <vector>

namespace ciuic::rt {

class DeviceQueue {
public:
  /// For consecutive ranks of one device.
  static Result<std::unique_ptr<DeviceQueue>> create(CudaShared &shared,
                                                     const CudaDevice &device,
                                                     RankRange ranks,
                                                     ProductChoices &choices);
  ~DeviceQueue();

  /// Prepares all programs of the bundle.
  Status prepare();

  /// Starts the thread.
  void start();

  /// Ends it; what was posted and is not enqueued is dropped.
  void stop();

  struct Work {
    int32_t program = -1;    ///< Of the bundle; -1: a copy.
    uint32_t rank = 0;       ///< Of a copy.
    void *address = nullptr; ///< Of a copy, on the device.
    uint64_t bytes = 0;
    StagingPiece *piece = nullptr; ///< The other side of a copy.
  };
  void post(const Work &work);

  /// Programs that a rank of this device has been through, guarded by the
  /// machine's mutex.
  uint64_t finished(uint32_t rank) const {
    return rows[rank - ranks.first].finished;
  }

  const AttentionTasks &attention() const { return *attentions; }
  RankRange heldRanks() const { return ranks; }
  const std::vector<std::unique_ptr<DeviceProgram>> &all() const {
    return programs;
  }
  const CudaDevice &where() const { return device; }

  /// Operations a second of a large product, with memory of its own for as
  /// long as it takes; 0 if there is none.
  double measureProducts(abi::DType dtype);

  /// Device tasks of a kind that were enqueued.
  uint64_t executed(abi::TaskKind kind) const;

private:
  DeviceQueue(CudaShared &shared, const CudaDevice &device, RankRange ranks)
      : shared(shared), device(device), ranks(ranks), rows(ranks.count) {}

  struct Row {
    DeviceQueue *queue = nullptr;
    CudaEvent end; ///< Of a program, on the compute stream.
    uint64_t finished = 0;
  };

  void work();
  bool canGoOn() const; ///< With the machine's mutex held.
  Status copy(const Work &work);
  Status beginProgram(uint32_t index);
  /// Enqueues steps until the end or until host tasks must be done first.
  Status goOn();
  /// Enqueues one and names it if it fails.
  Status enqueue(const PlanStep &step);
  Status enqueueStep(const PlanStep &step);
  Status runTask(PreparedTask &task, cudaStream_t stream);
  Status endProgram();
  Status endOnRank(uint32_t row);
  /// For a Graph step, in place of what follows it.
  Status launch(const PlanStep &step);
  Status capture(const PlanStep &step);
  cudaStream_t computeOf(uint32_t row) const {
    return lanes[laneOf(row, abi::Stream::Compute)].get();
  }
  cudaStream_t hostOf(uint32_t row) const {
    return lanes[laneOf(row, abi::Stream::Host)].get();
  }

  CudaShared &shared;
  const CudaDevice device;
  const RankRange ranks;
  std::unique_ptr<CublasLt> products;
  std::unique_ptr<AttentionTasks> attentions;
  std::vector<CudaStream> lanes;
  std::vector<CudaEvent> events; ///< Of all programs: they come one by one.
  std::vector<Row> rows;
  StreamFlagWait flagWait;
  std::vector<std::unique_ptr<DeviceProgram>> programs;

  std::deque<Work> posted; ///< Guarded by the machine's mutex.
  bool stopping = false;   ///< The same.
  std::thread thread;

  // The thread's own.
  DeviceProgram *current = nullptr;
  size_t nextStep = 0, nextTask = 0;
  bool replaying = false; ///< The current program's graphs.
  bool capturing = false;
  const HostTasks::Chain *suspendedFor = nullptr;
  uint32_t suspendedValue = 0;
  bool suspended = false;
  std::array<std::atomic<uint64_t>, 64> counts{};
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_DEVICEQUEUE_H
