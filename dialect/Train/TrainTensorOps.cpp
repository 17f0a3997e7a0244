//===- TrainTensorOps.cpp - Verifiers, cost and signatures ----------------===//
#include "dialect/Train/Train.h"

using namespace mlir;
using namespace ciuic::train;

//===----------------------------------------------------------------------===//
// Helpers that say both sides
//===----------------------------------------------------------------------===//

static RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static LogicalResult expectShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape) {
  RankedTensorType type = tensor(value);
  if (type.getShape() == shape)
    return success();
  return op->emitOpError() << name << " has type " << type
                           << ", expected shape ["
                           << llvm::make_range(shape.begin(), shape.end())
                           << "]";
}

static LogicalResult expectRank(Operation *op, StringRef name, Value value,
                                int64_t rank) {
  if (tensor(value).getRank() == rank)
    return success();
  return op->emitOpError() << name << " has type " << tensor(value)
                           << ", expected rank " << rank;
}

static LogicalResult expectElement(Operation *op, StringRef name, Value value,
                                   Type element) {
  if (tensor(value).getElementType() == element)
    return success();
  return op->emitOpError() << name << " has element type "
                           << tensor(value).getElementType() << ", expected "
                           << element;
}

static Type f32(Operation *op) { return Float32Type::get(op->getContext()); }

/// The rows that a BxT tensor of ids stands for.
static int64_t rowsOf(Value ids) { return tensor(ids).getNumElements(); }

#define CIUIC_EXPECT(check)                                                    \
  if (failed(check))                                                           \
  return failure()

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "tokens", getTokens(), 2));
  CIUIC_EXPECT(expectRank(*this, "table", getTable(), 2));
  CIUIC_EXPECT(
      expectShape(*this, "result", getResult(),
                  {rowsOf(getTokens()), tensor(getTable()).getDimSize(1)}));
  // (C2)
  return expectElement(*this, "result", getResult(),
                       tensor(getTable()).getElementType());
}

LogicalResult EmbeddingGradOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "tokens", getTokens(), 2));
  CIUIC_EXPECT(expectRank(*this, "result", getResult(), 2));
  CIUIC_EXPECT(
      expectShape(*this, "dy", getDy(),
                  {rowsOf(getTokens()), tensor(getResult()).getDimSize(1)}));
  // (C2)
  return expectElement(*this, "result", getResult(),
                       tensor(getDy()).getElementType());
}

LogicalResult LinearOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "x", getX(), 2));
  CIUIC_EXPECT(expectRank(*this, "weight", getWeight(), 2));
  int64_t rows = tensor(getX()).getDimSize(0);
  int64_t in = tensor(getX()).getDimSize(1);
  int64_t out = tensor(getWeight()).getDimSize(0);
  CIUIC_EXPECT(expectShape(*this, "weight", getWeight(), {out, in}));
  CIUIC_EXPECT(expectShape(*this, "result", getResult(), {rows, out}));
  // (C2)
  Type element = tensor(getX()).getElementType();
  CIUIC_EXPECT(expectElement(*this, "weight", getWeight(), element));
  CIUIC_EXPECT(expectElement(*this, "result", getResult(), element));
  if (!getBias())
    return success();
  CIUIC_EXPECT(expectShape(*this, "bias", getBias(), {out}));
  return expectElement(*this, "bias", getBias(), element);
}

LogicalResult MatmulOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "a", getA(), 2));
  CIUIC_EXPECT(expectRank(*this, "b", getB(), 2));
  RankedTensorType a = tensor(getA()), b = tensor(getB());
  bool ta = getTransposeA(), tb = getTransposeB();
  int64_t n = a.getDimSize(ta ? 1 : 0), k = a.getDimSize(ta ? 0 : 1);
  int64_t kb = b.getDimSize(tb ? 1 : 0), m = b.getDimSize(tb ? 0 : 1);
  if (k != kb)
    return emitOpError() << "sums over " << k << " columns of a but " << kb
                         << " rows of b, in " << a << " times " << b;
  CIUIC_EXPECT(expectShape(*this, "result", getResult(), {n, m}));
  // (C2)
  CIUIC_EXPECT(expectElement(*this, "b", getB(), a.getElementType()));
  return expectElement(*this, "result", getResult(), a.getElementType());
}

LogicalResult ColumnSumOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "x", getX(), 2));
  CIUIC_EXPECT(expectShape(*this, "result", getResult(),
                           {tensor(getX()).getDimSize(1)}));
  return expectElement(*this, "result", getResult(),
                       tensor(getX()).getElementType());
}

