//===- ProgramLives.h - When the buffers of a program live ------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_PROGRAMLIVES_H
#define CIUIC_PASSES_SCHED_PROGRAMLIVES_H

#include "passes/Sched/LiveBound.h"
#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {

/// What a buffer's place in its arena is a multiple of.
int64_t storedAlignment(BufferOp buffer);

/// The bytes that a buffer takes in its arena: up to the next one's start.
int64_t storedBytes(BufferOp buffer);

/// The buffers of one program in one arena that any task touches.
struct ProgramLives {
  llvm::SmallVector<BufferOp> buffers; ///< As the lives are numbered.
  Lives lives;
  LiveBound bound;
};

/// `order` knows the program's events; see findLiveBound() for `boundWork`.
ProgramLives findLives(const TaskOrder &order, const mlir::SymbolTable &symbols,
                       Arena arena, int64_t boundWork = kBoundWork);

/// The bytes of states, inputs and constants in an arena.
int64_t lastingBytes(mlir::ModuleOp module, Arena arena);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_PROGRAMLIVES_H
