//===- Passes.h - Passes over the sched dialect -----------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_PASSES_H
#define CIUIC_PASSES_SCHED_PASSES_H

#include "dialect/Sched/Sched.h"
#include "mlir/Pass/Pass.h"
#include "passes/Sched/LiveBound.h"

namespace ciuic::sched {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Sched/Passes.h.inc"

/// Module attributes with the bytes of each arena of one rank.
inline constexpr llvm::StringLiteral kDeviceArena = "sched.arena.device";
inline constexpr llvm::StringLiteral kHostArena = "sched.arena.host";
inline constexpr llvm::StringLiteral kNvmeArena = "sched.arena.nvme";

/// The attribute of the module that holds the bytes of an arena.
inline llvm::StringRef arenaAttr(Arena arena) {
  switch (arena) {
  case Arena::Device:
    return kDeviceArena;
  case Arena::Host:
    return kHostArena;
  case Arena::Nvme:
    return kNvmeArena;
  }
  llvm_unreachable("unknown arena");
}

/// All arenas, in their order.
inline constexpr Arena kAllArenas[] = {Arena::Device, Arena::Host, Arena::Nvme};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_PASSES_H