LogicalResult RMSNormOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "x", getX(), 2));
  ArrayRef<int64_t> shape = tensor(getX()).getShape();
  CIUIC_EXPECT(expectShape(*this, "weight", getWeight(), {shape[1]}));
  CIUIC_EXPECT(expectShape(*this, "result", getResult(), shape));
  CIUIC_EXPECT(expectShape(*this, "rstd", getRstd(), {shape[0]}));
  CIUIC_EXPECT(expectElement(*this, "rstd", getRstd(), f32(*this)));
  CIUIC_EXPECT(expectElement(*this, "result", getResult(),
                             tensor(getX()).getElementType()));
  // (C2)
  if (!(getEps().convertToDouble() > 0.0))
    return emitOpError() << "eps is " << getEps().convertToDouble()
                         << ", expected a positive number";
  return success();
}

LogicalResult RMSNormGradOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "x", getX(), 2));
  RankedTensorType x = tensor(getX());
  ArrayRef<int64_t> shape = x.getShape();
  CIUIC_EXPECT(expectShape(*this, "dy", getDy(), shape));
  CIUIC_EXPECT(expectShape(*this, "dx", getDx(), shape));
  CIUIC_EXPECT(expectShape(*this, "weight", getWeight(), {shape[1]}));
  CIUIC_EXPECT(expectShape(*this, "dweight", getDweight(), {shape[1]}));
  CIUIC_EXPECT(expectShape(*this, "rstd", getRstd(), {shape[0]}));
  CIUIC_EXPECT(expectElement(*this, "dy", getDy(), x.getElementType()));
  CIUIC_EXPECT(expectElement(*this, "dx", getDx(), x.getElementType()));
  CIUIC_EXPECT(expectElement(*this, "dweight", getDweight(),
                             tensor(getWeight()).getElementType()));
  return expectElement(*this, "rstd", getRstd(), f32(*this));
}

LogicalResult RotaryOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "x", getX(), 2));
  CIUIC_EXPECT(expectRank(*this, "cos", getCos(), 2));
  RankedTensorType cos = tensor(getCos());
  CIUIC_EXPECT(expectShape(*this, "sin", getSin(), cos.getShape()));
  CIUIC_EXPECT(expectElement(*this, "cos", getCos(), f32(*this)));
  CIUIC_EXPECT(expectElement(*this, "sin", getSin(), f32(*this)));
  RankedTensorType x = tensor(getX());
  if (cos.getNumElements() == 0)
    return emitOpError() << "rotates " << x << " by an empty table " << cos;
  // (C2)
  if (x.getDimSize(0) % cos.getDimSize(0) != 0 ||
      x.getDimSize(1) % (2 * cos.getDimSize(1)) != 0)
    return emitOpError() << "rotates " << x << " by a table " << cos
                         << "; expected rows divisible by " << cos.getDimSize(0)
                         << " and columns by " << 2 * cos.getDimSize(1);
  // (C3)
  if (getResult().getType() != x)
    return emitOpError() << "result has type " << getResult().getType()
                         << ", expected " << x;
  return success();
}

/// (C1) and (C2) of attention, shared with its backward.
template <typename Op>
static LogicalResult verifyAttention(Op op, Value result) {
  auto seq = static_cast<int64_t>(op.getSeq());
  auto heads = static_cast<int64_t>(op.getHeads());
  auto kvHeads = static_cast<int64_t>(op.getKvHeads());
  CIUIC_EXPECT(expectRank(op, "q", op.getQ(), 2));
  CIUIC_EXPECT(expectRank(op, "k", op.getK(), 2));
  RankedTensorType q = tensor(op.getQ());
  int64_t rows = q.getDimSize(0);
  if (seq < 1 || rows % seq != 0)
    return op.emitOpError() << "has " << rows << " rows, expected a multiple "
                            << "of the sequence length " << seq;
  if (kvHeads < 1 || heads < 1 || heads % kvHeads != 0)
    return op.emitOpError() << "has " << heads << " heads over " << kvHeads
                            << " key/value heads, expected a multiple";
  int64_t dim = q.getDimSize(1) / heads;
  CIUIC_EXPECT(expectShape(op, "q", op.getQ(), {rows, heads * dim}));
  CIUIC_EXPECT(expectShape(op, "k", op.getK(), {rows, kvHeads * dim}));
  CIUIC_EXPECT(expectShape(op, "v", op.getV(), {rows, kvHeads * dim}));
  CIUIC_EXPECT(expectShape(op, "result", result, {rows, heads * dim}));
  CIUIC_EXPECT(expectShape(op, "lse", op.getLse(), {rows, heads}));
  CIUIC_EXPECT(expectElement(op, "lse", op.getLse(), f32(op)));
  Type element = q.getElementType();
  CIUIC_EXPECT(expectElement(op, "k", op.getK(), element));
  CIUIC_EXPECT(expectElement(op, "v", op.getV(), element));
  return expectElement(op, "result", result, element);
}

