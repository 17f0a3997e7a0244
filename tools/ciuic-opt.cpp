//===- ciuic-opt.cpp - Runs single passes and pipelines -------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/RegisterAll.h"

int main(int argc, char **argv) {
  ciuic::registerPasses();
  mlir::DialectRegistry registry;
  ciuic::registerDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "ciuic pass driver\n", registry));
}
