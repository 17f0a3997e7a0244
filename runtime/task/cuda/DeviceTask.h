//===- DeviceTask.h - A device task made ready to enqueue -------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_DEVICETASK_H
#define CIUIC_RUNTIME_TASK_CUDA_DEVICETASK_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/kernels/host/Operation.h"

#include <cuda_runtime.h>
#include <memory>
#include <span>
#include <vector>

namespace ciuic::rt {

/// When a program is loaded every device task of every rank becomes one of
/// these: views are addresses, shapes are checked, library descriptors are
/// made. What enqueues a step then neither allocates nor decides.
class DeviceTask {
public:
  virtual ~DeviceTask() = default;
  /// On the current device.
  virtual Status enqueue(cudaStream_t stream) = 0;
};
using DeviceTaskPtr = std::unique_ptr<DeviceTask>;

/// What a device task is made from: that of one rank. A collective of ranks
/// that share a device has the views of the first rank, then of the next, ...
struct DeviceTaskArguments {
  const abi::Task *task = nullptr;
  const abi::View *records = nullptr; ///< The task's views.
  std::span<const Tensor> views;
  std::span<const int64_t> ints;
  std::span<const double> reals;
  Tensor scratch;              ///< data null: none.
  const float *skip = nullptr; ///< On the device.
  const CudaDevice *device = nullptr;
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

/// What a launcher is given, but for the stream. Not to be moved: the record
/// refers to the pointers.
struct PreparedLaunch {
  explicit PreparedLaunch(const DeviceTaskArguments &arguments);
  PreparedLaunch(const PreparedLaunch &) = delete;

  std::vector<void *> pointers;
  abi::CudaLaunch launch{};
};

/// A task with a launcher that the bundle brings.
Result<DeviceTaskPtr> makeLauncher(const DeviceTaskArguments &arguments);

/// Bytes from place to place, whatever memories they lie in.
Result<DeviceTaskPtr> makeTransfer(const DeviceTaskArguments &arguments);

/// All bytes of a view zero.
Result<DeviceTaskPtr> makeClear(const DeviceTaskArguments &arguments);

/// Enqueues `bytes` from anywhere to anywhere; nothing for the same place.
Status enqueueCopy(void *to, const void *from, uint64_t bytes,
                   cudaStream_t stream);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_DEVICETASK_H
