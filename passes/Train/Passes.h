//===- Passes.h - Passes over the train dialect -----------------*- C++ -*-===//
#ifndef CIUIC_PASSES_TRAIN_PASSES_H
#define CIUIC_PASSES_TRAIN_PASSES_H

#include "dialect/Train/Train.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ciuic::train {

/// The update rules of ciuic-train-append-optimizer.
enum class OptimizerKind { AdamW, Adam, Sgd };

/// The type of parameters and activations.
enum class ComputeType { F32, BF16, F16 };

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Train/Passes.h.inc"

/// Teaches the pointwise ops of `arith` and `math` their derivatives: every
/// tool that runs ciuic-train-differentiate calls this on its registry.
void registerPointwiseDerivatives(mlir::DialectRegistry &registry);

} // namespace ciuic::train

#endif // CIUIC_PASSES_TRAIN_PASSES_H
