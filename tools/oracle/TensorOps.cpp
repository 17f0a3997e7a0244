//===- TensorOps.cpp - Forward and backward of the named ops --------------===//
//
// Sums run in double over rising indices.
//
//===----------------------------------------------------------------------===//
#include "dialect/Train/Train.h"
#include "tools/oracle/Kernels.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::oracle;

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// The row of a table of `rows` that token `index` asks for.
static FailureOr<int64_t> rowOfToken(const Invocation &call,
                                     const Tensor &tokens, int64_t index,
                                     int64_t rows) {
  auto token = static_cast<int64_t>(tokens.data[index]);
  if (token < 0 || token >= rows)
    return call.op->emitOpError()
           << "reads token " << token << " at position ["
           << index / tokens.dim(1) << ", " << index % tokens.dim(1)
           << "] of rank " << call.rank
           << ", expected at least 0 and below the vocabulary " << rows;
  return token;
}

static LogicalResult embedding(const Invocation &call) {
  const Tensor &tokens = call.operand(0), &table = call.operand(1);
  int64_t width = table.dim(1);
  for (int64_t i = 0; i < tokens.size(); ++i) {
    FailureOr<int64_t> row = rowOfToken(call, tokens, i, table.dim(0));
    if (failed(row))
      return failure();
    for (int64_t j = 0; j < width; ++j)
      call.out[0].data[i * width + j] = table.data[*row * width + j];
  }
  return success();
}

