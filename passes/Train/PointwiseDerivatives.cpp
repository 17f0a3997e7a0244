//===- PointwiseDerivatives.cpp - Derivatives of arith and math -----------===//
//
// External models of DifferentiableOpInterface. With g the gradient of the
// result y, each emits the gradients of its operands; where two operands tie in
// a maximum or minimum, each takes half, as in PyTorch.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Train/Passes.h"
#include "passes/Train/Support.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic::train;

namespace {

/// Emits pointwise ops at the location of the op that is differentiated.
struct Emitter {
  OpBuilder &builder;
  Location loc;

  Value add(Value a, Value b) { return emit<arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return emit<arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return emit<arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return emit<arith::DivFOp>(a, b); }
  Value neg(Value a) { return emit<arith::NegFOp>(a); }
  Value mul(Value a, double factor) { return mul(a, constant(a, factor)); }
  /// Of the type of `like`.
  Value constant(Value like, double value) {
    return splat(builder, loc, like.getType(), value);
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(builder, loc, condition, yes, no);
  }
  template <typename Op, typename... Values> Value emit(Values... values) {
    return Op::create(builder, loc, values...);
  }
};

/// What a rule is given and where it puts its results.
struct Rule {
  Emitter emit;
  Value g;
  Value y;
  ValueRange operands;
  ArrayRef<bool> wanted;
  MutableArrayRef<Value> grads;
};

using Predicate = arith::CmpFPredicate;

LogicalResult differentiate(arith::AddFOp, Rule &rule) {
  for (unsigned i : {0, 1})
    if (rule.wanted[i])
      rule.grads[i] = rule.g;
  return success();
}

LogicalResult differentiate(arith::SubFOp, Rule &rule) {
  if (rule.wanted[0])
    rule.grads[0] = rule.g;
  if (rule.wanted[1])
    rule.grads[1] = rule.emit.neg(rule.g);
  return success();
}

LogicalResult differentiate(arith::MulFOp, Rule &rule) {
  for (unsigned i : {0, 1})
    if (rule.wanted[i])
      rule.grads[i] = rule.emit.mul(rule.g, rule.operands[1 - i]);
  return success();
}

/// y = a / b: da = g / b, db = -(g / b) * y.
LogicalResult differentiate(arith::DivFOp, Rule &rule) {
  Value quotient = rule.emit.div(rule.g, rule.operands[1]);
  if (rule.wanted[0])
    rule.grads[0] = quotient;
  if (rule.wanted[1])
    rule.grads[1] = rule.emit.neg(rule.emit.mul(quotient, rule.y));
  return success();
}

LogicalResult differentiate(arith::NegFOp, Rule &rule) {
  rule.grads[0] = rule.emit.neg(rule.g);
  return success();
}

/// The gradient goes to the operand that won; `loses` says when one did not.
LogicalResult differentiateExtremum(Rule &rule, Predicate loses) {
  Emitter &emit = rule.emit;
  Value tie = emit.compare(Predicate::OEQ, rule.operands[0], rule.operands[1]);
  Value share = emit.select(tie, emit.mul(rule.g, 0.5), rule.g);
  Value zero = emit.constant(rule.g, 0.0);
  for (unsigned i : {0, 1})
    if (rule.wanted[i])
      rule.grads[i] = emit.select(
          emit.compare(loses, rule.operands[i], rule.operands[1 - i]), zero,
          share);
  return success();
}
LogicalResult differentiate(arith::MaximumFOp, Rule &rule) {
  return differentiateExtremum(rule, Predicate::OLT);
}
LogicalResult differentiate(arith::MinimumFOp, Rule &rule) {
  return differentiateExtremum(rule, Predicate::OGT);
}

LogicalResult differentiate(arith::SelectOp op, Rule &rule) {
  Value zero = rule.emit.constant(rule.g, 0.0);
  if (rule.wanted[1])
    rule.grads[1] = rule.emit.select(op.getCondition(), rule.g, zero);
  if (rule.wanted[2])
    rule.grads[2] = rule.emit.select(op.getCondition(), zero, rule.g);
  return success();
}

LogicalResult differentiate(arith::ExtFOp op, Rule &rule) {
  rule.grads[0] = arith::TruncFOp::create(rule.emit.builder, rule.emit.loc,
                                          op.getIn().getType(), rule.g);
  return success();
}
LogicalResult differentiate(arith::TruncFOp op, Rule &rule) {
  rule.grads[0] = arith::ExtFOp::create(rule.emit.builder, rule.emit.loc,
                                        op.getIn().getType(), rule.g);
  return success();
}

LogicalResult differentiate(math::ExpOp, Rule &rule) {
  rule.grads[0] = rule.emit.mul(rule.g, rule.y);
  return success();
}

LogicalResult differentiate(math::LogOp, Rule &rule) {
  rule.grads[0] = rule.emit.div(rule.g, rule.operands[0]);
  return success();
}

/// dx = g / (2 * y).
LogicalResult differentiate(math::SqrtOp, Rule &rule) {
  rule.grads[0] = rule.emit.div(rule.emit.mul(rule.g, 0.5), rule.y);
  return success();
}

/// dx = -1/2 * g * y^3.
LogicalResult differentiate(math::RsqrtOp, Rule &rule) {
  Emitter &emit = rule.emit;
  Value cube = emit.mul(emit.mul(rule.y, rule.y), rule.y);
  rule.grads[0] = emit.mul(emit.mul(rule.g, -0.5), cube);
  return success();
}

/// dx = g * (1 - y^2).
LogicalResult differentiate(math::TanhOp, Rule &rule) {
  Emitter &emit = rule.emit;
  Value slope = emit.sub(emit.constant(rule.y, 1.0), emit.mul(rule.y, rule.y));
  rule.grads[0] = emit.mul(rule.g, slope);
  return success();
}

/// dx = g * 2/sqrt(pi) * exp(-x^2).
LogicalResult differentiate(math::ErfOp, Rule &rule) {
  Emitter &emit = rule.emit;
  Value x = rule.operands[0];
  Value bell = emit.emit<math::ExpOp>(emit.neg(emit.mul(x, x)));
  rule.grads[0] =
      emit.mul(rule.g, emit.mul(bell, 2.0 * llvm::numbers::inv_sqrtpi));
  return success();
}

LogicalResult differentiate(math::SinOp, Rule &rule) {
  Value slope = rule.emit.emit<math::CosOp>(rule.operands[0]);
  rule.grads[0] = rule.emit.mul(rule.g, slope);
  return success();
}

LogicalResult differentiate(math::CosOp, Rule &rule) {
  Value slope = rule.emit.emit<math::SinOp>(rule.operands[0]);
  rule.grads[0] = rule.emit.neg(rule.emit.mul(rule.g, slope));
  return success();
}

/// g times the sign of x, which is 0 at 0.
LogicalResult differentiate(math::AbsFOp, Rule &rule) {
  Emitter &emit = rule.emit;
  Value x = rule.operands[0];
  Value zero = emit.constant(x, 0.0);
  Value negative = emit.compare(Predicate::OLT, x, zero);
  Value origin = emit.compare(Predicate::OEQ, x, zero);
  Value slope = emit.select(negative, emit.neg(rule.g), rule.g);
  rule.grads[0] = emit.select(origin, zero, slope);
  return success();
}

/// y = x^b: dx = g * b * x^(b-1), and 0 where b is 0.
LogicalResult differentiate(math::PowFOp op, Rule &rule) {
  if (rule.wanted[1])
    return op.emitError() << describe(op)
                          << " has no derivative in its exponent";
  if (!rule.wanted[0])
    return success();
  Emitter &emit = rule.emit;
  Value b = rule.operands[1];
  Value zero = emit.constant(b, 0.0);
  Value lower = emit.emit<math::PowFOp>(rule.operands[0],
                                        emit.sub(b, emit.constant(b, 1.0)));
  Value slope = emit.select(emit.compare(Predicate::OEQ, b, zero), zero,
                            emit.mul(b, lower));
  rule.grads[0] = emit.mul(rule.g, slope);
  return success();
}

/// Adapts `differentiate` to the interface.
template <typename Op>
struct PointwiseModel
    : DifferentiableOpInterface::ExternalModel<PointwiseModel<Op>, Op> {
  LogicalResult buildBackward(Operation *op, OpBuilder &builder,
                              ArrayRef<Value> resultGrads,
                              ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) const {
    if (!resultGrads[0] ||
        llvm::none_of(wanted, [](bool want) { return want; }))
      return success();
    Rule rule{{builder, op->getLoc()}, resultGrads[0], op->getResult(0),
              op->getOperands(),       wanted,         operandGrads};
    return differentiate(cast<Op>(op), rule);
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<PointwiseModel<Ops>>(*context), ...);
}

} // namespace

void ciuic::train::registerPointwiseDerivatives(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, arith::ArithDialect *, TrainDialect *) {
        attach<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
               arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
               arith::SelectOp, arith::ExtFOp, arith::TruncFOp>(context);
      });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *,
                            TrainDialect *) {
    attach<math::ExpOp, math::LogOp, math::SqrtOp, math::RsqrtOp, math::TanhOp,
           math::ErfOp, math::SinOp, math::CosOp, math::AbsFOp, math::PowFOp>(
        context);
  });
}
