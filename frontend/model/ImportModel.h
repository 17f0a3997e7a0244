//===- ImportModel.h - A model as train IR ----------------------*- C++ -*-===//
//
// The `import` phase: a module with the model's parameters and the graph of
// its loss, made of a checked configuration or read from a file of train IR.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_MODEL_IMPORTMODEL_H
#define CIUIC_FRONTEND_MODEL_IMPORTMODEL_H

#include "frontend/model/ModelConfig.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ciuic::model {

/// Builds module @<config.name>: a `train.state` a parameter (named as in
/// parameters()) and rotary table, and
///
///   func.func @forward(%tokens, %labels: tensor<BxTxi32>)
///       -> (loss: tensor<f32>, count: tensor<f32>)
///
/// for B = microBatch, T = sequence. Each op carries its block and a NameLoc,
/// that of the logits being "logits". Null, with an error, if checkBatch()
/// refuses.
mlir::OwningOpRef<mlir::ModuleOp> importModel(mlir::MLIRContext &context,
                                              const ModelConfig &config,
                                              int64_t microBatch,
                                              int64_t sequence);

/// Reads a model that is train IR already. Null, with an error, unless it is
/// as verifyImported() wants it. Its batch is that of its @forward.
mlir::OwningOpRef<mlir::ModuleOp> loadModel(mlir::MLIRContext &context,
                                            llvm::StringRef path);

/// What the import phase ensures; the gate `--ciuic-verify-imported`. Errors
/// name the first op or state at fault.
llvm::LogicalResult verifyImported(mlir::ModuleOp module);

/// The batch of a module's @forward: B and T.
struct BatchShape {
  int64_t microBatch;
  int64_t sequence;
};

/// Fails, with an error, if there is no @forward of the right signature.
llvm::FailureOr<BatchShape> batchShape(mlir::ModuleOp module);

/// The dialects that the phase makes ops of.
void registerImportDialects(mlir::DialectRegistry &registry);

} // namespace ciuic::model

#endif // CIUIC_FRONTEND_MODEL_IMPORTMODEL_H
