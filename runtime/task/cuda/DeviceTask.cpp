//===- DeviceTask.cpp - A device task made ready to enqueue ---------------===//
#include "runtime/task/cuda/DeviceTask.h"

#include "runtime/abi/Sizes.h"
#include "runtime/device/cuda/CudaStatus.h"

namespace ciuic::rt {

//===----------------------------------------------------------------------===//
// Launchers
//===----------------------------------------------------------------------===//

PreparedLaunch::PreparedLaunch(const DeviceTaskArguments &arguments) {
  for (const Tensor &view : arguments.views)
    pointers.push_back(view.data);
  launch.pointers = pointers.data();
  launch.views = arguments.records;
  launch.viewCount = static_cast<uint32_t>(pointers.size());
  launch.ints = arguments.ints.data();
  launch.intCount = static_cast<uint32_t>(arguments.ints.size());
  launch.reals = arguments.reals.data();
  launch.realCount = static_cast<uint32_t>(arguments.reals.size());
  launch.scratch = arguments.scratch.data;
  if (launch.scratch)
    launch.scratchBytes = static_cast<uint64_t>(arguments.scratch.elements()) *
                          byteSize(arguments.scratch.dtype);
  launch.skip = arguments.skip;
  launch.rank = arguments.rank;
  launch.ranks = arguments.ranks;
  launch.processors = arguments.device->processors;
}

namespace {

class Launcher final : public DeviceTask {
public:
  explicit Launcher(const DeviceTaskArguments &arguments)
      : function(arguments.task->launch), prepared(arguments) {}

  Status enqueue(cudaStream_t stream) override {
    prepared.launch.stream = stream;
    return toStatus(static_cast<cudaError_t>(function(prepared.launch)),
                    "the task's launcher");
  }

private:
  abi::CudaLaunchFn function;
  PreparedLaunch prepared;
};

} // namespace

Result<DeviceTaskPtr> makeLauncher(const DeviceTaskArguments &arguments) {
  return DeviceTaskPtr(std::make_unique<Launcher>(arguments));
}

//===----------------------------------------------------------------------===//
// Copies and zeros
//===----------------------------------------------------------------------===//

Status enqueueCopy(void *to, const void *from, uint64_t bytes,
                   cudaStream_t stream) {
  if (bytes != 0 && to != from)
    CIUIC_TRY_CUDA(cudaMemcpyAsync, to, from, bytes, cudaMemcpyDefault, stream);
  return {};
}

namespace {

/// Rows of dense bytes at regular distances.
struct Rows {
  std::byte *data;
  uint64_t pitch, width, height;
};

Result<Rows> rowsOf(const Tensor &tensor) {
  if (!tensor.hasDenseRows())
    return Status::invalid("rows with gaps: " + describe(tensor));
  uint64_t element = byteSize(tensor.dtype);
  if (tensor.isDense()) {
    uint64_t bytes = static_cast<uint64_t>(tensor.elements()) * element;
    return Rows{tensor.as<std::byte>(), bytes, bytes, bytes ? 1u : 0u};
  }
  return Rows{tensor.as<std::byte>(),
              static_cast<uint64_t>(tensor.strides[0]) * element,
              static_cast<uint64_t>(tensor.columns()) * element,
              static_cast<uint64_t>(tensor.rows())};
}

/// Both as rows of equal width.
void divide(Rows &dense, const Rows &rows) {
  if (dense.height == 1 && rows.height > 1) {
    dense.width = dense.pitch = rows.width;
    dense.height = rows.height;
  }
}

class Transfer final : public DeviceTask {
public:
  Transfer(const Rows &from, const Rows &to) : from(from), to(to) {}

  Status enqueue(cudaStream_t stream) override {
    if (from.height == 0 || from.width == 0)
      return {};
    if (from.height == 1)
      return enqueueCopy(to.data, from.data, from.width, stream);
    CIUIC_TRY_CUDA(cudaMemcpy2DAsync, to.data, to.pitch, from.data, from.pitch,
                   from.width, from.height, cudaMemcpyDefault, stream);
    return {};
  }

private:
  Rows from, to;
};

class Clear final : public DeviceTask {
public:
  explicit Clear(const Rows &rows) : rows(rows) {}

  Status enqueue(cudaStream_t stream) override {
    for (uint64_t row = 0; row < rows.height; ++row)
      CIUIC_TRY_CUDA(cudaMemsetAsync, rows.data + row * rows.pitch, 0,
                     rows.width, stream);
    return {};
  }

private:
  Rows rows;
};

} // namespace

Result<DeviceTaskPtr> makeTransfer(const DeviceTaskArguments &arguments) {
  if (arguments.views.size() != 2)
    return Status::invalid("a copy of " +
                           std::to_string(arguments.views.size()) +
                           " views, expected 2");
  const Tensor &from = arguments.views[0], &to = arguments.views[1];
  bool sameShape = from.rows() == to.rows() && from.columns() == to.columns();
  bool bothDense =
      from.isDense() && to.isDense() && from.elements() == to.elements();
  if (from.dtype != to.dtype || !(sameShape || bothDense))
    return Status::invalid("a copy from " + describe(from) + " to " +
                           describe(to) + ", which moves no bytes alone");
  CIUIC_TRY_ASSIGN(Rows source, rowsOf(from));
  CIUIC_TRY_ASSIGN(Rows target, rowsOf(to));
  divide(source, target);
  divide(target, source);
  return DeviceTaskPtr(std::make_unique<Transfer>(source, target));
}

Result<DeviceTaskPtr> makeClear(const DeviceTaskArguments &arguments) {
  if (arguments.views.size() != 1)
    return Status::invalid("clears " + std::to_string(arguments.views.size()) +
                           " views, expected 1");
  CIUIC_TRY_ASSIGN(Rows rows, rowsOf(arguments.views[0]));
  return DeviceTaskPtr(std::make_unique<Clear>(rows));
}

} // namespace ciuic::rt
