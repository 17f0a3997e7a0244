//===- Phases.cpp - The phases of a compilation, as one table -------------===//
#include "passes/Pipelines/Phases.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace ciuic;

static void buildDifferentiate(OpPassManager &pm, const PhaseOptions &options) {
  pm.addPass(train::createDifferentiatePass(options.differentiate));
  // Before precision: what is computed again need not be rounded.
  pm.addPass(train::createRecomputePointwisePass());
  pm.addPass(train::createAppendOptimizerPass(options.optimizer));
  pm.addPass(train::createVerifyDifferentiatedPass());
}

static void buildPrecision(OpPassManager &pm, const PhaseOptions &options) {
  pm.addPass(train::createLowerPrecisionPass(options.precision));
  pm.addPass(train::createVerifyPrecisionPass());
}

static void buildShard(OpPassManager &pm, const PhaseOptions &options) {
  pm.addPass(comm::createShardStatesPass(options.shard));
  // One rank goes the same way as many; what moves nothing ends here.
  pm.addPass(comm::createElideTrivialCollectivesPass());
  pm.addPass(createCSEPass());
  pm.addPass(comm::createVerifyShardedPass());
}

static void buildPlace(OpPassManager &pm, const PhaseOptions &options) {
  // Whole blocks first: single ops are of those that are left.
  if (options.recomputeBlocks.count != 0)
    pm.addPass(comm::createRecomputeBlocksPass(options.recomputeBlocks));
  if (options.recomputeOps.count != 0)
    pm.addPass(comm::createRecomputeOpsPass(options.recomputeOps));
  // Recompute asks for the backward's gathers, which may then be the forward's.
  if (options.keepGathered.count != 0)
    pm.addPass(comm::createKeepGatheredPass(options.keepGathered));
  // Once it is known what is gathered for which use, and before the optimizer,
  // which may then leave parameters where they are.
  if (options.offloadParameters)
    pm.addPass(comm::createOffloadParametersPass());
  if (options.offload)
    pm.addPass(comm::createOffloadOptimizerPass(options.offloadOptimizer));
  if (options.offloadActivations.blocks != 0)
    pm.addPass(comm::createOffloadActivationsPass(options.offloadActivations));
  // Whatever recompute made useless goes before it is given a task.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(comm::createVerifyPlacedPass());
}

static void buildSchedule(OpPassManager &pm, const PhaseOptions &options) {
  pm.addPass(sched::createLowerToSchedPass(options.lower));
  pm.addPass(sched::createFuseLossPass());
  pm.addPass(sched::createAddScratchPass());
  pm.addPass(sched::createOrderTasksPass(options.order));
  pm.addPass(sched::createVerifyScheduledPass());
}

static void buildAllocate(OpPassManager &pm, const PhaseOptions &options) {
  pm.addPass(sched::createAllocateBuffersPass(options.allocate));
  pm.addPass(sched::createVerifyAllocatedPass());
}

ArrayRef<Phase> ciuic::getPhases() {
  static const Phase phases[] = {
      {"import", "builds the forward graph of the loss from the model",
       "shapes and types agree, every state is used", nullptr},
      {"differentiate", "appends the backward and the optimizer step",
       "every trainable state has one gradient", buildDifferentiate},
      {"precision", "lowers to 16 bits with masters and loss scaling",
       "each op matches its type signature", buildPrecision},
      {"shard", "lays states out in buckets and shares them between ranks",
       "shards times ranks are the whole, in one collective order", buildShard},
      {"place", "offloads states and recomputes activations",
       "every state and bucket has a memory space", buildPlace},
      {"schedule", "lowers to tasks on streams, ordered by events",
       "no two tasks touch one byte unordered", buildSchedule},
      {"allocate", "gives every buffer an offset",
       "live buffers never overlap, the arena is within its limit",
       buildAllocate},
      {"emit", "prints kernels and tables and builds them",
       "every task has a kernel or a library call", nullptr},
  };
  return phases;
}

std::optional<size_t> ciuic::findPhase(StringRef name) {
  for (auto [i, phase] : llvm::enumerate(getPhases()))
    if (phase.name == name)
      return i;
  return std::nullopt;
}

std::string ciuic::listPhases() {
  return llvm::join(
      llvm::map_range(getPhases(), [](const Phase &p) { return p.name; }),
      ", ");
}

std::string ciuic::dumpName(size_t phase) {
  std::string name;
  llvm::raw_string_ostream(name) << llvm::format("%02zu-", phase + 1)
                                 << getPhases()[phase].name << ".mlir";
  return name;
}
