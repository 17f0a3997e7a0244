//===- DeviceProgram.h - A program prepared for one device ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_DEVICEPROGRAM_H
#define CIUIC_RUNTIME_TASK_CUDA_DEVICEPROGRAM_H

#include "runtime/comm/nccl/NcclRanks.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/task/DiskCopy.h"
#include "runtime/task/cuda/CudaMachine.h"
#include "runtime/task/cuda/CudaMemory.h"
#include "runtime/task/cuda/DevicePlan.h"
#include "runtime/task/cuda/DeviceTask.h"
#include "runtime/task/cuda/HostTasks.h"
#include "runtime/task/cuda/MachineState.h"
#include "runtime/task/cuda/Watch.h"

#include <memory>
#include <vector>

namespace ciuic::rt {

class AttentionTasks;
class CublasLt;

/// What the devices of a process have in common.
struct CudaShared {
  CudaShared(const abi::Bundle &bundle, const MachineOptions &options,
             const CudaSettings &settings)
      : bundle(bundle), options(options), settings(settings) {}

  const abi::Bundle &bundle;
  const MachineOptions options;
  const CudaSettings settings;
  RankRange ranks;
  MachineState state;
  CudaMemory memory;
  DiskMemory disk;
  std::unique_ptr<HostTasks> hostTasks;
  std::unique_ptr<NcclRanks> nccl; ///< Null where ranks share a device.
  std::unique_ptr<Watch> watch;

  bool isTimed() const { return options.timing || options.profile; }
};

/// One device task of one rank (or of all that share the device).
struct PreparedTask {
  DeviceTaskPtr run;
  const abi::Task *task = nullptr;
  uint32_t index = 0;
  uint32_t rank = 0;
  bool collective = false;
  CudaEvent begin, end; ///< Only where tasks are timed.
};

/// A program for the ranks of one device.
struct DeviceProgram {
  const abi::Program *records = nullptr;
  DevicePlan plan;
  std::vector<PreparedTask> tasks;        ///< In the order of the Run steps.
  std::vector<HostTasks::Chain *> chains; ///< One a stretch.
  std::vector<uint32_t>
      awaited; ///< What a chain's flag will be, one a stretch.
  bool hasRun = false;
  std::vector<cudaGraphExec_t> graphs; ///< One a graph; null: not captured.

  ~DeviceProgram();
};

/// What a device task is made with.
struct DeviceContext {
  CudaShared &shared;
  const CudaDevice &device;
  RankRange ranks; ///< On the device.
  CublasLt *products = nullptr;
  AttentionTasks *attention = nullptr;
};

/// Prepares everything of a program that is the device's.
Result<std::unique_ptr<DeviceProgram>>
prepareProgram(const DeviceContext &context, const abi::Program &records);

/// "task "x" of rank 3 (of "a", "b")": the task and the tensors it works on.
std::string nameTask(const abi::Bundle &bundle, const abi::Program &program,
                     const abi::Task &task, uint32_t rank);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_DEVICEPROGRAM_H
