//===- DeviceHarness.h - Runs one device task in a test ---------*- C++ -*-===//
//
// Data lives on the host and, while a task runs, on the emulated device. What
// surrounds a matrix (elements before it, between its rows, after it) holds a
// pattern that must be found unchanged; what a task only writes is marked as
// never written before it runs, so that reading it or leaving some of it out
// is reported.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_RUNTIME_KERNELS_CUDA_DEVICEHARNESS_H
#define CIUIC_TEST_RUNTIME_KERNELS_CUDA_DEVICEHARNESS_H

#include "runtime/abi/Sizes.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/base/Philox.h"
#include "test/cuda_on_host/OnHost.h"
#include "test/runtime/kernels/cuda/Launchers.h"

#include <cmath>
#include <cstring>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace ciuic::cuda::test {

using abi::DType;
using abi::TaskKind;

/// An allocation of the device.
class DeviceBytes {
public:
  explicit DeviceBytes(size_t bytes) {
    EXPECT_EQ(cudaMalloc(&data, bytes > 0 ? bytes : 1), cudaSuccess);
  }
  ~DeviceBytes() { EXPECT_EQ(cudaFree(data), cudaSuccess); }
  DeviceBytes(const DeviceBytes &) = delete;
  DeviceBytes &operator=(const DeviceBytes &) = delete;

  char *data = nullptr;
};

/// A matrix with `gap` elements after each row and `before` elements before
/// the first, so that its alignment can be chosen.
class Matrix {
public:
  Matrix(int64_t rows, int64_t columns, DType dtype = DType::F32,
         int64_t gap = 0, int64_t before = 0)
      : rows(rows), columns(columns), stride(columns + gap), before(before),
        dtype(dtype), size(rt::byteSize(dtype)),
        storage(static_cast<size_t>(before + rows * stride + 8) * size,
                static_cast<char>(0x5a)) {
    fill(0);
  }

  static Matrix scalar(double value, DType dtype = DType::F32) {
    Matrix matrix(1, 1, dtype);
    matrix.set(0, 0, value);
    return matrix;
  }

  /// Only written by the task.
  Matrix &asOut() {
    isOut = true;
    return *this;
  }

