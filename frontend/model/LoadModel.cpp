//===- LoadModel.cpp - A model that is train IR already -------------------===//
#include "frontend/model/ImportModel.h"

#include "dialect/Train/Train.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace ciuic;

OwningOpRef<ModuleOp> model::loadModel(MLIRContext &context, StringRef path) {
  context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                      train::TrainDialect>();
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(path, ParserConfig(&context));
  if (!module || failed(verifyImported(*module)))
    return nullptr;
  // Dumps of a module without a name cannot be told apart.
  if (!module->getSymName())
    module->setSymName(llvm::sys::path::stem(path));
  return module;
}

FailureOr<model::BatchShape> model::batchShape(ModuleOp module) {
  auto forward = module.lookupSymbol<func::FuncOp>(train::kForward);
  if (!forward || forward.isDeclaration()) {
    emitError(module.getLoc()) << "module has no function @forward with a body";
    return failure();
  }
  FunctionType type = forward.getFunctionType();
  auto isIds = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && tensor.getRank() == 2 &&
           tensor.getElementType().isInteger(32) && tensor.getNumElements() > 0;
  };
  auto isScalar = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
  };
  if (type.getNumInputs() != 2 || type.getNumResults() != 2 ||
      !isIds(type.getInput(0)) || type.getInput(0) != type.getInput(1) ||
      !llvm::all_of(type.getResults(), isScalar)) {
    forward.emitOpError() << "has type " << type
                          << ", expected (tensor<BxTxi32>, tensor<BxTxi32>) "
                             "-> (tensor<f32>, tensor<f32>)";
    return failure();
  }
  auto ids = cast<RankedTensorType>(type.getInput(0));
  return BatchShape{ids.getDimSize(0), ids.getDimSize(1)};
}
