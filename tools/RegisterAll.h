//===- RegisterAll.h - What every tool of the compiler knows ----*- C++ -*-===//
#ifndef CIUIC_TOOLS_REGISTERALL_H
#define CIUIC_TOOLS_REGISTERALL_H

#include "dialect/Comm/Comm.h"
#include "dialect/Train/Train.h"
#include "frontend/model/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Comm/Passes.h"
#include "passes/Train/Passes.h"

namespace ciuic {

/// Only what is used: registering all of MLIR costs link time.
inline void registerDialects(mlir::DialectRegistry &registry) {
  registry
      .insert<comm::CommDialect, train::TrainDialect, mlir::arith::ArithDialect,
              mlir::func::FuncDialect, mlir::math::MathDialect>();
  train::registerPointwiseDerivatives(registry);
}

inline void registerPasses() {
  mlir::registerTransformsPasses();
  model::registerCiuicModelPasses();
  comm::registerCiuicCommPasses();
  train::registerCiuicTrainPasses();
}

} // namespace ciuic

#endif // CIUIC_TOOLS_REGISTERALL_H
