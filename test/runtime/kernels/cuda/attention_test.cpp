//===- attention_test.cpp - Attention kernels against float64 -------------===//
//
// The CUDA attention kernels, run on the CPU by the emulation of CUDA, against
// attention in float64 on the same rounded inputs. What the emulation finds
// (races in shared memory, unwritten bytes, accesses beyond buffers) fails a
// test as well.
//
//===----------------------------------------------------------------------===//

#include "test/cuda_on_host/OnHost.h"
#include "test/runtime/kernels/cuda/AttentionInstances.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace ciuic {
namespace {
using cuda::bf16;
using cuda::f16;

struct Shape {
  int sequences;
  int seq;
  int heads;
  int kvHeads;
  bool packed = false;    ///< q, k and v are columns of one buffer.
  int padding = 0;        ///< Elements between rows.
  double amplitude = 1.0; ///< Of q and k.
};

/// A matrix on the device and the same in float64.
struct Matrix {
  abi::View view{};
  void *data = nullptr;
  std::vector<double> values;
};

template <typename T> constexpr double kEpsilon = 0x1p-23;
template <> constexpr double kEpsilon<f16> = 0x1p-11;
template <> constexpr double kEpsilon<bf16> = 0x1p-8;

template <typename T> T rounded(double x) {
  return cuda::fromFloat<T>(static_cast<float>(x));
}
template <typename T> double widened(T x) { return cuda::toFloat(x); }

/// All buffers of one attention task, forward and backward.
template <typename T, int dim, bool aligned = true> class Attention {
public:
  explicit Attention(const Shape &shape, uint64_t seed = 1) : shape(shape) {
    onhost::Settings settings;
    settings.seed = seed;
    onhost::configure(settings);
    rows = shape.sequences * shape.seq;
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
              cudaSuccess);
    const int qColumns = shape.heads * dim, kColumns = shape.kvHeads * dim;
    std::mt19937_64 random(shape.seq * 131 + shape.heads);
    if (shape.packed) {
      const int stride = qColumns + 2 * kColumns + shape.padding;
      T *whole = allocate<T>(size_t(rows) * stride);
      place(q, whole, qColumns, stride);
      place(k, whole + qColumns, kColumns, stride);
      place(v, whole + qColumns + kColumns, kColumns, stride);
    } else {
      make(q, qColumns);
      make(k, kColumns);
      make(v, kColumns);
    }
    make(y, qColumns);
    make(dy, qColumns);
    make(dq, qColumns);
    make(dk, kColumns);
    make(dv, kColumns);
    lse.data = allocate<float>(size_t(rows) * shape.heads);
    lse.view = {
        0, abi::DType::F32, 2, 0, 0, {rows, shape.heads}, {shape.heads, 1}};
    fill(q, random, shape.amplitude);
    fill(k, random, shape.amplitude);
    fill(v, random, 1.0);
    fill(dy, random, 1.0);
    scratchBytes = size_t(rows) * shape.heads * sizeof(float);
    scratch = allocate<char>(scratchBytes);
    ints[0] = shape.seq;
    ints[1] = shape.heads;
    ints[2] = shape.kvHeads;
    scale = 1.0 / std::sqrt(double(dim));
  }

  ~Attention() {
    for (void *data : buffers)
      cudaFree(data);
    cudaStreamDestroy(stream);
  }

  cudaError_t forward() {
    Matrix *all[] = {&q, &k, &v, &y, &lse};
    return launch(all, 5, &cuda::launchAttentionForward<T, dim, aligned>);
  }

  cudaError_t backward() {
    Matrix *all[] = {&dy, &q, &k, &v, &y, &lse, &dq, &dk, &dv};
    return launch(all, 9, &cuda::launchAttentionBackward<T, dim, aligned>);
  }

