//===- Passes.h - Passes over the sched dialect -----------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_PASSES_H
#define CIUIC_PASSES_SCHED_PASSES_H

#include "mlir/Pass/Pass.h"

namespace ciuic::sched {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Sched/Passes.h.inc"

/// Module attributes with the bytes of each arena of one rank.
inline constexpr llvm::StringLiteral kDeviceArena = "sched.arena.device";
inline constexpr llvm::StringLiteral kHostArena = "sched.arena.host";

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_PASSES_H
