//===- Sched.h - The sched dialect ------------------------------*- C++ -*-===//
#ifndef CIUIC_DIALECT_SCHED_SCHED_H
#define CIUIC_DIALECT_SCHED_SCHED_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ciuic::sched {

/// Offsets of buffers in an arena are multiples of this many bytes.
inline constexpr int64_t kBufferAlignment = 256;

/// No buffer or view is larger, so that sums of thousands fit 64 bits.
inline constexpr int64_t kMostBytes = int64_t{1} << 48;

/// The number of ranks, an integer attribute on the module; 1 if absent.
inline constexpr llvm::StringLiteral kRanksAttr = "sched.ranks";
int64_t getRanks(mlir::Operation *op);

} // namespace ciuic::sched

#include "dialect/Sched/SchedDialect.h.inc"
#include "dialect/Sched/SchedEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Sched/SchedTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Sched/SchedAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/Sched/SchedOps.h.inc"

#endif // CIUIC_DIALECT_SCHED_SCHED_H