  /// Elements of a matrix, row by row.
  template <typename U> std::vector<U> read(const Matrix &matrix) {
    const int64_t columns = matrix.view.shape[1];
    std::vector<U> values(rows * columns);
    EXPECT_EQ(cudaMemcpy2DAsync(values.data(), columns * sizeof(U), matrix.data,
                                matrix.view.strides[0] * sizeof(U),
                                columns * sizeof(U), rows,
                                cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

  /// Forward, then backward, against float64.
  void check() {
    ASSERT_EQ(forward(), cudaSuccess);
    ASSERT_EQ(backward(), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (const std::string &report : onhost::takeReports())
      ADD_FAILURE() << report;
    reference();
    expectNear<T>("y", y, 3);
    expectNear<float>("lse", lse, 8);
    expectNear<T>("dq", dq, 12);
    expectNear<T>("dk", dk, 12);
    expectNear<T>("dv", dv, 12);
  }

  Shape shape;
  Matrix q, k, v, y, dy, dq, dk, dv, lse;
  int64_t rows;
  double largestScore = 0.0; ///< Of the reference.
  int64_t ints[3];
  double scale;
  char *scratch;
  uint64_t scratchBytes;
  cudaStream_t stream = nullptr;

private:
  template <typename U> U *allocate(size_t count) {
    void *data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(U)), cudaSuccess);
    buffers.push_back(data);
    return static_cast<U *>(data);
  }

  static constexpr abi::DType dtype() {
    return std::is_same_v<T, float> ? abi::DType::F32
           : std::is_same_v<T, f16> ? abi::DType::F16
                                    : abi::DType::BF16;
  }

  void place(Matrix &matrix, void *data, int64_t columns, int64_t stride) {
    matrix.data = data;
    matrix.view = {0, dtype(), 2, 0, 0, {rows, columns}, {stride, 1}};
  }

  void make(Matrix &matrix, int columns) {
    const int stride = columns + shape.padding;
    place(matrix, allocate<T>(size_t(rows) * stride), columns, stride);
  }

  void fill(Matrix &matrix, std::mt19937_64 &random, double amplitude) {
    std::normal_distribution<double> normal(0.0, amplitude);
    const int64_t columns = matrix.view.shape[1];
    std::vector<T> values(rows * columns);
    matrix.values.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = rounded<T>(normal(random));
      matrix.values[i] = widened(values[i]);
    }
    EXPECT_EQ(cudaMemcpy2DAsync(matrix.data, matrix.view.strides[0] * sizeof(T),
                                values.data(), columns * sizeof(T),
                                columns * sizeof(T), rows,
                                cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }

  cudaError_t launch(Matrix *const *all, int count,
                     cudaError_t (*launcher)(const abi::CudaLaunch &)) {
    std::vector<void *> pointers(count);
    std::vector<abi::View> views(count);
    for (int i = 0; i < count; ++i) {
      pointers[i] = all[i]->data;
      views[i] = all[i]->view;
    }
    abi::CudaLaunch task{};
    task.pointers = pointers.data();
    task.views = views.data();
    task.viewCount = static_cast<uint32_t>(count);
    task.ints = ints;
    task.intCount = 3;
    task.reals = &scale;
    task.realCount = 1;
    task.scratch = scratch;
    task.scratchBytes = scratchBytes;
    task.ranks = 1;
    task.processors = 4;
    task.stream = stream;
    return launcher(task);
  }

  /// Fills the float64 values of y, lse, dq, dk and dv. Backward is given what
  /// the kernels are given: the rounded y.
  void reference() {
    const int heads = shape.heads, kvHeads = shape.kvHeads;
    const int group = heads / kvHeads;
    const std::vector<T> rounded = read<T>(y);
    y.values.assign(rows * heads * dim, 0.0);
    lse.values.assign(rows * heads, 0.0);
    dq.values.assign(rows * heads * dim, 0.0);
    dk.values.assign(rows * kvHeads * dim, 0.0);
    dv.values.assign(rows * kvHeads * dim, 0.0);
    std::vector<double> p(shape.seq);
    for (int sequence = 0; sequence < shape.sequences; ++sequence)
      for (int head = 0; head < heads; ++head)
        for (int t = 0; t < shape.seq; ++t) {
          const int64_t first = int64_t(sequence) * shape.seq;
          auto at = [&](std::vector<double> &values, int row, int head,
                        int count) {
            return values.data() + ((first + row) * count + head) * dim;
          };
          const double *qRow = at(q.values, t, head, heads);
          double top = -INFINITY, sum = 0.0, delta = 0.0;
          for (int u = 0; u <= t; ++u) {
            const double *kRow = at(k.values, u, head / group, kvHeads);
            p[u] = 0.0;
            for (int j = 0; j < dim; ++j)
              p[u] += qRow[j] * kRow[j];
            p[u] *= scale;
            top = std::max(top, p[u]);
            largestScore = std::max(largestScore, std::fabs(p[u]));
          }
          for (int u = 0; u <= t; ++u)
            sum += std::exp(p[u] - top);
          const double logSum = top + std::log(sum);
          lse.values[(first + t) * heads + head] = logSum;
          const double *dyRow = at(dy.values, t, head, heads);
          for (int j = 0; j < dim; ++j)
            delta += dyRow[j] *
                     widened(rounded[((first + t) * heads + head) * dim + j]);
          double *yRow = at(y.values, t, head, heads);
          double *dqRow = at(dq.values, t, head, heads);
          for (int u = 0; u <= t; ++u) {
            const double *kRow = at(k.values, u, head / group, kvHeads);
            const double *vRow = at(v.values, u, head / group, kvHeads);
            double *dkRow = at(dk.values, u, head / group, kvHeads);
            double *dvRow = at(dv.values, u, head / group, kvHeads);
            const double weight = std::exp(p[u] - logSum);
            double dp = 0.0;
            for (int j = 0; j < dim; ++j)
              dp += dyRow[j] * vRow[j];
            const double ds = weight * (dp - delta) * scale;
            for (int j = 0; j < dim; ++j) {
              yRow[j] += weight * vRow[j];
              dvRow[j] += weight * dyRow[j];
              dqRow[j] += ds * kRow[j];
              dkRow[j] += ds * qRow[j];
            }
          }
        }
  }

  /// Each element within `times` roundings to U of the largest element of its
  /// row or, where a row is tiny, of a part of the whole; and within what sums
  /// and scores in f32 allow: an exponential is as wrong as its exponent.
  template <typename U>
  void expectNear(const char *name, const Matrix &matrix, double times) {
    const std::vector<U> found = read<U>(matrix);
    const int64_t columns = matrix.view.shape[1];
    double most = 0.0;
    for (double value : matrix.values)
      most = std::max(most, std::fabs(value));
    int shown = 0;
    for (int64_t i = 0; i < int64_t(found.size()) && shown < 3; ++i) {
      double row = 0.0;
      for (int64_t j = 0; j < columns; ++j)
        row =
            std::max(row, std::fabs(matrix.values[i / columns * columns + j]));
      const double bound =
          times * kEpsilon<U> * std::max(row, most / 16) +
          0x1p-23 * (8 + 2 * largestScore) * std::max(1.0, most);
      const double error = std::fabs(widened(found[i]) - matrix.values[i]);
      if (!(error <= bound)) {
        ADD_FAILURE() << name << " row " << i / columns << " column "
                      << i % columns << ": found " << widened(found[i])
                      << ", expected " << matrix.values[i] << " within "
                      << bound;
        ++shown;
      }
    }
  }

  std::vector<void *> buffers;
};

std::string named(const Shape &shape) {
  return std::to_string(shape.sequences) + " x " + std::to_string(shape.seq) +
         " rows, " + std::to_string(shape.heads) + " heads of " +
         std::to_string(shape.kvHeads);
}

template <typename T, int dim, bool aligned = true>
void check(const Shape &shape) {
  SCOPED_TRACE(named(shape) + ", size " + std::to_string(dim));
  Attention<T, dim, aligned>(shape).check();
}

// Every tail of a block of queries or keys, one key head for each query head.
TEST(AttentionTensorCores, Lengths) {
  for (int seq : {1, 31, 33, 64, 65, 127, 129, 257}) {
    check<bf16, 128>({1, seq, 1, 1});
    check<f16, 64>({1, seq, 1, 1});
  }
}

// Both element types with both head sizes; sequences do not see each other.
TEST(AttentionTensorCores, Sequences) {
  check<f16, 128>({3, 65, 2, 2});
  check<bf16, 64>({3, 65, 2, 2});
}

// Query heads that share a key head read it and add to its gradient.
TEST(AttentionTensorCores, Groups) {
  check<bf16, 64>({2, 70, 2, 1});
  check<bf16, 64>({1, 70, 8, 2});
  check<f16, 128>({1, 70, 8, 1});
  check<bf16, 128>({1, 33, 6, 3});
}

// q, k and v are columns of one buffer, and rows have padding behind them.
TEST(AttentionTensorCores, StridedRows) {
  check<bf16, 64>({2, 67, 4, 2, /*packed=*/true});
  check<f16, 128>({2, 67, 2, 1, /*packed=*/true, /*padding=*/8});
}

// Scores of several hundreds: exponentials of them alone overflow.
TEST(AttentionTensorCores, LargeScores) {
  check<bf16, 128>({1, 129, 1, 1, false, 0, 16.0});
  check<f16, 64>({1, 129, 2, 1, false, 0, 16.0});
}

// All scores equal: every row is the mean of the values it sees.
TEST(AttentionTensorCores, EqualScores) {
  check<bf16, 64>({1, 100, 1, 1, false, 0, 0.0});
}

// Head sizes and element types that tensor cores do not serve.
TEST(AttentionAny, HeadSizes) {
  check<float, 16>({2, 33, 2, 1});
  check<f16, 80>({1, 65, 2, 2});
  check<bf16, 96>({1, 65, 4, 2});
  check<float, 128>({1, 65, 1, 1});
  check<bf16, 256>({1, 35, 2, 1});
  check<float, 5>({1, 35, 3, 1});
}

// Every tail of a block of queries or keys.
TEST(AttentionAny, Lengths) {
  for (int seq : {1, 31, 33, 64, 65, 127, 129, 257})
    check<float, 16>({1, seq, 1, 1});
}

// Rows at any address: an odd padding makes most of them odd.
TEST(AttentionAny, UnalignedRows) {
  check<bf16, 64, /*aligned=*/false>({2, 37, 2, 1, /*packed=*/true, 3});
  check<f16, 80>({1, 37, 2, 2, /*packed=*/true, 1});
}

TEST(AttentionAny, LargeScores) {
  check<float, 64>({1, 65, 2, 2, false, 0, 16.0});
}

// The same inputs give the same bits, whatever the order of blocks and warps.
TEST(Attention, EqualBitsFromRunToRun) {
  auto run = [](uint64_t seed) {
    Attention<bf16, 64> attention({1, 130, 4, 2}, seed);
    EXPECT_EQ(attention.forward(), cudaSuccess);
    EXPECT_EQ(attention.backward(), cudaSuccess);
    std::vector<bf16> all;
    for (Matrix *matrix :
         {&attention.y, &attention.dq, &attention.dk, &attention.dv}) {
      const auto part = attention.template read<bf16>(*matrix);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::vector<uint16_t> bits(all.size());
    std::memcpy(bits.data(), all.data(), bits.size() * sizeof(uint16_t));
    return bits;
  };
  EXPECT_EQ(run(1), run(2));
}

// What does not fit is refused before anything is launched.
TEST(Attention, RefusesWhatDoesNotFit) {
  Attention<bf16, 64> attention({2, 16, 4, 2});
  attention.ints[0] = 15; // Does not divide the rows.
  EXPECT_EQ(attention.forward(), cudaErrorInvalidValue);
  attention.ints[0] = 16;
  attention.ints[2] = 3; // Does not divide the heads.
  EXPECT_EQ(attention.forward(), cudaErrorInvalidValue);
  attention.ints[2] = 2;
  attention.q.view.strides[0] += 4; // Rows are not at 16 bytes.
  EXPECT_EQ(attention.forward(), cudaErrorInvalidValue);
  attention.q.view.strides[0] -= 4;
  EXPECT_EQ(attention.forward(), cudaSuccess);
  --attention.scratchBytes;
  EXPECT_EQ(attention.backward(), cudaErrorInvalidValue);
}

// No rows is nothing to do.
TEST(Attention, NoRows) {
  Attention<bf16, 64> attention({0, 16, 4, 2});
  EXPECT_EQ(attention.forward(), cudaSuccess);
  EXPECT_EQ(attention.backward(), cudaSuccess);
}

} // namespace
} // namespace ciuic
