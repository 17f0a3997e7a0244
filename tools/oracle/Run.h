//===- Run.h - Training steps on the oracle ---------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_RUN_H
#define CIUIC_TOOLS_ORACLE_RUN_H

#include "runtime/base/Json.h"
#include "tools/oracle/Batches.h"
#include "tools/oracle/Layout.h"
#include "tools/oracle/TensorFile.h"

namespace ciuic::oracle {

/// Whether a function takes tokens and labels, BxT ids each.
bool takesBatch(mlir::func::FuncOp function);

/// A module with its state, ready to take steps.
class Run {
public:
  /// Emits errors in the module at their ops. The states are initialised from
  /// `seed`.
  static mlir::FailureOr<Run> create(mlir::ModuleOp module,
                                     const InterpreterOptions &options,
                                     uint64_t seed);

  Interpreter &interpreter() { return machine; }
  const Layout &layout() const { return names; }

  /// A function (tokens, labels) of the module that a batch can be given to:
  /// @micro_step, @forward or @eval_step; null if there is none.
  mlir::func::FuncOp batchFunction() const;
  bool canTrain() const {
    return machine.find(train::kMicroStep) && machine.find(train::kApplyStep);
  }

  /// The module's share of a global batch. The micro-steps are `microSteps`,
  /// or where that is 0, what the loss is divided by in @apply_step; 1 if
  /// nothing says. Fails if no function takes a batch.
  rt::Result<BatchGeometry> geometry(int64_t microSteps) const;
  /// The same for a function that takes a batch.
  rt::Result<BatchGeometry> geometryOf(mlir::func::FuncOp function,
                                       int64_t microSteps) const;

  /// Token slots of a global batch by which gradients are divided.
  double slots(const BatchGeometry &geometry) const;

  /// Ids that every table and loss of the module can take; 0: no table.
  int64_t vocabulary() const;

  /// All micro-steps of one step, and @apply_step if `apply`. The result has
  /// `loss` (the mean over labelled tokens, from the metric or report) and the
  /// module's `report.*` scalars. After @apply_step all ranks must agree on
  /// what they all hold.
  rt::Result<rt::OrderedJson> trainStep(const Batches &batches, int64_t step,
                                        int64_t microSteps, bool apply);

  /// One step's micro-batches through @forward or @eval_step, or through
  /// @micro_step where the module has neither; changes no state that lasts.
  struct Loss {
    double sum = 0.0;
    double count = 0.0;
    double mean() const { return sum / std::max(count, 1.0); }
  };
  rt::Result<Loss> evaluate(const Batches &batches, int64_t step,
                            int64_t microSteps);

  /// What turns the gradients of a step into those of the mean loss over its
  /// labelled tokens: undoes the loss scale and the division by slots.
  double meanFactor(const BatchGeometry &geometry) const;

  /// The loss scale with which the last step ran; 1 without one.
  double stepScale() const { return scale; }

  /// Begins a step: sets gradients and metrics to what they start with.
  void clearSums();

  /// Runs a function by name.
  rt::Result<std::vector<RankValues>>
  call(llvm::StringRef function, llvm::ArrayRef<RankValues> arguments);

  /// A metric or scalar by name, if the module has it.
  std::optional<double> number(llvm::StringRef name) const;

  /// Fails naming a state that all ranks hold whole but do not agree on.
  rt::Status checkReplicas() const;

private:
  Run(Interpreter machine, Layout names)
      : machine(std::move(machine)), names(std::move(names)) {}

  Interpreter machine;
  Layout names;
  double scale = 1.0;
};

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_RUN_H
