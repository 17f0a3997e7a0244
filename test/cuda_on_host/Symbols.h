//===- Symbols.h - Names of functions ---------------------------*- C++ -*-===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_SYMBOLS_H
#define CIUIC_TEST_CUDA_ON_HOST_SYMBOLS_H

#include <string>

namespace ciuic::onhost {

/// The name of a function of a loaded file, also of a local one if the file
/// has its symbols; "" if there is none. Without parameters.
std::string nameOfFunction(const void *function);

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_SYMBOLS_H
