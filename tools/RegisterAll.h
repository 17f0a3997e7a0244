//===- RegisterAll.h - What every tool of the compiler knows ----*- C++ -*-===//
#ifndef CIUIC_TOOLS_REGISTERALL_H
#define CIUIC_TOOLS_REGISTERALL_H

#include "dialect/Comm/Comm.h"
#include "dialect/Sched/Sched.h"
#include "dialect/Train/Train.h"
#include "frontend/model/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Codegen/Passes.h"
#include "passes/Comm/Passes.h"
#include "passes/Sched/Passes.h"
#include "passes/Train/Passes.h"
#include "passes/TrainToSched/Passes.h"

namespace ciuic {

/// Only what is used: registering all of MLIR costs link time.
inline void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<comm::CommDialect, sched::SchedDialect, train::TrainDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect,
                  mlir::scf::SCFDialect>();
  train::registerPointwiseDerivatives(registry);
}

inline void registerPasses() {
  mlir::registerTransformsPasses();
  model::registerCiuicModelPasses();
  comm::registerCiuicCommPasses();
  train::registerCiuicTrainPasses();
  sched::registerTrainToSchedPasses();
  sched::registerSchedPasses();
  codegen::registerCiuicCodegenPasses();
}

} // namespace ciuic

#endif // CIUIC_TOOLS_REGISTERALL_H
