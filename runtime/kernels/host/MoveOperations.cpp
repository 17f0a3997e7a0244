//===- MoveOperations.cpp - Copies, sums and emitted kernels --------------===//
#include "runtime/abi/Sizes.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Operations.h"
#include "runtime/kernels/host/Parallel.h"

#include <cstring>

namespace ciuic::rt {
namespace {

/// Elements of one chunk of elementwise work.
constexpr int64_t elementGrain = int64_t(1) << 16;
/// Columns of one chunk of a sum over rows, as the loops take them.
constexpr int64_t columnGrain = 64;

/// How matrices of one shape, whose rows have no gaps, divide into runs.
struct Runs {
  int64_t rows = 1, columns = 0, perRow = 0;

  Runs(const Tensor &a, const Tensor &b) {
    rows = a.shape[0];
    columns = a.shape[1];
    if (a.isDense() && b.isDense()) {
      columns *= rows;
      rows = 1;
    }
    perRow = chunkCount(columns, elementGrain);
  }
  int64_t count() const { return rows * perRow; }

  /// Calls fn(row, column, n) for one run.
  template <typename Fn> void at(int64_t run, const Fn &fn) const {
    int64_t row = run / perRow, begin = run % perRow * elementGrain;
    fn(row, begin, std::min(elementGrain, columns - begin));
  }
};

std::byte *address(const Tensor &tensor, int64_t row, int64_t column) {
  return tensor.as<std::byte>() +
         (row * tensor.strides[0] + column) *
             static_cast<int64_t>(byteSize(tensor.dtype));
}

} // namespace

Result<OperationPtr> makeLaunch(const TaskArguments &a) {
  if (a.ints.size() < 2 || a.ints[0] < 0 || a.ints[1] <= 0)
    return Status::invalid("a launch needs its rows and a positive grain");
  std::vector<void *> pointers;
  for (const Tensor &view : a.views)
    pointers.push_back(view.data);
  int64_t rows = a.ints[0], grain = a.ints[1];
  abi::KernelFn kernel = a.kernel;
  return makeLambdaOperation(
      [rows, grain, kernel, pointers = std::move(pointers)]() -> Status {
        parallelChunks(rows, grain, [&](int64_t begin, int64_t end) {
          kernel(begin, end, pointers.data());
        });
        return {};
      });
}

Result<OperationPtr> makeCopy(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 0, 0));
  Tensor from = a.views[0], to = a.views[1];
  bool same = from.dtype == to.dtype;
  if (from.elements() != to.elements() || !from.hasDenseRows() ||
      !to.hasDenseRows() ||
      (from.shape[1] != to.shape[1] && !(from.isDense() && to.isDense())) ||
      (!same && !(isFloat(from.dtype) && isFloat(to.dtype))))
    return Status::invalid("cannot copy " + describe(from) + " to " +
                           describe(to));
  // Onto itself is nothing to do; anything else in one place is a mistake.
  bool itself =
      from.data == to.data && same && from.strides[0] == to.strides[0];
  if (!itself && overlap(from, to))
    return Status::invalid("copies between places that overlap");
  Runs runs(from, to);
  return makeLambdaOperation([=]() -> Status {
    if (itself)
      return {};
    parallelFor(runs.count(), [&](int64_t run) {
      runs.at(run, [&](int64_t row, int64_t column, int64_t n) {
        std::byte *x = address(from, row, column);
        std::byte *y = address(to, row, column);
        if (same)
          std::memcpy(y, x, static_cast<size_t>(n) * byteSize(to.dtype));
        else
          hostKernels().convert(from.dtype, x, to.dtype, y, n);
      });
    });
    return {};
  });
}

Result<OperationPtr> makeZero(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 1, 0, 0));
  Tensor to = a.views[0];
  if (!to.hasDenseRows())
    return Status::invalid("cannot clear " + describe(to));
  Runs runs(to, to);
  return makeLambdaOperation([=]() -> Status {
    parallelFor(runs.count(), [&](int64_t run) {
      runs.at(run, [&](int64_t row, int64_t column, int64_t n) {
        std::memset(address(to, row, column), 0,
                    static_cast<size_t>(n) * byteSize(to.dtype));
      });
    });
    return {};
  });
}

