//===- attention_test.cpp - Blockwise attention against its formula -------===//
#include "test/runtime/OperationHarness.h"

namespace ciuic::rt::test {
namespace {

struct Case {
  int64_t sequences, seq, heads, kvHeads, dim;
  DType dtype;
  int64_t gap = 0;
};

struct Attention {
  explicit Attention(const Case &c)
      : c(c), rows(c.sequences * c.seq),
        q(rows, c.heads * c.dim, c.dtype, c.gap),
        k(rows, c.kvHeads * c.dim, c.dtype, c.gap),
        v(rows, c.kvHeads * c.dim, c.dtype), y(rows, c.heads * c.dim, c.dtype),
        dy(rows, c.heads * c.dim, c.dtype), dq(rows, c.heads * c.dim, c.dtype),
        dk(rows, c.kvHeads * c.dim, c.dtype),
        dv(rows, c.kvHeads * c.dim, c.dtype, c.gap), lse(rows, c.heads),
        scale(1 / std::sqrt(static_cast<double>(c.dim))) {
    q.random(1);
    k.random(2);
    v.random(3);
    dy.random(4);
  }

  Status forward(int threads = 2) {
    return TaskRun{
        .kind = TaskKind::AttentionForward,
        .views = {q.tensor(), k.tensor(), v.tensor(), y.tensor(), lse.tensor()},
        .ints = {c.seq, c.heads, c.kvHeads},
        .reals = {scale},
        .threads = threads}
        .run();
  }

  Status backward(int threads = 2) {
    return TaskRun{.kind = TaskKind::AttentionBackward,
                   .views = {dy.tensor(), q.tensor(), k.tensor(), v.tensor(),
                             y.tensor(), lse.tensor(), dq.tensor(), dk.tensor(),
                             dv.tensor()},
                   .ints = {c.seq, c.heads, c.kvHeads},
                   .reals = {scale},
                   .threads = threads}
        .run();
  }

  /// The op's definition, written out in double.
  void reference(std::vector<double> &out, std::vector<double> &logs,
                 std::vector<double> &gq, std::vector<double> &gk,
                 std::vector<double> &gv) const {
    int64_t group = c.heads / c.kvHeads, width = c.heads * c.dim,
            kvWidth = c.kvHeads * c.dim;
    out.assign(static_cast<size_t>(rows * width), 0);
    logs.assign(static_cast<size_t>(rows * c.heads), 0);
    gq = out;
    gk.assign(static_cast<size_t>(rows * kvWidth), 0);
    gv = gk;
    for (int64_t b = 0; b < c.sequences; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t t = 0; t < c.seq; ++t) {
          int64_t row = b * c.seq + t, at = h * c.dim, kv = h / group * c.dim;
          std::vector<double> s;
          double top = -INFINITY, sum = 0;
          for (int64_t u = 0; u <= t; ++u) {
            double dot = 0;
            for (int64_t d = 0; d < c.dim; ++d)
              dot += q.get(row, at + d) * k.get(b * c.seq + u, kv + d);
            s.push_back(scale * dot);
            top = std::max(top, s.back());
          }
          for (double value : s)
            sum += std::exp(value - top);
          double log = top + std::log(sum);
          logs[static_cast<size_t>(row * c.heads + h)] = log;
          double dot = 0;
          for (int64_t d = 0; d < c.dim; ++d) {
            double value = 0;
            for (int64_t u = 0; u <= t; ++u)
              value += std::exp(s[static_cast<size_t>(u)] - log) *
                       v.get(b * c.seq + u, kv + d);
            out[static_cast<size_t>(row * width + at + d)] = value;
            dot += value * dy.get(row, at + d);
          }
          for (int64_t u = 0; u <= t; ++u) {
            int64_t other = b * c.seq + u;
            double p = std::exp(s[static_cast<size_t>(u)] - log), dp = 0;
            for (int64_t d = 0; d < c.dim; ++d)
              dp += dy.get(row, at + d) * v.get(other, kv + d);
            double ds = p * (dp - dot);
            for (int64_t d = 0; d < c.dim; ++d) {
              gv[static_cast<size_t>(other * kvWidth + kv + d)] +=
                  p * dy.get(row, at + d);
              gk[static_cast<size_t>(other * kvWidth + kv + d)] +=
                  scale * ds * q.get(row, at + d);
              gq[static_cast<size_t>(row * width + at + d)] +=
                  scale * ds * k.get(other, kv + d);
            }
          }
        }
  }

