//===- Passes.h - Passes over the comm dialect ------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_PASSES_H
#define CIUIC_PASSES_COMM_PASSES_H

#include "mlir/IR/BuiltinOps.h"
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

/// Refuses a number of blocks, as an option gives it, below -1, which is all.
inline mlir::LogicalResult checkBlockCount(mlir::ModuleOp module,
                                           int64_t count) {
  if (count >= -1)
    return mlir::success();
  return module.emitError()
         << "option count is " << count
         << ", expected a number of blocks, or -1 for all of them";
}

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_PASSES_H
