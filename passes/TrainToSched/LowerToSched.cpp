//===- LowerToSched.cpp - The pass that lowers a module -------------------===//
#include "dialect/Sched/Rates.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TrainToSched/Passes.h"
#include "passes/TrainToSched/ProgramLowering.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_LOWERTOSCHEDPASS
#include "passes/TrainToSched/Passes.h.inc"

using namespace mlir;

namespace {
struct LowerToSched : impl::LowerToSchedPassBase<LowerToSched> {
  using LowerToSchedPassBase::LowerToSchedPassBase;

  /// Says on the module what its device tasks are made for.
  LogicalResult setTarget() {
    ModuleOp module = getOperation();
    Builder builder(module);
    if (target != "cpu" && target != "cuda")
      return module.emitError() << "option target is \"" << target.getValue()
                                << "\", expected cpu or cuda";
    module->setAttr(kTargetAttr, builder.getStringAttr(target.getValue()));
    if (target == "cpu")
      return success();
    std::string message;
    if (parseArchitectures(architectures, message).empty())
      return module.emitError()
             << "option architectures is \"" << architectures.getValue()
             << "\": " << message;
    module->setAttr(kArchitecturesAttr,
                    builder.getStringAttr(architectures.getValue()));
    return success();
  }

  /// States in files are updated part by part.
  LogicalResult setFiles(ModuleLowering &shared) {
    ModuleOp module = getOperation();
    constexpr int64_t mostPart = int64_t(1) << 40, mostBuffers = 64;
    if (diskPart < 1 || diskPart > mostPart || diskBuffers < 1 ||
        diskBuffers > mostBuffers)
      return module.emitError()
             << "options disk-part and disk-buffers are " << diskPart.getValue()
             << " and " << diskBuffers.getValue()
             << ", expected 1 to 2^40 and 1 to " << mostBuffers;
    shared.diskPart = llvm::alignTo(diskPart.getValue(), kDiskBlock);
    shared.diskBuffers = diskBuffers;
    for (auto state : module.getOps<train::StateOp>())
      if (state.getSpace() == train::Space::Nvme)
        module->setAttr(kDiskAlignmentAttr,
                        Builder(module).getI64IntegerAttr(kDiskBlock));
    return success();
  }

  /// Says on the module how fast its machine is.
  LogicalResult setRates(int64_t ranks) {
    ModuleOp module = getOperation();
    Rates known = defaultRates(isForCuda(module), ranks);
    if (!rates.empty()) {
      std::string message;
      auto given = parseRates(rates, known, message);
      if (!given)
        return module.emitError() << "option rates: " << message;
      known = *given;
    }
    module->setAttr(kRatesAttr,
                    Builder(module).getStringAttr(printRates(known)));
    return success();
  }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    if (failed(setTarget()))
      return signalPassFailure();
    // The axis of the buckets says how many ranks run the program.
    int64_t ranks = 1;
    comm::BucketOp first;
    for (auto bucket : module.getOps<comm::BucketOp>()) {
      first = first ? first : bucket;
      ranks = first.getAxis().getSize();
      if (bucket.getAxis() == first.getAxis())
        continue;
      bucket.emitOpError() << "lies over " << bucket.getAxis() << ", but @"
                           << first.getSymName() << " over " << first.getAxis();
      return signalPassFailure();
    }
    module->setAttr(kRanksAttr, Builder(module).getI64IntegerAttr(ranks));
    if (failed(setRates(ranks)))
      return signalPassFailure();

    ModuleLowering shared(module);
    if (failed(setFiles(shared)))
      return signalPassFailure();
    if (failed(shared.declareStates()))
      return signalPassFailure();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      SmallVector<std::pair<std::string, bool>> programs;
      StringRef name = function.getSymName();
      if (name == train::kMicroStep)
        programs = {{"micro_first", false}, {"micro_next", true}};
      else if (name == train::kEvalStep)
        programs = {{"eval_first", false}, {"eval_next", true}};
      else if (name == train::kApplyStep)
        programs = {{"apply", false}};
      if (programs.empty()) {
        function.emitOpError()
            << "is no program; expected " << train::kMicroStep << ", "
            << train::kApplyStep << " or " << train::kEvalStep;
        return signalPassFailure();
      }
      for (auto &[programName, adds] : programs)
        if (failed(ProgramLowering(shared, function, programName, adds).run()))
          return signalPassFailure();
    }
    for (func::FuncOp function : functions)
      function.erase();
  }
};
} // namespace
} // namespace ciuic::sched
