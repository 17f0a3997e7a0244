//===- Passes.h - From mathematics to tasks ---------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_TRAINTOSCHED_PASSES_H
#define CIUIC_PASSES_TRAINTOSCHED_PASSES_H

#include "mlir/Pass/Pass.h"

namespace ciuic::sched {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/TrainToSched/Passes.h.inc"

} // namespace ciuic::sched

#endif // CIUIC_PASSES_TRAINTOSCHED_PASSES_H
