//===- BundleBuild.h - Compiles the sources of a bundle ---------*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_BUNDLEBUILD_H
#define CIUIC_PASSES_CODEGEN_BUNDLEBUILD_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace ciuic::codegen {

/// Flags for emitted C++. Never -ffast-math: it deletes the checks for inf and
/// NaN.
llvm::ArrayRef<const char *> hostFlags();

/// The architectures of a bundle, "sm_80,sm_90a", as CMake takes them
/// ("80;90a-real"): code for each and, where nothing ties it to one GPU, the
/// form of it that newer GPUs can be given.
std::string cmakeArchitectures(llvm::StringRef list);

/// What came of a build.
struct BuildResult {
  std::string error; ///< What went wrong; empty if nothing did.
  bool built = true; ///< False, without an error, where a compiler is missing.
};

/// Compiles `lib/libjob.so` of the bundle at `folder` with the system's C++
/// compiler (CIUIC_CXX, else the first of clang++-22, clang++, g++, c++ on the
/// path).
BuildResult buildForCpu(const std::string &folder, const std::string &isa);

/// The same for CUDA with nvcc (CIUIC_NVCC, else nvcc on the path) and g++ (or
/// what NVCC_CCBIN names), as many files at once as there are processors.
BuildResult buildForCuda(const std::string &folder,
                         const std::string &architectures,
                         const std::string &isa);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_BUNDLEBUILD_H