  /// Elements scale * normal(stream, i), rounded to the type.
  Matrix &random(uint64_t stream, double scale = 1) {
    for (int64_t i = 0; i < rows * columns; ++i)
      set(i / columns, i % columns,
          scale * rt::normal(7, stream, static_cast<uint64_t>(i)));
    return *this;
  }
  Matrix &fill(double value) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        set(i, j, value);
    return *this;
  }

  double get(int64_t i, int64_t j) const {
    const char *from = storage.data() + at(i, j);
    switch (dtype) {
    case DType::F32:
      return load<float>(from);
    case DType::F64:
      return load<double>(from);
    case DType::I32:
      return load<int32_t>(from);
    case DType::F16:
      return rt::floatFromF16(load<uint16_t>(from));
    case DType::BF16:
      return rt::floatFromBf16(load<uint16_t>(from));
    }
    return 0;
  }
  double get() const { return get(0, 0); }

  void set(int64_t i, int64_t j, double value) {
    char *to = storage.data() + at(i, j);
    auto single = static_cast<float>(value);
    switch (dtype) {
    case DType::F32:
      return store(to, single);
    case DType::F64:
      return store(to, value);
    case DType::I32:
      return store(to, static_cast<int32_t>(value));
    case DType::F16:
      return store(to, rt::f16FromFloat(single));
    case DType::BF16:
      return store(to, rt::bf16FromFloat(single));
    }
  }

  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        all.push_back(get(i, j));
    return all;
  }

  /// Whether all bytes are equal, those around the elements too.
  bool sameBits(const Matrix &other) const { return storage == other.storage; }
  /// Whether the elements have the same bits.
  bool sameElements(const Matrix &other) const {
    for (int64_t i = 0; i < rows; ++i)
      if (columns > 0 && std::memcmp(storage.data() + at(i, 0),
                                     other.storage.data() + other.at(i, 0),
                                     static_cast<size_t>(columns) * size) != 0)
        return false;
    return rows == other.rows && columns == other.columns;
  }

  abi::View view() const {
    abi::View view{};
    view.dtype = dtype;
    view.rank = 2;
    view.shape[0] = rows;
    view.shape[1] = columns;
    view.strides[0] = stride;
    view.strides[1] = 1;
    return view;
  }

  void upload(char *device) const {
    EXPECT_EQ(cudaMemcpy(device, storage.data(), storage.size(),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
    if (isOut)
      for (int64_t i = 0; i < rows; ++i)
        onhost::forget(device + at(i, 0), static_cast<size_t>(columns) * size);
  }

  /// Fetches the elements; expects the bytes around them as they were.
  void download(const char *device) {
    std::vector<char> found(storage.size());
    EXPECT_EQ(
        cudaMemcpy(found.data(), device, found.size(), cudaMemcpyDeviceToHost),
        cudaSuccess);
    for (int64_t i = 0; i < rows; ++i)
      std::memcpy(storage.data() + at(i, 0), found.data() + at(i, 0),
                  static_cast<size_t>(columns) * size);
    EXPECT_EQ(storage == found, true) << "bytes around a matrix changed";
  }

  size_t at(int64_t i, int64_t j) const {
    return static_cast<size_t>(before + i * stride + j) * size;
  }
  size_t bytes() const { return storage.size(); }

  int64_t rows, columns, stride, before;
  DType dtype;
  size_t size;
  bool isOut = false;

private:
  template <typename T> static T load(const char *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename T> static void store(char *to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  std::vector<char> storage;
};

/// A task to launch: views in the order of runtime/abi/Program.h.
struct Task {
  TaskKind kind;
  DType first = DType::F32;
  DType second = DType::F32;
  std::vector<Matrix *> views;
  std::vector<int64_t> ints = {};
  std::vector<double> reals = {};
  uint64_t scratchBytes = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t processors = 4;
  double skip = 0;
  uint64_t seed = 1;

  /// Runs it on a fresh device and expects no report.
  int run() const {
    onhost::Settings settings;
    settings.seed = seed;
    onhost::configure(settings);
    abi::CudaLaunchFn launcher = launcherOf(kind, first, second);
    if (!launcher) {
      ADD_FAILURE() << "no launcher of this kind and types";
      return -1;
    }
    std::vector<std::unique_ptr<DeviceBytes>> places;
    std::vector<void *> pointers;
    std::vector<abi::View> shapes;
    for (size_t i = 0; i < views.size(); ++i) {
      // A matrix that is named twice is one place.
      size_t same = 0;
      while (views[same] != views[i])
        ++same;
      if (same == i) {
        places.push_back(std::make_unique<DeviceBytes>(views[i]->bytes()));
        views[i]->upload(places[i]->data);
      } else {
        places.push_back(nullptr);
      }
      pointers.push_back(places[same]->data + views[i]->at(0, 0));
      shapes.push_back(views[i]->view());
    }
    DeviceBytes scratch(scratchBytes);
    Matrix flag = Matrix::scalar(skip);
    DeviceBytes flagPlace(flag.bytes());
    flag.upload(flagPlace.data);

    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              cudaSuccess);
    abi::CudaLaunch launch{};
    launch.pointers = pointers.data();
    launch.views = shapes.data();
    launch.viewCount = static_cast<uint32_t>(shapes.size());
    launch.ints = ints.data();
    launch.intCount = static_cast<uint32_t>(ints.size());
    launch.reals = reals.data();
    launch.realCount = static_cast<uint32_t>(reals.size());
    launch.scratch = scratchBytes > 0 ? scratch.data : nullptr;
    launch.scratchBytes = scratchBytes;
    launch.skip = reinterpret_cast<const float *>(flagPlace.data);
    launch.rank = rank;
    launch.ranks = ranks;
    launch.processors = processors;
    launch.stream = stream;
    int status = launcher(launch);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    if (status == cudaSuccess)
      for (size_t i = 0; i < views.size(); ++i)
        if (places[i] && !(views[i]->isOut && skip != 0))
          views[i]->download(places[i]->data);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (const std::string &report : onhost::takeReports())
      ADD_FAILURE() << report;
    return status;
  }
};

/// What one rounding to the type may cost, relative.
inline double rounding(DType dtype) {
  return dtype == DType::F32 ? 6e-8 : dtype == DType::F16 ? 4.9e-4 : 3.92e-3;
}

/// Each element within relative * |expected| + absolute; NaN and infinities
/// where they are expected.
inline void expectNear(const Matrix &found, const std::vector<double> &expected,
                       double relative, double absolute = 0) {
  std::vector<double> values = found.values();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double want = expected[i], got = values[i];
    bool near = std::isnan(want)   ? std::isnan(got)
                : std::isinf(want) ? got == want
                                   : std::fabs(got - want) <=
                                         relative * std::fabs(want) + absolute;
    ASSERT_TRUE(near) << "element " << i << " is " << got << ", expected "
                      << want;
  }
}

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Sizes around warps, vectors and blocks.
inline const std::vector<int64_t> oddSizes = {1, 31, 33, 1023};
inline const std::vector<DType> floats = {DType::F32, DType::F16, DType::BF16};

} // namespace ciuic::cuda::test

#endif // CIUIC_TEST_RUNTIME_KERNELS_CUDA_DEVICEHARNESS_H
