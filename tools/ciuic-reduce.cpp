//===- ciuic-reduce.cpp - Makes a failing module small --------------------===//
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tools/RegisterAll.h"

int main(int argc, char **argv) {
  ciuic::registerPasses();
  mlir::DialectRegistry registry;
  ciuic::registerDialects(registry);
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
