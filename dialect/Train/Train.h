//===- Train.h - The train dialect ------------------------------*- C++ -*-===//
#ifndef CIUIC_DIALECT_TRAIN_TRAIN_H
#define CIUIC_DIALECT_TRAIN_TRAIN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/bit.h"

namespace ciuic::train {

/// A double as an attribute's parameter: equal when its bits are.
struct Real {
  double value = 0.0;
  Real() = default;
  Real(double value) : value(value) {}
  operator double() const { return value; }
  bool operator==(const Real &other) const {
    return llvm::bit_cast<uint64_t>(value) ==
           llvm::bit_cast<uint64_t>(other.value);
  }
};
inline llvm::hash_code hash_value(const Real &real) {
  return llvm::hash_value(llvm::bit_cast<uint64_t>(real.value));
}

/// The bytes of every operand and result of `op`, each counted once.
int64_t sumOfBytes(mlir::Operation *op);

/// The bytes of a static tensor; elements below a byte count as one.
int64_t bytesOf(mlir::Type type);

/// Roles of functions, by name.
inline constexpr llvm::StringLiteral kForward = "forward";
inline constexpr llvm::StringLiteral kMicroStep = "micro_step";
inline constexpr llvm::StringLiteral kApplyStep = "apply_step";
inline constexpr llvm::StringLiteral kEvalStep = "eval_step";

/// Discardable attributes on the ops of a function: which block of the model
/// an op belongs to (a string such as "layers.3"), and a unit attribute on
/// ops of the backward.
inline constexpr llvm::StringLiteral kBlockAttr = "train.block";
inline constexpr llvm::StringLiteral kBackwardAttr = "train.backward";

/// A unit attribute on the constant with which the backward starts: the
/// gradient of the summed loss. Loss scaling multiplies it.
inline constexpr llvm::StringLiteral kSeedAttr = "train.seed";

/// Suffixes of the states that follow a parameter, and the names of those that
/// belong to the whole job.
inline constexpr llvm::StringLiteral kGradSuffix = ".grad";
inline constexpr llvm::StringLiteral kMasterSuffix = ".master";
inline constexpr llvm::StringLiteral kLossMetric = "metric.loss";
inline constexpr llvm::StringLiteral kTokensMetric = "metric.tokens";
inline constexpr llvm::StringLiteral kEvalLossMetric = "metric.eval_loss";
inline constexpr llvm::StringLiteral kEvalTokensMetric = "metric.eval_tokens";
inline constexpr llvm::StringLiteral kStep = "step";
inline constexpr llvm::StringLiteral kLossReport = "report.loss";
inline constexpr llvm::StringLiteral kNormReport = "report.grad_norm";
inline constexpr llvm::StringLiteral kRateReport = "report.lr";
inline constexpr llvm::StringLiteral kSkipReport = "report.skip";
inline constexpr llvm::StringLiteral kStoppedReport = "report.stopped";
inline constexpr llvm::StringLiteral kLossScale = "loss_scale";
inline constexpr llvm::StringLiteral kScalerIteration = "scaler.iteration";
inline constexpr llvm::StringLiteral kScalerLastOverflow =
    "scaler.last_overflow";
inline constexpr llvm::StringLiteral kScalerHysteresis = "scaler.hysteresis";

/// The label of a token that does not count towards the loss.
inline constexpr int32_t kIgnoredLabel = -100;

} // namespace ciuic::train

#include "dialect/Train/TrainDialect.h.inc"
#include "dialect/Train/TrainEnums.h.inc"
#include "dialect/Train/TrainInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Train/TrainAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/Train/TrainOps.h.inc"

#endif // CIUIC_DIALECT_TRAIN_TRAIN_H
