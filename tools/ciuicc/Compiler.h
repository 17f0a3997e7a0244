//===- Compiler.h - From a job to a bundle ----------------------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_COMPILER_H
#define CIUIC_TOOLS_CIUICC_COMPILER_H

#include "passes/Codegen/BundleWriter.h"
#include "passes/Pipelines/Phases.h"
#include "tools/ciuicc/Commands.h"

namespace ciuic::tool {

/// The passes' options for a resolved job.
PhaseOptions phaseOptions(const config::JobSettings &job,
                          const CompileOptions &options);

/// The GPUs that a bundle for CUDA is made for: "sm_80,sm_90a".
std::string architecturesOf(const CompileOptions &options);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_COMPILER_H
