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

/// What places in files, and with them in host memory, are multiples of, an
/// integer attribute on the module; without it files are not used, and places
/// in host memory are multiples of kBufferAlignment.
inline constexpr llvm::StringLiteral kDiskAlignmentAttr =
    "sched.disk_alignment";
int64_t getDiskAlignment(mlir::Operation *op);

/// What the device tasks are made for, a string attribute on the module:
/// "cpu" (also if absent) or "cuda".
inline constexpr llvm::StringLiteral kTargetAttr = "sched.target";
bool isForCuda(mlir::Operation *op);

/// The use-group that a copy serves, a string attribute on its task, such as
/// "layers.3.bwd": copies for one group run ahead of their use together.
inline constexpr llvm::StringLiteral kUseAttr = "sched.use";

/// The GPUs that a module for CUDA is made for, a string attribute on the
/// module: "sm_80,sm_90a".
inline constexpr llvm::StringLiteral kArchitecturesAttr = "sched.architectures";

/// The compute capability times ten, 80 of "sm_80", of each architecture of a
/// list; empty, and `message` says why, if the list is not one.
llvm::SmallVector<int, 4> parseArchitectures(llvm::StringRef list,
                                             std::string &message);

/// The most capable architecture that a module is made for; 0 on CPUs.
int getNewestArchitecture(mlir::Operation *op);

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
