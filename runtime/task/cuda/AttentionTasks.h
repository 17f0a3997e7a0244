//===- AttentionTasks.h - Who computes a job's attention --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_ATTENTIONTASKS_H
#define CIUIC_RUNTIME_TASK_CUDA_ATTENTIONTASKS_H

#include "runtime/task/cuda/DeviceTask.h"

#include <memory>
#include <string>

namespace ciuic::rt {

/// Attention on one device: by cuDNN where it is there, serves the task and
/// computes what the bundle's kernel computes, else by that kernel.
class AttentionTasks {
public:
  /// `choice`: "auto"; "cudnn", where the forward pass must be cuDNN's; "own",
  /// the bundle's kernels. Code::Invalid for anything else. `library` is
  /// cuDNN's name; empty: the usual one. With the device current.
  static Result<std::unique_ptr<AttentionTasks>>
  create(const std::string &choice, const std::string &library);
  ~AttentionTasks();

  /// A task of the kinds AttentionForward and AttentionBackward. May run it on
  /// made-up values, which overwrites all its views.
  Result<DeviceTaskPtr> make(const DeviceTaskArguments &arguments);

  /// Whether views were overwritten.
  bool hasWritten() const;

  /// Why the first task that cuDNN did not get stays with the kernel; "": none.
  const std::string &refusal() const;

private:
  class Impl;
  explicit AttentionTasks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_ATTENTIONTASKS_H
