//===- VerifyEmitted.cpp - Checks that every task can be run --------------===//
#include "mlir/IR/BuiltinOps.h"
#include "passes/Codegen/KernelPrinter.h"
#include "passes/Codegen/Launchers.h"
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
    FailureOr<Launchers> launchers = Launchers::of(module);
    if (failed(launchers))
      return signalPassFailure();
    for (auto kernel : module.getOps<sched::KernelOp>())
      if ((launchers->isOnHost(kernel) &&
           failed(printKernel(kernel, Language::Cpp, llvm::nulls()))) ||
          (launchers->isOnDevice(kernel) &&
           failed(printKernel(kernel, Language::Cuda, llvm::nulls()))))
        return signalPassFailure();
    if (failed(printProgram(module, JobFacts(), llvm::nulls())))
      return signalPassFailure();
  }
};
} // namespace
} // namespace ciuic::codegen
