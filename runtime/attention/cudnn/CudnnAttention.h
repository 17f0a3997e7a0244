//===- CudnnAttention.h - Attention by cuDNN's fused engines ----*- C++ -*-===//
//
// Runs the tasks AttentionForward and AttentionBackward through cuDNN where
// the library is there and has an engine. Every refusal is a Status that says
// why, and the caller enqueues the task's own launcher instead: both compute
// the same function of the same views, so that they mix freely.
//
// The `stats` of cuDNN are the lse of the task: per row and head the natural
// logarithm of the sum of exponentials of the scaled, masked scores (maximum
// plus logarithm of the sum of exponentials less that maximum). It writes them
// with the strides of the view, rows x heads.
//
// Backward takes the decomposition that stores the gradient of the scores,
// the one whose sums have a fixed order: it needs rows * heads * seq * 2 bytes
// of scratch and more. Forward needs little or none. The scratch is that of
// the task; a plan that needs more is refused.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNATTENTION_H
#define CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNATTENTION_H

#include "runtime/abi/Program.h"
#include "runtime/attention/cudnn/CudnnGraph.h"

#include <map>

namespace ciuic::rt {

/// A task bound to its addresses. It keeps what it needs of its Cudnn alive,
/// but may not run after that is gone.
class CudnnTask {
public:
  /// Enqueues the task on a stream (cudaStream_t) of the device. One thread at
  /// a time for all tasks of one Cudnn.
  Status run(void *stream) const;

  /// Bytes of the task's scratch that it uses.
  uint64_t scratchBytes() const;

  /// Equal for tasks that share a plan.
  const void *plan() const { return shared.get(); }

  struct Shared; ///< Its plan, which tasks of one shape have in common.

private:
  friend class Cudnn;
  CudnnTask(std::shared_ptr<const Shared> shared, cudnn::OwnedDescriptor pack)
      : shared(std::move(shared)), pack(std::move(pack)) {}

  std::shared_ptr<const Shared> shared;
  cudnn::OwnedDescriptor pack;
};

/// cuDNN on one device.
class Cudnn {
public:
  /// Opens the library for the calling thread's current device. The Status
  /// says why there is none: absent, too old, a function missing, no device.
  static Result<std::unique_ptr<Cudnn>>
  open(const std::string &library = "libcudnn.so.9");

  /// To plan where there is no device: `json` describes one in cuDNN's own
  /// words. Its tasks cannot run.
  static Result<std::unique_ptr<Cudnn>>
  openWithoutDevice(const std::string &json,
                    const std::string &library = "libcudnn.so.9");

  ~Cudnn();
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;

  /// A task of the kinds AttentionForward and AttentionBackward, with its
  /// addresses and its scratch; the Status says why cuDNN does not serve it.
  /// Tasks of one shape share a plan. Not on the path between two steps: a new
  /// plan may compile kernels.
  Result<std::unique_ptr<CudnnTask>> attention(abi::TaskKind kind,
                                               const abi::CudaLaunch &task);

  std::string version() const { return cudnn::versionText(library->version()); }

private:
  explicit Cudnn(std::shared_ptr<const cudnn::Library> library)
      : library(std::move(library)) {}
  Result<std::shared_ptr<const CudnnTask::Shared>>
  plan(abi::TaskKind kind, const abi::CudaLaunch &task);

  std::shared_ptr<const cudnn::Library> library;
  cudnn::OwnedDescriptor properties; ///< Of a device that is not there.
  cudnn::Device device;
  /// By all numbers that a plan depends on. Refusals are kept as well: a job
  /// asks for each of its layers.
  struct Entry {
    std::shared_ptr<const CudnnTask::Shared> plan;
    std::string refusal;
  };
  std::map<std::vector<int64_t>, Entry> plans;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNATTENTION_H
