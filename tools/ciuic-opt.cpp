//===- ciuic-opt.cpp - Runs single passes and pipelines -------------------===//
#include "dialect/Comm/Comm.h"
#include "dialect/Train/Train.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  // Only what the tool uses: registering all of MLIR costs link time.
  mlir::registerTransformsPasses();
  mlir::DialectRegistry registry;
  registry.insert<ciuic::comm::CommDialect, ciuic::train::TrainDialect,
                  mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::math::MathDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ciuic pass driver\n", registry));
}
