//===- PlanPrinter.h - Prints the plan for people and tools -----*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_PLANPRINTER_H
#define CIUIC_PASSES_CODEGEN_PLANPRINTER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Analysis/HostPhases.h"
#include "llvm/Support/JSON.h"

namespace ciuic::codegen {

/// `plan/memory.json`: arenas in bytes, and each buffer with its bytes,
/// offset, what it holds and, if it belongs to a program, its first and last
/// task there and the program's peak: the task, the bytes and the holders.
/// `phases` is what a process that is run so holds beside its arenas.
void printMemoryPlan(mlir::ModuleOp module, const sched::ProcessFacts &process,
                     llvm::json::OStream &os);

/// `plan/schedule.json`: each program's tasks with kind, stream, waits, and
/// when each starts and ends, in microseconds from its program's start, on a
/// machine of the module's rates.
void printSchedulePlan(mlir::ModuleOp module, llvm::json::OStream &os);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_PLANPRINTER_H