  Case c;
  int64_t rows;
  Matrix q, k, v, y, dy, dq, dk, dv, lse;
  double scale;
};

class AttentionTest : public testing::TestWithParam<Case> {};

// Forward and backward are the formulas, at block edges and between them.
TEST_P(AttentionTest, MatchesFormula) {
  Attention a(GetParam());
  ASSERT_TRUE(a.forward().ok());
  ASSERT_TRUE(a.backward().ok());
  std::vector<double> y, lse, dq, dk, dv;
  a.reference(y, lse, dq, dk, dv);
  double limit = 2 * tolerance(a.c.dtype);
  EXPECT_LE(relativeError(a.y.values(), y), limit);
  EXPECT_LE(relativeError(a.lse.values(), lse), 2e-6);
  // The backward reads y as it was rounded.
  EXPECT_LE(relativeError(a.dq.values(), dq), 2 * limit);
  EXPECT_LE(relativeError(a.dk.values(), dk), 2 * limit);
  EXPECT_LE(relativeError(a.dv.values(), dv), limit);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Case{1, 1, 1, 1, 16, DType::F32},
                                         Case{2, 31, 2, 1, 16, DType::F32, 3},
                                         Case{1, 33, 4, 2, 64, DType::F32},
                                         Case{1, 64, 2, 2, 128, DType::F32},
                                         Case{2, 65, 3, 3, 40, DType::F32, 5},
                                         Case{1, 96, 2, 1, 7, DType::F32},
                                         Case{1, 97, 6, 2, 32, DType::BF16, 2},
                                         Case{1, 200, 2, 1, 64, DType::F16},
                                         Case{1, 257, 2, 2, 24, DType::F32}));

// The number of threads does not change a bit.
TEST(AttentionTest, SameBitsOnAnyThreads) {
  Attention one({3, 97, 4, 2, 32, DType::F32}), two(one.c);
  EXPECT_OK(one.forward(1));
  EXPECT_OK(one.backward(1));
  EXPECT_OK(two.forward(2));
  EXPECT_OK(two.backward(2));
  EXPECT_TRUE(one.y.sameBits(two.y) && one.lse.sameBits(two.lse));
  EXPECT_TRUE(one.dq.sameBits(two.dq) && one.dk.sameBits(two.dk) &&
              one.dv.sameBits(two.dv));
}

// Each row sees itself and earlier rows only: a later key changes nothing.
TEST(AttentionTest, IsCausal) {
  Attention a({1, 100, 1, 1, 16, DType::F32}), b(a.c);
  for (int64_t d = 0; d < 16; ++d) {
    b.k.set(70, d, 1e3);
    b.v.set(70, d, -1e3);
  }
  EXPECT_OK(a.forward());
  EXPECT_OK(b.forward());
  for (int64_t t = 0; t < 70; ++t)
    for (int64_t d = 0; d < 16; ++d)
      EXPECT_EQ(a.y.get(t, d), b.y.get(t, d)) << t;
  EXPECT_NE(a.y.get(70, 0), b.y.get(70, 0));
}

// A NaN in a query or an inf in a key is seen in what depends on it.
TEST(AttentionTest, NonFiniteValuesSurvive) {
  Attention a({1, 80, 1, 1, 16, DType::F16});
  a.q.set(40, 3, NAN);
  EXPECT_OK(a.forward());
  EXPECT_TRUE(std::isnan(a.y.get(40, 0)));
  EXPECT_TRUE(std::isnan(a.lse.get(40, 0)));
  EXPECT_TRUE(std::isfinite(a.y.get(41, 0)));
  a.dy.set(50, 0, INFINITY);
  EXPECT_OK(a.backward());
  EXPECT_FALSE(std::isfinite(a.dv.get(10, 0)));
  EXPECT_FALSE(std::isfinite(a.dq.get(50, 0)));
}

// Scores in the hundreds neither overflow nor lose the sum.
TEST(AttentionTest, LargeScores) {
  Attention a({1, 70, 1, 1, 16, DType::F32});
  for (int64_t t = 0; t < 70; ++t)
    for (int64_t d = 0; d < 16; ++d)
      a.q.set(t, d, 60 * a.q.get(t, d));
  EXPECT_OK(a.forward());
  std::vector<double> y, lse, dq, dk, dv;
  a.reference(y, lse, dq, dk, dv);
  EXPECT_LE(relativeError(a.y.values(), y), 1e-4);
  EXPECT_LE(relativeError(a.lse.values(), lse), 2e-6);
}

// Shapes that do not fit are refused with both sides.
TEST(AttentionTest, RefusesWrongShapes) {
  Attention a({1, 32, 4, 2, 16, DType::F32});
  a.c.kvHeads = 3;
  Status status = a.forward();
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("4 heads of 3"), std::string::npos)
      << status.str();
}

} // namespace
} // namespace ciuic::rt::test
