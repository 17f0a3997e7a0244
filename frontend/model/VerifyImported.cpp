//===- VerifyImported.cpp - The gate of the import phase ------------------===//
#include "dialect/Train/Train.h"
#include "frontend/model/ImportModel.h"
#include "frontend/model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::train;

namespace ciuic::model {
#define GEN_PASS_DEF_VERIFYIMPORTEDPASS
#include "frontend/model/Passes.h.inc"
} // namespace ciuic::model

/// Only states and @forward; states are parameters and tables of f32.
static LogicalResult verifySymbols(ModuleOp module) {
  bool anyTrainable = false;
  for (Operation &op : *module.getBody()) {
    if (auto function = dyn_cast<func::FuncOp>(op);
        function && function.getSymName() == kForward)
      continue;
    auto state = dyn_cast<StateOp>(op);
    if (!state)
      return op.emitOpError()
             << "is not expected in an imported module, which holds "
                "train.state and func.func @forward";
    if (state.getRole() != Role::Parameter && state.getRole() != Role::Table)
      return state.emitOpError()
             << "@" << state.getSymName() << " is a "
             << stringifyRole(state.getRole())
             << "; an imported module has parameters and tables";
    if (!state.getTensorType().getElementType().isF32())
      return state.emitOpError()
             << "@" << state.getSymName() << " has type " << state.getType()
             << ", expected elements of f32";
    if (state.getBucket() || state.getSharded() || state.getOf())
      return state.emitOpError()
             << "@" << state.getSymName()
             << " is laid out already; an imported state is a whole tensor";
    anyTrainable |= state.getTrainable();
  }
  if (!anyTrainable)
    return emitError(module.getLoc()) << "module has no trainable parameter";
  return success();
}

/// A value is a static tensor of f32 or i32.
static LogicalResult verifyTypes(Operation &op) {
  for (Type type : op.getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() ||
        !(tensor.getElementType().isF32() ||
          tensor.getElementType().isInteger(32)))
      return op.emitOpError() << "has a result of type " << type
                              << ", expected a static tensor of f32 or i32";
  }
  return success();
}

/// Each op belongs to a block, and no block is left and entered again.
static LogicalResult verifyBlocks(Block &body) {
  llvm::DenseMap<StringAttr, Operation *> lastOf;
  StringAttr current;
  for (Operation &op : body.without_terminator()) {
    auto block = op.getAttrOfType<StringAttr>(kBlockAttr);
    if (!block || block.empty()) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        continue;
      return op.emitOpError() << "names no block of the model; expected "
                              << kBlockAttr << " = \"...\"";
    }
    if (block != current) {
      if (auto it = lastOf.find(block); it != lastOf.end()) {
        InFlightDiagnostic diag = op.emitOpError()
                                  << "is in block " << block
                                  << ", which ended before; the ops of a block "
                                     "stand together";
        diag.attachNote(it->second->getLoc()) << "it ended here";
        return diag;
      }
      current = block;
    }
    lastOf[block] = &op;
  }
  return success();
}

/// Each state is read once.
static LogicalResult verifyReads(ModuleOp module, Block &body) {
  llvm::StringMap<Operation *> reads;
  for (auto read : body.getOps<ReadOp>()) {
    auto [it, isNew] = reads.try_emplace(read.getState(), read);
    if (isNew)
      continue;
    InFlightDiagnostic diag = read.emitOpError()
                              << "reads @" << read.getState()
                              << " again; a state is read once";
    diag.attachNote(it->second->getLoc()) << "it is read here first";
    return diag;
  }
  for (auto state : module.getOps<StateOp>())
    if (!reads.contains(state.getSymName()))
      return state.emitOpError() << "@" << state.getSymName()
                                 << " is read by no train.read of @forward";
  return success();
}

LogicalResult model::verifyImported(ModuleOp module) {
  if (failed(batchShape(module)) || failed(verifySymbols(module)))
    return failure();
  auto forward = module.lookupSymbol<func::FuncOp>(kForward);
  if (!forward.getBody().hasOneBlock())
    return forward.emitOpError() << "has several blocks, expected one";
  Block &body = forward.getBody().front();
  for (Operation &op : body) {
    if (op.getNumRegions() != 0 || !isMemoryEffectFree(&op))
      return op.emitOpError()
             << "has a region or an effect; @forward is plain mathematics";
    if (failed(verifyTypes(op)))
      return failure();
  }
  if (failed(verifyBlocks(body)))
    return failure();
  return verifyReads(module, body);
}

namespace {
struct VerifyImported : model::impl::VerifyImportedPassBase<VerifyImported> {
  using VerifyImportedPassBase::VerifyImportedPassBase;

  void runOnOperation() final {
    if (failed(model::verifyImported(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