Result<OperationPtr> makeAccumulate(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 1, 0));
  Tensor x = a.views[0], out = a.views[1];
  bool add = a.ints[0] != 0;
  CIUIC_TRY(expectFloats("x", x, x.shape[0], x.shape[1]));
  if (out.dtype != abi::DType::F32 || out.elements() != x.elements() ||
      !out.hasDenseRows() ||
      (out.shape[1] != x.shape[1] && !(out.isDense() && x.isDense())))
    return Status::invalid("cannot accumulate " + describe(x) + " in " +
                           describe(out));
  Runs runs(x, out);
  return makeLambdaOperation([=]() -> Status {
    parallelFor(runs.count(), [&](int64_t run) {
      runs.at(run, [&](int64_t row, int64_t column, int64_t n) {
        auto *y = reinterpret_cast<float *>(address(out, row, column));
        hostKernels().accumulate(x.dtype, address(x, row, column), y, n, add);
      });
    });
    return {};
  });
}

Result<OperationPtr> makeSquareSum(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 0, 0));
  Tensor x = a.views[0], out = a.views[1];
  CIUIC_TRY(expectFloats("x", x, x.shape[0], x.shape[1]));
  CIUIC_TRY(expectTensor("out", out, abi::DType::F64, 1, 1));
  Runs runs(x, x);
  // One partial sum a run, added in order afterwards.
  std::vector<double> parts(static_cast<size_t>(runs.count()));
  return makeLambdaOperation(
      [x, out, runs, parts = std::move(parts)]() mutable -> Status {
        parallelFor(runs.count(), [&](int64_t run) {
          runs.at(run, [&](int64_t row, int64_t column, int64_t n) {
            parts[static_cast<size_t>(run)] =
                hostKernels().squareSum(x.dtype, address(x, row, column), n);
          });
        });
        double sum = 0;
        for (double part : parts)
          sum += part;
        *out.as<double>() = sum;
        return {};
      });
}

Result<OperationPtr> makeSumSlots(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 0, 0));
  Tensor x = a.views[0], out = a.views[1];
  CIUIC_TRY(expectTensor("x", x, abi::DType::F64, 1, x.shape[1]));
  CIUIC_TRY(expectTensor("out", out, abi::DType::F64, 1, 1));
  return makeLambdaOperation([=]() -> Status {
    double sum = 0;
    for (int64_t i = 0; i < x.shape[1]; ++i)
      sum += x.as<double>()[i];
    *out.as<double>() = sum;
    return {};
  });
}

Result<OperationPtr> makeColumnSum(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 0, 0));
  Tensor x = a.views[0], out = a.views[1];
  CIUIC_TRY(expectFloats("x", x, x.shape[0], x.shape[1]));
  CIUIC_TRY(expectFloats("out", out, 1, x.shape[1]));
  return makeLambdaOperation([=]() -> Status {
    parallelChunks(x.columns(), columnGrain, [&](int64_t begin, int64_t end) {
      hostKernels().columnSum(x.dtype, address(x, 0, begin), x.strides[0],
                              x.rows(), end - begin, out.dtype,
                              address(out, 0, begin));
    });
    return {};
  });
}

Result<OperationPtr> makeNormWeightGrad(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 4, 0, 0));
  Tensor dy = a.views[0], x = a.views[1], rstd = a.views[2], out = a.views[3];
  CIUIC_TRY(expectFloats("dy", dy, dy.shape[0], dy.shape[1]));
  CIUIC_TRY(expectFloats("x", x, dy.shape[0], dy.shape[1]));
  CIUIC_TRY(expectFloats("dweight", out, 1, dy.shape[1]));
  if (x.dtype != dy.dtype)
    return Status::invalid("x is " + describe(x) + ", dy is " + describe(dy));
  if (rstd.dtype != abi::DType::F32 || rstd.elements() != dy.shape[0] ||
      !rstd.isDense())
    return Status::invalid("rstd is " + describe(rstd) + ", expected f32 of " +
                           std::to_string(dy.shape[0]) + " elements");
  return makeLambdaOperation([=]() -> Status {
    parallelChunks(x.columns(), columnGrain, [&](int64_t begin, int64_t end) {
      hostKernels().normWeightGrad(
          dy.dtype, address(dy, 0, begin), dy.strides[0], address(x, 0, begin),
          x.strides[0], rstd.as<float>(), dy.rows(), end - begin, out.dtype,
          address(out, 0, begin));
    });
    return {};
  });
}

} // namespace ciuic::rt
