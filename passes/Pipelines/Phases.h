//===- Phases.h - The phases of a compilation, as one table -----*- C++ -*-===//
//
// The table drives `--stop-after`, `--start-from`, the names of dump files,
// the help and the docs. Each phase ends in its gate, a pass that states what
// now holds.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_PIPELINES_PHASES_H
#define CIUIC_PASSES_PIPELINES_PHASES_H

#include "mlir/Pass/PassManager.h"
#include "passes/Comm/Passes.h"
#include "passes/Sched/Passes.h"
#include "passes/Train/Passes.h"
#include "passes/TrainToSched/Passes.h"

namespace ciuic {

/// What the phases' passes are told; the defaults are the passes' own.
struct PhaseOptions {
  train::DifferentiatePassOptions differentiate;
  train::AppendOptimizerPassOptions optimizer;
  train::LowerPrecisionPassOptions precision;
  comm::ShardStatesPassOptions shard;
  bool offload = false;           ///< The optimizer's states.
  bool offloadParameters = false; ///< Those of buckets that are gathered.
  comm::OffloadOptimizerPassOptions offloadOptimizer;
  /// Of no block unless asked for.
  comm::RecomputeBlocksPassOptions recomputeBlocks{0};
  comm::RecomputeOpsPassOptions recomputeOps{0};
  comm::KeepGatheredPassOptions keepGathered{1}; ///< The block of the loss.
  comm::OffloadActivationsPassOptions offloadActivations{0};
  sched::LowerToSchedPassOptions lower;
  sched::OrderTasksPassOptions order;
  sched::AllocateBuffersPassOptions allocate;
};

struct Phase {
  llvm::StringRef name;
  llvm::StringRef summary; ///< What it does.
  llvm::StringRef ensures; ///< What its gate says.
  /// Adds its passes; null for the first and last, which are no passes.
  void (*build)(mlir::OpPassManager &pm, const PhaseOptions &options);
};

/// All phases in order: import to emit.
llvm::ArrayRef<Phase> getPhases();

/// The place of a phase in the table, or none.
std::optional<size_t> findPhase(llvm::StringRef name);

/// "import, differentiate, ..." for messages and help.
std::string listPhases();

/// "03-precision.mlir".
std::string dumpName(size_t phase);

} // namespace ciuic

#endif // CIUIC_PASSES_PIPELINES_PHASES_H
