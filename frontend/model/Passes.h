//===- Passes.h - The gate of the import phase ------------------*- C++ -*-===//
#ifndef CIUIC_FRONTEND_MODEL_PASSES_H
#define CIUIC_FRONTEND_MODEL_PASSES_H

#include "mlir/Pass/Pass.h"

namespace ciuic::model {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "frontend/model/Passes.h.inc"

} // namespace ciuic::model

#endif // CIUIC_FRONTEND_MODEL_PASSES_H
