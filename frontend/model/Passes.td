//===- Passes.td - The gate of the import phase ------------*- tablegen -*-===//
#ifndef CIUIC_FRONTEND_MODEL_PASSES_TD
#define CIUIC_FRONTEND_MODEL_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyImportedPass
    : Pass<"ciuic-verify-imported", "::mlir::ModuleOp"> {
  let summary = "Checks what the import phase ensures.";
  let description = [{
    Succeeds, without changing anything, where

    - the module holds nothing but `train.state`s and `@forward`;
    - `@forward` takes tokens and labels, both `tensor<BxTxi32>`, and returns
      the summed loss and the number of labelled tokens, both `tensor<f32>`;
    - states are parameters and tables of f32, at least one is trainable, and
      each is read by exactly one `train.read`;
    - `@forward` is one block of ops without effects and regions, each of f32
      or i32 tensors;
    - each op names its block of the model (`train.block`; constants need
      not), and the ops of a block stand together.
  }];
}

#endif // CIUIC_FRONTEND_MODEL_PASSES_TD
