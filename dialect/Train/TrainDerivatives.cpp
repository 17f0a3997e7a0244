//===- TrainDerivatives.cpp - Each op's own backward ----------------------===//
//
// Every method adds ops after those already emitted and returns one gradient
// an operand, or null where it is zero or not wanted.
//
//===----------------------------------------------------------------------===//
#include "dialect/Train/Train.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace ciuic::train;

LogicalResult EmbeddingOp::buildBackward(OpBuilder &builder,
                                         ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> wanted,
                                         MutableArrayRef<Value> operandGrads) {
  if (resultGrads[0] && wanted[1])
    operandGrads[1] = EmbeddingGradOp::create(
        builder, getLoc(), getTable().getType(), resultGrads[0], getTokens());
  return success();
}

LogicalResult LinearOp::buildBackward(OpBuilder &builder,
                                      ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> wanted,
                                      MutableArrayRef<Value> operandGrads) {
  Value dy = resultGrads[0];
  if (!dy)
    return success();
  if (wanted[0]) // dx = dy * weight
    operandGrads[0] = MatmulOp::create(builder, getLoc(), getX().getType(), dy,
                                       getWeight(), false, false);
  if (wanted[1]) // dweight = dy^T * x
    operandGrads[1] =
        MatmulOp::create(builder, getLoc(), getWeight().getType(), dy, getX(),
                         /*transpose_a=*/true, /*transpose_b=*/false);
  if (getBias() && wanted[2])
    operandGrads[2] =
        ColumnSumOp::create(builder, getLoc(), getBias().getType(), dy);
  return success();
}

LogicalResult RMSNormOp::buildBackward(OpBuilder &builder,
                                       ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> wanted,
                                       MutableArrayRef<Value> operandGrads) {
  if (resultGrads[1])
    return emitOpError() << "has no derivative through rstd";
  if (!resultGrads[0] || (!wanted[0] && !wanted[1]))
    return success();
  auto grad = RMSNormGradOp::create(builder, getLoc(), getX().getType(),
                                    getWeight().getType(), resultGrads[0],
                                    getX(), getWeight(), getRstd());
  if (wanted[0])
    operandGrads[0] = grad.getDx();
  if (wanted[1])
    operandGrads[1] = grad.getDweight();
  return success();
}

LogicalResult RotaryOp::buildBackward(OpBuilder &builder,
                                      ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> wanted,
                                      MutableArrayRef<Value> operandGrads) {
  if (wanted[1] || wanted[2])
    return emitOpError() << "has no derivative in its tables";
  // A rotation's transpose is its inverse.
  if (resultGrads[0] && wanted[0])
    operandGrads[0] =
        RotaryOp::create(builder, getLoc(), getX().getType(), resultGrads[0],
                         getCos(), getSin(), !getInverse());
  return success();
}

LogicalResult AttentionOp::buildBackward(OpBuilder &builder,
                                         ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> wanted,
                                         MutableArrayRef<Value> operandGrads) {
  if (resultGrads[1])
    return emitOpError() << "has no derivative through lse";
  if (!resultGrads[0] || (!wanted[0] && !wanted[1] && !wanted[2]))
    return success();
  auto grad = AttentionGradOp::create(
      builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(),
      resultGrads[0], getQ(), getK(), getV(), getResult(), getLse(),
      getSeqAttr(), getHeadsAttr(), getKvHeadsAttr(), getScaleAttr());
  Value all[] = {grad.getDq(), grad.getDk(), grad.getDv()};
  for (unsigned i = 0; i < 3; ++i)
    if (wanted[i])
      operandGrads[i] = all[i];
  return success();
}

LogicalResult SigmoidOp::buildBackward(OpBuilder &builder,
                                       ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> wanted,
                                       MutableArrayRef<Value> operandGrads) {
  if (!resultGrads[0] || !wanted[0])
    return success();
  // dx = dy * (y - y*y)
  Value y = getResult();
  Value square = arith::MulFOp::create(builder, getLoc(), y, y);
  Value slope = arith::SubFOp::create(builder, getLoc(), y, square);
  operandGrads[0] =
      arith::MulFOp::create(builder, getLoc(), resultGrads[0], slope);
  return success();
}

LogicalResult
CrossEntropyOp::buildBackward(OpBuilder &builder, ArrayRef<Value> resultGrads,
                              ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) {
  if (resultGrads[1] || resultGrads[2])
    return emitOpError() << "has no derivative through count or lse";
  // The gradient of the loss, a scalar, is the seed itself.
  if (resultGrads[0] && wanted[0])
    operandGrads[0] = CrossEntropyGradOp::create(
        builder, getLoc(), getLogits().getType(), resultGrads[0], getLogits(),
        getLabels(), getLse());
  return success();
}
