//===- Compiler.h - From a job to a bundle ----------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_COMPILER_H
#define CIUIC_TOOLS_CIUICC_COMPILER_H

#include "frontend/model/ModelConfig.h"
#include "passes/Analysis/HostPhases.h"
#include "passes/Codegen/BundleWriter.h"
#include "passes/Pipelines/Phases.h"
#include "tools/ciuicc/Commands.h"

namespace ciuic::tool {

/// The passes' options for a resolved job.
PhaseOptions phaseOptions(const config::JobSettings &job,
                          const CompileOptions &options);

/// How the job is run, as its machine says.
sched::ProcessFacts processFactsOf(const CompileOptions &options);

/// What all processes of a job hold beside their arenas at most, if the
/// limits of `options` are for that too; else 0.
int64_t besideArenas(mlir::ModuleOp module, const CompileOptions &options);

/// Whose arena is larger than `options` allow, for IR that was allocated
/// before, under other limits: "does not fit: ..."; else empty.
std::string whatIsTooLarge(mlir::ModuleOp module,
                           const CompileOptions &options);

/// A sentence for each flag of the command line that changes nothing of this
/// job, and why.
std::vector<std::string> flagsWithoutEffect(const CompileOptions &options,
                                            const config::JobSettings &job);

/// Tokens a sequence.
int64_t sequenceOf(const CompileOptions &options,
                   const model::ModelConfig &model);

/// The IR as dumps hold it: the user's names in front, locations kept.
std::string printModule(mlir::ModuleOp module);

/// "12.3 GB"; without a unit "6.91 B" of anything.
std::string inUnits(double value, const char *unit);

/// The GPUs that a bundle for CUDA is made for: "sm_80,sm_90a".
std::string architecturesOf(const CompileOptions &options);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_COMPILER_H
