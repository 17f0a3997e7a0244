//===- Passes.h - The gate of code generation -------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_PASSES_H
#define CIUIC_PASSES_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace ciuic::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Codegen/Passes.h.inc"

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_PASSES_H
