//===- Passes.h - Passes over the comm dialect ------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_PASSES_H
#define CIUIC_PASSES_COMM_PASSES_H

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include <limits>

namespace ciuic::comm {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Comm/Passes.h.inc"

/// What a remark of these passes is called and filed under.
inline mlir::remark::RemarkOpts commRemark(llvm::StringRef name) {
  return mlir::remark::RemarkOpts::name(name).category("comm");
}

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_PASSES_H
