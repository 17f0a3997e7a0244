//===- AttentionTasks.cpp - Who computes a job's attention ----------------===//
#include "runtime/task/cuda/AttentionTasks.h"

#include "runtime/attention/cudnn/CudnnAttention.h"
#include "runtime/attention/cudnn/CudnnCheck.h"
#include "runtime/base/Quote.h"
#include "runtime/device/cuda/CudaStream.h"

#include <map>

namespace ciuic::rt {

class AttentionTasks::Impl {
public:
  explicit Impl(const std::string &choice) : choice(choice) {}

  /// `library` is cuDNN's name; empty: the usual one.
  Status open(const std::string &library);
  /// cuDNN's task, tried once a shape.
  Result<std::unique_ptr<CudnnTask>> find(const DeviceTaskArguments &arguments,
                                          const abi::CudaLaunch &launch);

  const std::string choice;
  std::unique_ptr<Cudnn> cudnn;
  CudaStream stream; ///< To try on.
  /// Of each shape: what the trial found wrong; "": nothing.
  std::map<std::vector<int64_t>, std::string> tried;
  bool written = false;
  std::string refusal;
};

namespace {

class CudnnDeviceTask final : public DeviceTask {
public:
  explicit CudnnDeviceTask(std::unique_ptr<CudnnTask> task)
      : task(std::move(task)) {}
  Status enqueue(cudaStream_t stream) override { return task->run(stream); }

private:
  std::unique_ptr<CudnnTask> task;
};

/// All that tells tasks apart but their addresses.
std::vector<int64_t> shapeOf(const DeviceTaskArguments &arguments) {
  std::vector<int64_t> shape = {static_cast<int64_t>(arguments.task->kind)};
  for (const Tensor &view : arguments.views) {
    shape.push_back(static_cast<int64_t>(view.dtype));
    shape.insert(shape.end(), {view.shape[0], view.shape[1], view.strides[0],
                               view.strides[1]});
  }
  shape.insert(shape.end(), arguments.ints.begin(), arguments.ints.end());
  return shape;
}

} // namespace

Status AttentionTasks::Impl::open(const std::string &library) {
  std::string name = library;
#ifdef CIUIC_CUDA_ON_HOST
  // The real one cannot reach the memory of emulated devices.
  if (name.empty())
    return Status::machine("the emulation of CUDA has no cuDNN");
#endif
  if (name.empty())
    name = "libcudnn.so.9";
  CIUIC_TRY_ASSIGN(cudnn, Cudnn::open(name));
  CIUIC_TRY_ASSIGN(stream, CudaStream::create());
  return {};
}

Result<std::unique_ptr<CudnnTask>>
AttentionTasks::Impl::find(const DeviceTaskArguments &arguments,
                           const abi::CudaLaunch &launch) {
  CIUIC_TRY_ASSIGN(std::unique_ptr<CudnnTask> task,
                   cudnn->attention(arguments.task->kind, launch));
  if (!arguments.task->launch)
    return task;
  auto known = tried.find(shapeOf(arguments));
  if (known != tried.end()) {
    if (!known->second.empty())
      return Status::machine(known->second);
    return task;
  }
  written = true;
  abi::CudaLaunch trial = launch;
  trial.stream = stream.get();
  Status same = checkCudnnTask(*task, arguments.task->kind, trial,
                               arguments.task->launch);
  tried[shapeOf(arguments)] = same.ok() ? "" : same.str();
  CIUIC_TRY(std::move(same));
  return task;
}

AttentionTasks::AttentionTasks(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
AttentionTasks::~AttentionTasks() = default;

bool AttentionTasks::hasWritten() const { return impl->written; }
const std::string &AttentionTasks::refusal() const { return impl->refusal; }

Result<std::unique_ptr<AttentionTasks>>
AttentionTasks::create(const std::string &choice, const std::string &library) {
  if (choice != "auto" && choice != "cudnn" && choice != "own")
    return Status::invalid("attention by " + quote(choice) +
                           ", expected auto, cudnn or own");
  auto impl = std::make_unique<Impl>(choice);
  if (choice != "own") {
    Status status = impl->open(library);
    if (!status.ok() && choice == "cudnn")
      return std::move(status).during(
          [] { return "opening cuDNN for --attention cudnn"; });
    impl->refusal = status.ok() ? "" : status.str();
  }
  return std::unique_ptr<AttentionTasks>(new AttentionTasks(std::move(impl)));
}

Result<DeviceTaskPtr>
AttentionTasks::make(const DeviceTaskArguments &arguments) {
  bool mustServe = impl->choice == "cudnn" &&
                   arguments.task->kind == abi::TaskKind::AttentionForward;
  if (impl->cudnn && !arguments.skip) {
    PreparedLaunch prepared(arguments);
    auto found = impl->find(arguments, prepared.launch);
    if (found.ok())
      return DeviceTaskPtr(
          std::make_unique<CudnnDeviceTask>(std::move(*found)));
    Status status = found.takeStatus();
    if (mustServe)
      return std::move(status).during(
          [] { return "asking cuDNN, for --attention cudnn"; });
    if (impl->refusal.empty() &&
        arguments.task->kind == abi::TaskKind::AttentionForward)
      impl->refusal = status.str();
  }
  if (!arguments.task->launch)
    return Status::invalid("the bundle has no launcher for it");
  return makeLauncher(arguments);
}

} // namespace ciuic::rt
