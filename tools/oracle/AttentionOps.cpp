//===- AttentionOps.cpp - Rotary embeddings and causal attention ----------===//
#include "dialect/Train/Train.h"
#include "tools/oracle/Kernels.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

static LogicalResult rotary(const Invocation &call) {
  const Tensor &x = call.operand(0), &cos = call.operand(1);
  const Tensor &sin = call.operand(2);
  double sign = cast<train::RotaryOp>(call.op).getInverse() ? -1.0 : 1.0;
  int64_t columns = x.dim(1), positions = cos.dim(0), half = cos.dim(1);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t head = 0; head < columns; head += 2 * half)
      for (int64_t j = 0; j < half; ++j) {
        double c = cos.data[i % positions * half + j];
        double s = sign * sin.data[i % positions * half + j];
        int64_t low = i * columns + head + j, high = low + half;
        call.out[0].data[low] = x.data[low] * c - x.data[high] * s;
        call.out[0].data[high] = x.data[high] * c + x.data[low] * s;
      }
  return success();
}

namespace {
/// Where the features of (row, head) lie.
struct Heads {
  int64_t count; ///< Heads a row.
  int64_t dim;   ///< Features a head.

  const double *of(const Tensor &tensor, int64_t row, int64_t head) const {
    return tensor.data.data() + (row * count + head) * dim;
  }
  double *of(Tensor &tensor, int64_t row, int64_t head) const {
    return tensor.data.data() + (row * count + head) * dim;
  }
  double dot(const double *a, const double *b) const {
    double sum = 0.0;
    for (int64_t j = 0; j < dim; ++j)
      sum += a[j] * b[j];
    return sum;
  }
  void add(double *to, double factor, const double *from) const {
    for (int64_t j = 0; j < dim; ++j)
      to[j] += factor * from[j];
  }
};
} // namespace

static LogicalResult attention(const Invocation &call) {
  auto op = cast<train::AttentionOp>(call.op);
  const Tensor &q = call.operand(0), &k = call.operand(1), &v = call.operand(2);
  auto seq = static_cast<int64_t>(op.getSeq());
  auto count = static_cast<int64_t>(op.getHeads());
  auto kvCount = static_cast<int64_t>(op.getKvHeads());
  double scale = op.getScale().convertToDouble();
  int64_t dim = q.dim(1) / count;
  Heads heads = {count, dim}, kvHeads = {kvCount, dim};

  std::vector<double> scores(seq);
  for (int64_t row = 0; row < q.dim(0); ++row)
    for (int64_t h = 0; h < count; ++h) {
      int64_t kv = h / (count / kvCount);
      int64_t first = row - row % seq; // Of this row's sequence.
      double highest = -INFINITY, sum = 0.0;
      for (int64_t u = first; u <= row; ++u) {
        scores[u - first] =
            scale * heads.dot(heads.of(q, row, h), kvHeads.of(k, u, kv));
        highest = std::fmax(highest, scores[u - first]);
      }
      if (!std::isfinite(highest))
        highest = 0.0;
      for (int64_t u = first; u <= row; ++u)
        sum += std::exp(scores[u - first] - highest);
      double lse = highest + std::log(sum);
      call.out[1].data[row * count + h] = lse;
      for (int64_t u = first; u <= row; ++u)
        heads.add(heads.of(call.out[0], row, h),
                  std::exp(scores[u - first] - lse), kvHeads.of(v, u, kv));
    }
  return success();
}

static LogicalResult attentionGrad(const Invocation &call) {
  auto op = cast<train::AttentionGradOp>(call.op);
  const Tensor &dy = call.operand(0), &q = call.operand(1);
  const Tensor &k = call.operand(2), &v = call.operand(3);
  const Tensor &y = call.operand(4), &lse = call.operand(5);
  Tensor &dq = call.out[0], &dk = call.out[1], &dv = call.out[2];
  auto seq = static_cast<int64_t>(op.getSeq());
  auto count = static_cast<int64_t>(op.getHeads());
  auto kvCount = static_cast<int64_t>(op.getKvHeads());
  double scale = op.getScale().convertToDouble();
  int64_t dim = q.dim(1) / count;
  Heads heads = {count, dim}, kvHeads = {kvCount, dim};

  for (int64_t row = 0; row < q.dim(0); ++row)
    for (int64_t h = 0; h < count; ++h) {
      int64_t kv = h / (count / kvCount);
      const double *gradient = heads.of(dy, row, h);
      double d = heads.dot(gradient, heads.of(y, row, h));
      for (int64_t u = row - row % seq; u <= row; ++u) {
        const double *key = kvHeads.of(k, u, kv);
        double score = scale * heads.dot(heads.of(q, row, h), key);
        double p = std::exp(score - lse.data[row * count + h]);
        double ds = p * (heads.dot(gradient, kvHeads.of(v, u, kv)) - d);
        heads.add(kvHeads.of(dv, u, kv), p, gradient);
        heads.add(heads.of(dq, row, h), scale * ds, key);
        heads.add(kvHeads.of(dk, u, kv), scale * ds, heads.of(q, row, h));
      }
    }
  return success();
}

Kernel oracle::findAttentionKernel(Operation *op) {
  return llvm::TypeSwitch<Operation *, Kernel>(op)
      .Case([](train::RotaryOp) { return rotary; })
      .Case([](train::AttentionOp) { return attention; })
      .Case([](train::AttentionGradOp) { return attentionGrad; })
      .Default([](Operation *) { return nullptr; });
}
