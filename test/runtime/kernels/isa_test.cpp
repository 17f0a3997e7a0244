//===- isa_test.cpp - The builds of the serial loops agree ----------------===//
//
// The other tests run the build that hostKernels() chooses here; these compare
// the x86-64-v3 build with it, loop by loop.
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/host/HostKernels.h"
#include "test/runtime/OperationHarness.h"

namespace ciuic::rt::test {
namespace {

/// Both tables.
struct Builds {
  const HostKernels *v3 = hostKernelsFor("x86-64-v3");
  const HostKernels &best = hostKernels();
};

std::vector<float> scratch(int64_t floats) {
  return std::vector<float>(static_cast<size_t>(floats));
}

// Products of odd sizes, from and to 16 bits too.
TEST(IsaBuildsTest, GemmAgrees) {
  Builds builds;
  ASSERT_NE(builds.v3, nullptr);
  for (DType dtype : {DType::F32, DType::F16, DType::BF16})
    for (bool transposed : {false, true}) {
      Matrix a(transposed ? 300 : 61, transposed ? 61 : 300, dtype),
          b(300, 101, dtype), bias(1, 101, dtype), one(61, 101, dtype),
          two(61, 101, dtype);
      a.random(1);
      b.random(2);
      bias.random(3);
      one.random(4);
      two.random(4);
      auto memory = scratch(gemmScratchFloats(61, 101));
      GemmBlock block;
      block.m = 61;
      block.n = 101;
      block.k = 300;
      block.a = a.tensor().data;
      block.aRow = transposed ? 1 : 300;
      block.aColumn = transposed ? 61 : 1;
      block.b = b.tensor().data;
      block.bRow = 101;
      block.bColumn = 1;
      block.cRow = 101;
      block.aType = block.bType = block.cType = block.biasType = dtype;
      block.bias = bias.tensor().data;
      block.accumulate = true;
      block.scratch = memory.data();
      block.c = one.tensor().data;
      builds.best.gemm(block);
      block.c = two.tensor().data;
      builds.v3->gemm(block);
      EXPECT_LE(relativeError(two.values(), one.values()), tolerance(dtype));
    }
}

// Attention with heads that fill no vector.
TEST(IsaBuildsTest, AttentionAgrees) {
  Builds builds;
  ASSERT_NE(builds.v3, nullptr);
  constexpr int64_t seq = 150, dim = 24;
  Matrix q(seq, 2 * dim), k(seq, dim), v(seq, dim), dy(seq, 2 * dim);
  q.random(1);
  k.random(2);
  v.random(3);
  dy.random(4);
  AttentionShape shape{seq, dim, 2, 0.2f};
  auto head = [](Matrix &m, int64_t column = 0) {
    return HeadView{m.tensor().as<float>() + column, m.columns};
  };
  std::vector<std::vector<double>> results[2];
  for (int which = 0; which < 2; ++which) {
    const HostKernels &kernels = which ? *builds.v3 : builds.best;
    Matrix y(seq, 2 * dim), lse(seq, 2), dq(seq, 2 * dim), dk(seq, dim),
        dv(seq, dim);
    auto forward = scratch(attentionForwardScratch(dim));
    auto backward = scratch(attentionBackwardScratch(seq, dim));
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t begin = 0; begin < seq; begin += attentionQueryRows)
        kernels.attentionForward(
            shape, DType::F32, begin, std::min(seq, begin + attentionQueryRows),
            head(q, h * dim), head(k), head(v), head(y, h * dim),
            lse.tensor().as<float>() + h, 2, forward.data());
    kernels.attentionBackward(shape, DType::F32, head(dy), head(q), head(k),
                              head(v), head(y), lse.tensor().as<float>(), 2,
                              head(dq), head(dk), head(dv), backward.data());
    for (const Matrix *m : {&y, &lse, &dq, &dk, &dv})
      results[which].push_back(m->values());
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_LE(relativeError(results[1][i], results[0][i]), 2e-6) << i;
}

// Sums, losses and updates.
TEST(IsaBuildsTest, LoopsAgree) {
  Builds builds;
  ASSERT_NE(builds.v3, nullptr);
  constexpr int64_t n = 1023;
  Matrix x(1, n), y(1, n);
  x.random(1);
  y.random(2);
  float *data = x.tensor().as<float>();
  EXPECT_NEAR(builds.v3->squareSum(DType::F32, data, n),
              builds.best.squareSum(DType::F32, data, n), 1e-9);
  EXPECT_NEAR(builds.v3->logSumExp(DType::F32, data, n),
              builds.best.logSumExp(DType::F32, data, n), 1e-5);
  std::vector<double> results[2];
  for (int which = 0; which < 2; ++which) {
    const HostKernels &kernels = which ? *builds.v3 : builds.best;
    Matrix p(1, n), m(1, n), v(1, n), half(1, n, DType::F16), sums(1, 31),
        grad(1, n);
    p.random(3);
    v.fill(0.5);
    AdamScalars s{0.9f, 0.99f, 0.1f, 0.01f, 1e-8f, 1, 0, 0.99f, 0.1f, 2};
    kernels.adam(s, p.tensor().as<float>(), y.tensor().as<float>(),
                 m.tensor().as<float>(), v.tensor().as<float>(), DType::F16,
                 half.tensor().data, n);
    kernels.columnSum(DType::F32, data, 31, 33, 31, DType::F32,
                      sums.tensor().data);
    kernels.softmaxGrad(DType::F32, data, 7, 2, 5, grad.tensor().data, n);
    for (const Matrix *matrix : {&p, &m, &v, &sums, &grad})
      for (double value : matrix->values())
        results[which].push_back(value);
  }
  EXPECT_LE(relativeError(results[1], results[0]), 1e-6);
}

// The names that a bundle may carry.
TEST(IsaBuildsTest, ProcessorNames) {
  EXPECT_TRUE(processorRuns("x86-64"));
  EXPECT_TRUE(processorRuns(processorIsa()));
  EXPECT_FALSE(processorRuns("x86-64-v5"));
  EXPECT_FALSE(processorRuns(""));
  EXPECT_EQ(hostKernelsFor("x86-64"), nullptr);
}

} // namespace
} // namespace ciuic::rt::test
