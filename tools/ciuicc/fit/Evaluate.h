//===- Evaluate.h - What a job takes, by compiling it -----------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_FIT_EVALUATE_H
#define CIUIC_TOOLS_CIUICC_FIT_EVALUATE_H

#include "frontend/model/ModelConfig.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tools/ciuicc/Commands.h"
#include "tools/ciuicc/fit/Search.h"

#include <list>

namespace ciuic::fit {

/// Runs the phases of one job, up to `allocate`, under other and other
/// settings: from the latest phase that a setting changes, on a copy of what
/// came before. Prints nothing.
class Evaluator {
public:
  explicit Evaluator(const tool::CompileOptions &job);

  /// Reads the settings and the model as they are; false if that fails, and
  /// whoever compiles the job will say why.
  bool open();

  /// Whether what the file and the command line say agrees. A folder for
  /// files may lie ready.
  rt::Status checkGiven() const;

  const config::ResolvedConfig &resolved() const { return settings; }
  size_t firstPhase() const { return first; }
  bool ownsImport() const { return model.has_value(); }
  int64_t blocks() const { return model ? model->layers : 0; }

  /// What the job takes with `options`, which differ from the job's in
  /// settings alone.
  Outcome evaluate(const tool::CompileOptions &options);

  /// The IR after `place`; empty if it has none.
  std::string placed(const tool::CompileOptions &options);

private:
  using Module = mlir::OwningOpRef<mlir::ModuleOp>;
  struct Snapshot {
    std::string key; ///< All that was done to it.
    Module module;
  };

  rt::Result<config::ResolvedConfig>
  resolve(const tool::CompileOptions &options, bool overFile) const;
  std::optional<config::ResolvedConfig>
  resolve(const tool::CompileOptions &options, std::string &why) const;
  Module load(int64_t microBatch);
  Module runTo(size_t last, const tool::CompileOptions &options,
               const config::ResolvedConfig &resolved, std::string &why);
  void keep(std::string key, mlir::ModuleOp module);

  const tool::CompileOptions &job;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::string message; ///< The first error since it was cleared.
  size_t first = 1;
  std::optional<model::ModelConfig> model;
  config::ResolvedConfig settings;
  std::list<Snapshot> snapshots; ///< The last used is first.
};

} // namespace ciuic::fit

#endif // CIUIC_TOOLS_CIUICC_FIT_EVALUATE_H
