//===- ZeroRow.h - The table of ZeRO stages ---------------------*- C++ -*-===//
//
// What the four stages are, in one place: every pass and gate asks this table
// instead of comparing stage numbers.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_COMM_ZEROROW_H
#define CIUIC_PASSES_COMM_ZEROROW_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace ciuic::comm {

/// Whether a rank holds all elements of a bucket or its own chunk.
enum class Layout { Whole, Chunk };

/// When the ranks' gradients meet: once a step, or in every micro-step.
enum class ReduceAt { ApplyStep, MicroStep };

/// The type in which gradients travel unless a job names one: that of the f32
/// accumulator, or the gradient's own.
enum class WireType { Accumulator, Gradient };

/// One stage. Gradients accumulate in f32 at every one of them.
struct ZeroRow {
  Layout parameter;
  Layout gradient;
  /// Master copies and moments.
  Layout optimizer;
  ReduceAt reduceAt;
  WireType wire;
  /// One line for remarks and documents.
  llvm::StringLiteral meaning;
};

inline constexpr ZeroRow kZeroRows[] = {
    {Layout::Whole, Layout::Whole, Layout::Whole, ReduceAt::ApplyStep,
     WireType::Accumulator, "every rank holds everything"},
    {Layout::Whole, Layout::Whole, Layout::Chunk, ReduceAt::ApplyStep,
     WireType::Accumulator, "optimizer states in chunks"},
    {Layout::Whole, Layout::Chunk, Layout::Chunk, ReduceAt::MicroStep,
     WireType::Gradient, "optimizer states and gradients in chunks"},
    {Layout::Chunk, Layout::Chunk, Layout::Chunk, ReduceAt::MicroStep,
     WireType::Gradient,
     "optimizer states, gradients and parameters in chunks"},
};
inline constexpr int64_t kMaxStage = 3;

/// The row of a bucket. Persistent parameters of stage 3 stay whole: theirs
/// is the row of stage 2.
inline const ZeroRow &zeroRow(int64_t stage, bool persistent) {
  return kZeroRows[persistent && stage == kMaxStage ? stage - 1 : stage];
}

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_ZEROROW_H
