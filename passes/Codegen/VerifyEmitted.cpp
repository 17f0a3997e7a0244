//===- VerifyEmitted.cpp - Checks that every task can be run --------------===//
#include "mlir/IR/BuiltinOps.h"
#include "passes/Codegen/KernelPrinter.h"
#include "passes/Codegen/Passes.h"
#include "passes/Codegen/ProgramPrinter.h"

namespace ciuic::codegen {
#define GEN_PASS_DEF_VERIFYEMITTEDPASS
#include "passes/Codegen/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyEmitted : impl::VerifyEmittedPassBase<VerifyEmitted> {
  using VerifyEmittedPassBase::VerifyEmittedPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    for (auto kernel : module.getOps<sched::KernelOp>())
      for (Language language : {Language::Cpp, Language::Cuda})
        if (failed(printKernel(kernel, language, llvm::nulls())))
          return signalPassFailure();
    if (failed(printProgram(module, JobFacts(), llvm::nulls())))
      return signalPassFailure();
  }
};
} // namespace
} // namespace ciuic::codegen
