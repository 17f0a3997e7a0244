//===- EmbeddedFiles.h - Sources that bundles carry -------------*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_EMBEDDEDFILES_H
#define CIUIC_PASSES_CODEGEN_EMBEDDEDFILES_H

#include <string_view>

namespace ciuic::codegen {

/// A file of this repository as the compiler was built with it.
struct EmbeddedFile {
  std::string_view path; ///< "runtime/abi/Program.h"
  std::string_view text;
  /// Emitted code includes it on every target; others are the runtime that a
  /// bundle for CUDA is built with.
  bool always;
};

/// Made by CMake; the last one has an empty path.
extern const EmbeddedFile embeddedFiles[];

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_EMBEDDEDFILES_H
