//===- OperationHarness.h - Runs single tasks in tests ----------*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_OPERATIONHARNESS_H
#define CIUIC_TEST_RUNTIME_OPERATIONHARNESS_H

#include "runtime/abi/Sizes.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/base/Philox.h"
#include "runtime/blas/Gemm.h"
#include "runtime/kernels/host/Operation.h"
#include "runtime/kernels/host/Workspace.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <vector>

namespace ciuic::rt::test {

using abi::DType;
using abi::TaskKind;

/// A matrix that owns its storage, with `gap` unused elements after each row.
class Matrix {
public:
  Matrix(int64_t rows, int64_t columns, DType dtype = DType::F32,
         int64_t gap = 0)
      : rows(rows), columns(columns), stride(columns + gap), dtype(dtype),
        storage(static_cast<size_t>(rows * stride + 16) * byteSize(dtype)) {}

  /// Elements scale * normal(stream, i), rounded to the type.
  Matrix &random(uint64_t stream, double scale = 1) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        set(i, j,
            scale * normal(7, stream, static_cast<uint64_t>(i * columns + j)));
    return *this;
  }
  Matrix &fill(double value) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        set(i, j, value);
    return *this;
  }

  double get(int64_t i, int64_t j) const {
    const std::byte *from = at(i, j);
    switch (dtype) {
    case DType::F32:
      return *reinterpret_cast<const float *>(from);
    case DType::F64:
      return *reinterpret_cast<const double *>(from);
    case DType::I32:
      return *reinterpret_cast<const int32_t *>(from);
    case DType::F16:
      return floatFromF16(*reinterpret_cast<const uint16_t *>(from));
    case DType::BF16:
      return floatFromBf16(*reinterpret_cast<const uint16_t *>(from));
    }
    return 0;
  }

  void set(int64_t i, int64_t j, double value) {
    std::byte *to = const_cast<std::byte *>(at(i, j));
    switch (dtype) {
    case DType::F32:
      *reinterpret_cast<float *>(to) = static_cast<float>(value);
      return;
    case DType::F64:
      *reinterpret_cast<double *>(to) = value;
      return;
    case DType::I32:
      *reinterpret_cast<int32_t *>(to) = static_cast<int32_t>(value);
      return;
    case DType::F16:
      *reinterpret_cast<uint16_t *>(to) =
          f16FromFloat(static_cast<float>(value));
      return;
    case DType::BF16:
      *reinterpret_cast<uint16_t *>(to) =
          bf16FromFloat(static_cast<float>(value));
      return;
    }
  }

  Tensor tensor() {
    Tensor t;
    t.data = storage.data();
    t.dtype = dtype;
    t.rank = 2;
    t.shape[0] = rows;
    t.shape[1] = columns;
    t.strides[0] = stride;
    t.strides[1] = 1;
    return t;
  }

  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        all.push_back(get(i, j));
    return all;
  }

  bool sameBits(const Matrix &other) const { return storage == other.storage; }

  int64_t rows, columns, stride;
  DType dtype;

private:
  const std::byte *at(int64_t i, int64_t j) const {
    return storage.data() +
           static_cast<size_t>(i * stride + j) * byteSize(dtype);
  }
  std::vector<std::byte> storage;
};

/// A task to prepare and run: views in the order of runtime/abi/Program.h.
struct TaskRun {
  TaskKind kind;
  std::vector<Tensor> views;
  std::vector<int64_t> ints = {};
  std::vector<double> reals = {};
  uint32_t rank = 0;
  uint32_t ranks = 1;
  int threads = 2;

  Status run(int times = 1) const {
    tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                                static_cast<size_t>(threads));
    tbb::task_arena arena(threads);
    Workspace workspace;
    GemmCache gemms(threads);
    TaskArguments arguments;
    arguments.kind = kind;
    arguments.views = views;
    arguments.ints = ints;
    arguments.reals = reals;
    arguments.rank = rank;
    arguments.ranks = ranks;
    arguments.workspace = &workspace;
    arguments.gemms = &gemms;
    auto operation = makeOperation(arguments);
    if (!operation.ok())
      return operation.takeStatus();
    CIUIC_TRY(workspace.commit(threads));
    Status status;
    arena.execute([&] {
      for (int i = 0; i < times && status.ok(); ++i)
        status = (*operation)->run();
    });
    return status;
  }
};

/// ||found - expected|| / ||expected||, or the norm of the difference.
inline double relativeError(const std::vector<double> &found,
                            const std::vector<double> &expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference) / (size > 0 ? std::sqrt(size) : 1);
}

/// What one rounding to the type may cost.
inline double tolerance(DType dtype) {
  return dtype == DType::F32 ? 2e-6 : dtype == DType::F16 ? 1e-3 : 6e-3;
}

#define EXPECT_OK(expr)                                                        \
  do {                                                                         \
    ::ciuic::rt::Status status_ = (expr);                                      \
    EXPECT_TRUE(status_.ok()) << status_.str();                                \
  } while (false)

} // namespace ciuic::rt::test

#endif // CIUIC_TEST_RUNTIME_OPERATIONHARNESS_H