static LogicalResult embeddingGrad(const Invocation &call) {
  const Tensor &dy = call.operand(0), &tokens = call.operand(1);
  Tensor &result = call.out[0];
  int64_t width = result.dim(1);
  for (int64_t i = 0; i < tokens.size(); ++i) {
    FailureOr<int64_t> row = rowOfToken(call, tokens, i, result.dim(0));
    if (failed(row))
      return failure();
    for (int64_t j = 0; j < width; ++j)
      result.data[*row * width + j] += dy.data[i * width + j];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

static std::vector<double> transposed(const Tensor &matrix) {
  int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  std::vector<double> result(matrix.data.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result[j * rows + i] = matrix.data[i * columns + j];
  return result;
}

/// result = a * b for a of n x k and b of k x m.
static void multiply(const std::vector<double> &a, const std::vector<double> &b,
                     int64_t n, int64_t k, int64_t m,
                     std::vector<double> &result) {
  for (int64_t i = 0; i < n; ++i) {
    double *row = result.data() + i * m;
    for (int64_t l = 0; l < k; ++l) {
      double factor = a[i * k + l];
      const double *other = b.data() + l * m;
      for (int64_t j = 0; j < m; ++j)
        row[j] += factor * other[j];
    }
  }
}

static LogicalResult linear(const Invocation &call) {
  const Tensor &x = call.operand(0), &weight = call.operand(1);
  Tensor &result = call.out[0];
  int64_t rows = x.dim(0), in = x.dim(1), out = weight.dim(0);
  multiply(x.data, transposed(weight), rows, in, out, result.data);
  if (call.in.size() == 3)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < out; ++j)
        result.data[i * out + j] += call.operand(2).data[j];
  return success();
}

static LogicalResult matmul(const Invocation &call) {
  auto op = cast<train::MatmulOp>(call.op);
  const Tensor &a = call.operand(0), &b = call.operand(1);
  multiply(op.getTransposeA() ? transposed(a) : a.data,
           op.getTransposeB() ? transposed(b) : b.data, call.out[0].dim(0),
           a.dim(op.getTransposeA() ? 0 : 1), call.out[0].dim(1),
           call.out[0].data);
  return success();
}

static LogicalResult columnSum(const Invocation &call) {
  const Tensor &x = call.operand(0);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j)
      call.out[0].data[j] += x.data[i * x.dim(1) + j];
  return success();
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

static LogicalResult rmsNorm(const Invocation &call) {
  auto op = cast<train::RMSNormOp>(call.op);
  const Tensor &x = call.operand(0), &weight = call.operand(1);
  int64_t width = x.dim(1);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const double *row = x.data.data() + i * width;
    double squares = 0.0;
    for (int64_t j = 0; j < width; ++j)
      squares += row[j] * row[j];
    double mean = squares / static_cast<double>(width);
    double rstd = 1.0 / std::sqrt(mean + op.getEps().convertToDouble());
    call.out[1].data[i] = rstd;
    for (int64_t j = 0; j < width; ++j)
      call.out[0].data[i * width + j] = weight.data[j] * row[j] * rstd;
  }
  return success();
}

static LogicalResult rmsNormGrad(const Invocation &call) {
  const Tensor &dy = call.operand(0), &x = call.operand(1);
  const Tensor &weight = call.operand(2), &rstd = call.operand(3);
  int64_t width = x.dim(1);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    double scale = rstd.data[i], projection = 0.0;
    for (int64_t j = 0; j < width; ++j) {
      double h = x.data[i * width + j] * scale;
      double gradient = dy.data[i * width + j];
      call.out[1].data[j] += gradient * h;
      projection += weight.data[j] * gradient * h;
    }
    projection /= static_cast<double>(width);
    for (int64_t j = 0; j < width; ++j) {
      double h = x.data[i * width + j] * scale;
      double gradient = weight.data[j] * dy.data[i * width + j];
      call.out[0].data[i * width + j] = scale * (gradient - h * projection);
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Pointwise and loss
//===----------------------------------------------------------------------===//

static LogicalResult sigmoid(const Invocation &call) {
  for (auto [x, y] : llvm::zip_equal(call.operand(0).data, call.out[0].data))
    y = 1.0 / (1.0 + std::exp(-x));
  return success();
}

/// Whether row `i` counts, and its label if so; an error if that is no column.
static FailureOr<std::optional<int64_t>> labelOf(const Invocation &call,
                                                 const Tensor &labels,
                                                 int64_t i, int64_t columns) {
  auto label = static_cast<int64_t>(labels.data[i]);
  if (label == train::kIgnoredLabel)
    return std::optional<int64_t>();
  if (label < 0 || label >= columns)
    return call.op->emitOpError()
           << "reads label " << label << " at position [" << i / labels.dim(1)
           << ", " << i % labels.dim(1) << "] of rank " << call.rank
           << ", expected -100 or at least 0 and below the vocabulary "
           << columns;
  return std::optional<int64_t>(label);
}

static LogicalResult crossEntropy(const Invocation &call) {
  const Tensor &logits = call.operand(0), &labels = call.operand(1);
  int64_t columns = logits.dim(1);
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    const double *row = logits.data.data() + i * columns;
    double highest = -INFINITY, sum = 0.0;
    for (int64_t v = 0; v < columns; ++v)
      highest = std::fmax(highest, row[v]);
    if (!std::isfinite(highest)) // exp(inf - inf) must not hide an infinity.
      highest = 0.0;
    for (int64_t v = 0; v < columns; ++v)
      sum += std::exp(row[v] - highest);
    double lse = highest + std::log(sum);
    call.out[2].data[i] = lse;

    FailureOr<std::optional<int64_t>> label = labelOf(call, labels, i, columns);
    if (failed(label))
      return failure();
    if (!*label)
      continue;
    call.out[0].data[0] += lse - row[**label];
    call.out[1].data[0] += 1.0;
  }
  return success();
}

static LogicalResult crossEntropyGrad(const Invocation &call) {
  double seed = call.number(0);
  const Tensor &logits = call.operand(1), &labels = call.operand(2);
  const Tensor &lse = call.operand(3);
  int64_t columns = logits.dim(1);
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    FailureOr<std::optional<int64_t>> label = labelOf(call, labels, i, columns);
    if (failed(label))
      return failure();
    if (!*label)
      continue;
    for (int64_t v = 0; v < columns; ++v) {
      double share = std::exp(logits.data[i * columns + v] - lse.data[i]);
      call.out[0].data[i * columns + v] =
          seed * (share - (v == **label ? 1.0 : 0.0));
    }
  }
  return success();
}

Kernel oracle::findTensorKernel(Operation *op) {
  return llvm::TypeSwitch<Operation *, Kernel>(op)
      .Case([](train::EmbeddingOp) { return embedding; })
      .Case([](train::EmbeddingGradOp) { return embeddingGrad; })
      .Case([](train::LinearOp) { return linear; })
      .Case([](train::MatmulOp) { return matmul; })
      .Case([](train::ColumnSumOp) { return columnSum; })
      .Case([](train::RMSNormOp) { return rmsNorm; })
      .Case([](train::RMSNormGradOp) { return rmsNormGrad; })
      .Case([](train::SigmoidOp) { return sigmoid; })
      .Case([](train::CrossEntropyOp) { return crossEntropy; })
      .Case([](train::CrossEntropyGradOp) { return crossEntropyGrad; })
      .Default([](Operation *) { return nullptr; });
}
