//===- ciuic-lsp-server.cpp - Editors ask it about our IR -----------------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tools/RegisterAll.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  ciuic::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
