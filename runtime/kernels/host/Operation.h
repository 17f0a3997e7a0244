//===- Operation.h - A task made ready to run -------------------*- C++ -*-===//
//
// When a program is loaded every task of every rank becomes an Operation:
// views are resolved to addresses, shapes and element types are checked once,
// library primitives are made and scratch is set aside. What runs in a step
// then neither allocates nor decides.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_OPERATION_H
#define CIUIC_RUNTIME_KERNELS_HOST_OPERATION_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ciuic::rt {

class Workspace;
class GemmCache;

/// A view on one rank, resolved. As abi::View: two dimensions, strides in
/// elements.
struct Tensor {
  void *data = nullptr;
  abi::DType dtype = abi::DType::F32;
  int rank = 0;
  int64_t shape[2] = {1, 1};
  int64_t strides[2] = {1, 1};

  int64_t rows() const { return shape[0]; }
  int64_t columns() const { return shape[1]; }
  int64_t elements() const { return shape[0] * shape[1]; }

  /// Whether elements follow each other without gaps, row by row.
  bool isDense() const {
    return (shape[1] <= 1 || strides[1] == 1) &&
           (shape[0] <= 1 || strides[0] == shape[1]);
  }
  /// Whether each row is dense.
  bool hasDenseRows() const { return shape[1] <= 1 || strides[1] == 1; }

  template <typename T> T *as() const { return static_cast<T *>(data); }
};

/// What a task is prepared from. `views` are those of one rank; a collective
/// has those of rank 0, then those of rank 1, and so on.
struct TaskArguments {
  abi::TaskKind kind = abi::TaskKind::Zero;
  std::span<const Tensor> views;
  std::span<const int64_t> ints;
  std::span<const double> reals;
  abi::KernelFn kernel = nullptr;
  uint32_t rank = 0;  ///< Whose task it is; 0 for a collective.
  uint32_t ranks = 1; ///< Of the job.
  Workspace *workspace = nullptr;
  GemmCache *gemms = nullptr;
};

/// A prepared task. run() may use all threads of the arena it is called in; it
/// is never called twice at a time.
class Operation {
public:
  virtual ~Operation() = default;
  virtual Status run() = 0;
};
using OperationPtr = std::unique_ptr<Operation>;

/// Prepares a task, or says (Code::Invalid) what does not fit.
Result<OperationPtr> makeOperation(const TaskArguments &arguments);

/// Whether all ranks meet in one task of this kind.
constexpr bool isCollective(abi::TaskKind kind) {
  return kind == abi::TaskKind::AllGather ||
         kind == abi::TaskKind::ReduceScatter ||
         kind == abi::TaskKind::AllReduce;
}

/// An Operation from a callable that returns a Status.
template <typename Fn> OperationPtr makeLambdaOperation(Fn fn) {
  class LambdaOperation final : public Operation {
  public:
    explicit LambdaOperation(Fn fn) : fn(std::move(fn)) {}
    Status run() override { return fn(); }

  private:
    Fn fn;
  };
  return std::make_unique<LambdaOperation>(std::move(fn));
}

//===----------------------------------------------------------------------===//
// Checks that preparations share
//===----------------------------------------------------------------------===//

/// f32, f16 or bf16: what products, sums and copies convert between.
bool isFloat(abi::DType dtype);

/// "f32[3, 4]", for messages.
std::string describe(const Tensor &tensor);

/// Code::Invalid unless there are `views`, `ints` and `reals` of each (ints:
/// at least as many).
Status expectCounts(const TaskArguments &arguments, size_t views, size_t ints,
                    size_t reals);

/// Code::Invalid unless the tensor has this type and shape and no gaps.
Status expectTensor(const char *what, const Tensor &tensor, abi::DType dtype,
                    int64_t rows, int64_t columns);

/// The same for f32, f16 or bf16 data.
Status expectFloats(const char *what, const Tensor &tensor, int64_t rows,
                    int64_t columns);

/// Whether two tensors may have a byte in common; false for columns of one
/// matrix that lie side by side.
bool overlap(const Tensor &a, const Tensor &b);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_OPERATION_H
