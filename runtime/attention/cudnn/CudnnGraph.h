//===- CudnnGraph.h - Operation graphs and their plans ----------*- C++ -*-===//
//
// Builds an operation graph of cuDNN's backend, finds an engine for it and
// says how much workspace that takes. Tensors have four dimensions. The first
// failure sticks: later calls do nothing, and `plan` returns it.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNGRAPH_H
#define CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNGRAPH_H

#include "runtime/attention/cudnn/CudnnLibrary.h"

#include <array>
#include <vector>

namespace ciuic::rt::cudnn {

using Sizes = std::array<int64_t, 4>;

/// The strides of a dense tensor.
inline Sizes denseStrides(const Sizes &sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

/// What a plan is made for: a device, through a handle, or (to plan where
/// there is none) a description of one.
struct Device {
  Handle handle = nullptr;
  Descriptor properties = nullptr;
};

/// An engine that can run a graph.
struct Plan {
  OwnedDescriptor descriptor;
  uint64_t workspaceBytes = 0;
};

class Graph {
public:
  explicit Graph(std::shared_ptr<const Library> library)
      : library(std::move(library)) {}

  /// Tensors, by the number that a variant pack binds addresses to.
  using Tensor = int64_t;

  /// One in memory, 16-byte aligned.
  Tensor stored(DataType type, const Sizes &sizes, const Sizes &strides);
  /// One that lives between two operations only.
  Tensor passing(DataType type, const Sizes &sizes, const Sizes &strides);
  Tensor passing(DataType type, const Sizes &sizes) {
    return passing(type, sizes, denseStrides(sizes));
  }
  /// A number that is read from host memory when the plan runs.
  Tensor number();

  /// y = mode(x[, b]), computed in `precision`.
  void pointwise(Pointwise mode, Tensor x, Tensor b, Tensor y,
                 DataType precision = DataType::Float);
  /// y = indices along `axis` of a tensor like x.
  void index(Tensor x, int64_t axis, Tensor y);
  /// y = mask ? x : b.
  void select(Tensor x, Tensor b, Tensor mask, Tensor y);
  /// c = a b over the last two dimensions, summed in f32.
  void matmul(Tensor a, Tensor b, Tensor c);
  /// y = x reduced along the dimensions where y has size 1.
  void reduce(Reduce reduction, Tensor x, Tensor y);
  /// y is x seen through other sizes and strides.
  void reshape(Tensor x, Tensor y);

  /// A plan whose workspace is at most `mostBytes`; of those that the
  /// heuristics name, the first. With `deterministic`, engines that say that
  /// runs may differ are passed over.
  Result<Plan> plan(const Device &device, bool deterministic,
                    uint64_t mostBytes);

  static constexpr Tensor none = -1;

private:
  Tensor tensor(DataType type, const Sizes &sizes, const Sizes &strides,
                bool isVirtual, bool isByValue);
  /// A new descriptor that the graph keeps; null after a failure.
  OwnedDescriptor *make(int kind);
  void set(OwnedDescriptor *descriptor, int name, int type, int64_t count,
           const void *elements);
  void setTensor(OwnedDescriptor *operation, int name, Tensor tensor);
  /// An operation that still lacks its tensors; null after a failure.
  OwnedDescriptor *pointwiseOperation(Pointwise mode, DataType precision,
                                      const int64_t *axis = nullptr);
  void finalize(OwnedDescriptor *descriptor);
  void addOperation(OwnedDescriptor *operation);
  void fail(Status status);

  std::shared_ptr<const Library> library;
  Status failure;
  std::vector<std::unique_ptr<OwnedDescriptor>> kept;
  std::vector<Descriptor> tensors;
  std::vector<Descriptor> operations;
};

} // namespace ciuic::rt::cudnn

#endif // CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNGRAPH_H
