//===- Initialise.h - The state before the first step -----------*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_INITIALISE_H
#define CIUIC_TOOLS_ORACLE_INITIALISE_H

#include "tools/oracle/Layout.h"

namespace ciuic::oracle {

/// The elements that a symbolic initialiser gives a tensor of `name` and
/// `shape`. Normal numbers are those of f32, so that every precision starts
/// from the same values; tables come in double.
std::vector<double> initialValues(mlir::Attribute init, llvm::StringRef name,
                                  llvm::ArrayRef<int64_t> shape, uint64_t seed);

/// Gives every state its initial value. Parameters depend on seed, name and
/// element alone, not on the layout; a master copy starts as its parameter
/// before that was rounded. Padding is zero.
void initialise(Interpreter &interpreter, const Layout &layout, uint64_t seed);

/// Sets a parameter and, if there is one, its master copy.
void setParameter(Interpreter &interpreter, const Layout &layout,
                  const NamedTensor &parameter,
                  llvm::ArrayRef<double> elements);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_INITIALISE_H
