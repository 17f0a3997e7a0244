//===- EmbeddedHeaders.h - Headers that bundles carry -----------*- C++ -*-===//
#ifndef CIUIC_PASSES_CODEGEN_EMBEDDEDHEADERS_H
#define CIUIC_PASSES_CODEGEN_EMBEDDEDHEADERS_H

#include <string_view>

namespace ciuic::codegen {

/// A header of this repository as the compiler was built with it.
struct EmbeddedHeader {
  std::string_view path; ///< "runtime/abi/Program.h"
  std::string_view text;
};

/// Made by CMake; the last one has an empty path.
extern const EmbeddedHeader embeddedHeaders[];

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_EMBEDDEDHEADERS_H
