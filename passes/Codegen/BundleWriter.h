//===- BundleWriter.h - Writes and builds a bundle --------------*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_BUNDLEWRITER_H
#define CIUIC_PASSES_CODEGEN_BUNDLEWRITER_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/Codegen/ProgramPrinter.h"
#include "llvm/Support/JSON.h"

namespace ciuic::codegen {

/// A file of the bundle: path inside it, and text.
struct BundleFile {
  std::string path;
  std::string text;
};

struct BundleOptions {
  std::string folder;            ///< Where the bundle goes.
  JobFacts facts;                ///< facts.isa is chosen here if empty.
  llvm::json::Object manifest;   ///< Entries besides the writer's own.
  std::vector<BundleFile> extra; ///< IR of the phases, the model's config.
  bool build = true;             ///< Compile `lib/libjob.so` (BundleBuild.h).
};

/// Prints the sources and the plan of an allocated module, compiles the
/// library, and puts all of it at `folder` in one step: a failed write leaves
/// what was there. An existing folder that is no bundle is refused. Errors are
/// emitted on the module; a bundle for CUDA that no nvcc is there to compile
/// is written with a remark that says how to build it.
llvm::LogicalResult writeBundle(mlir::ModuleOp module, BundleOptions options);

/// The best instruction set level of this machine that bundles are built
/// for: "x86-64-v4", "x86-64-v3", or "" (the compiler's default).
std::string hostIsa();

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_BUNDLEWRITER_H
