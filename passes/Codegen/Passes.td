//===- Passes.td - The gate of code generation -------------*- tablegen -*-===//
#ifndef CIUIC_PASSES_CODEGEN_PASSES_TD
#define CIUIC_PASSES_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyEmittedPass : Pass<"ciuic-verify-emitted", "::mlir::ModuleOp"> {
  let summary = "Checks that every task has a kernel or a library call.";
  let description = [{
    Gate of the phase `emit`, run before a bundle is written: every kernel has
    a form in the language of what runs it, C++ or CUDA, every device task for
    CUDA has a launcher for its types or is a library call, and the tables of
    the task program can be printed: a launch names one of these kernels, and
    each other task is a call that the runtime knows. Changes nothing.

    Requires: allocated IR.
  }];
}

#endif // CIUIC_PASSES_CODEGEN_PASSES_TD