LogicalResult AttentionOp::verify() {
  return verifyAttention(*this, getResult());
}

LogicalResult AttentionGradOp::verify() {
  CIUIC_EXPECT(verifyAttention(*this, getY()));
  if (getDy().getType() != getY().getType() ||
      getDq().getType() != getQ().getType() ||
      getDk().getType() != getK().getType() ||
      getDv().getType() != getV().getType())
    return emitOpError() << "gradients have types " << getDq().getType() << ", "
                         << getDk().getType() << ", " << getDv().getType()
                         << "; expected those of q, k and v";
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "logits", getLogits(), 2));
  CIUIC_EXPECT(expectRank(*this, "labels", getLabels(), 2));
  int64_t rows = rowsOf(getLabels());
  CIUIC_EXPECT(expectShape(*this, "logits", getLogits(),
                           {rows, tensor(getLogits()).getDimSize(1)}));
  CIUIC_EXPECT(expectShape(*this, "lse", getLse(), {rows}));
  return expectElement(*this, "lse", getLse(), f32(*this));
}

LogicalResult CrossEntropyGradOp::verify() {
  // (C1)
  CIUIC_EXPECT(expectRank(*this, "logits", getLogits(), 2));
  CIUIC_EXPECT(expectRank(*this, "labels", getLabels(), 2));
  int64_t rows = rowsOf(getLabels());
  CIUIC_EXPECT(expectShape(*this, "logits", getLogits(),
                           {rows, tensor(getLogits()).getDimSize(1)}));
  CIUIC_EXPECT(expectShape(*this, "lse", getLse(), {rows}));
  CIUIC_EXPECT(expectElement(*this, "lse", getLse(), f32(*this)));
  if (getResult().getType() != getLogits().getType())
    return emitOpError() << "result has type " << getResult().getType()
                         << ", expected " << getLogits().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

static int64_t elements(Value value) { return tensor(value).getNumElements(); }

int64_t EmbeddingOp::getFlops() { return 0; }
int64_t EmbeddingGradOp::getFlops() { return elements(getDy()); }
int64_t LinearOp::getFlops() {
  return 2 * elements(getX()) * tensor(getWeight()).getDimSize(0) +
         (getBias() ? elements(getResult()) : 0);
}
int64_t MatmulOp::getFlops() {
  int64_t k = tensor(getA()).getDimSize(getTransposeA() ? 0 : 1);
  return 2 * elements(getResult()) * k;
}
int64_t ColumnSumOp::getFlops() { return elements(getX()); }
int64_t RMSNormOp::getFlops() { return 4 * elements(getX()); }
int64_t RMSNormGradOp::getFlops() { return 10 * elements(getX()); }
int64_t RotaryOp::getFlops() { return 3 * elements(getX()); }
/// Two products over the causal half of seq x seq scores a head.
int64_t AttentionOp::getFlops() {
  return 2 * elements(getQ()) * static_cast<int64_t>(getSeq() + 1);
}
/// Five such products: the scores again, dp, dv, dq and dk.
int64_t AttentionGradOp::getFlops() {
  return 5 * elements(getQ()) * static_cast<int64_t>(getSeq() + 1);
}
int64_t SigmoidOp::getFlops() { return 4 * elements(getX()); }
int64_t CrossEntropyOp::getFlops() { return 4 * elements(getLogits()); }
int64_t CrossEntropyGradOp::getFlops() { return 4 * elements(getLogits()); }

//===----------------------------------------------------------------------===//
// Signatures: what is 16-bit under mixed precision
//===----------------------------------------------------------------------===//

#define CIUIC_SIGNATURE(Op, operand, result)                                   \
  bool Op::isComputeOperand(unsigned index) { return operand; }                \
  bool Op::isComputeResult(unsigned index) { return result; }

CIUIC_SIGNATURE(EmbeddingOp, index == 1, true)
CIUIC_SIGNATURE(EmbeddingGradOp, index == 0, true)
CIUIC_SIGNATURE(LinearOp, true, true)
CIUIC_SIGNATURE(MatmulOp, true, true)
CIUIC_SIGNATURE(ColumnSumOp, true, true)
CIUIC_SIGNATURE(RMSNormOp, true, index == 0)
CIUIC_SIGNATURE(RMSNormGradOp, index < 3, true)
CIUIC_SIGNATURE(RotaryOp, index == 0, true)
CIUIC_SIGNATURE(AttentionOp, true, index == 0)
CIUIC_SIGNATURE(AttentionGradOp, index < 5, true)
CIUIC_SIGNATURE(SigmoidOp, false, false)
CIUIC_SIGNATURE(CrossEntropyOp, index == 0, false)
CIUIC_SIGNATURE(CrossEntropyGradOp, index == 1, true)
