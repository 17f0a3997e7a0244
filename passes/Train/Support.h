//===- Support.h - What the train passes share ------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_TRAIN_SUPPORT_H
#define CIUIC_PASSES_TRAIN_SUPPORT_H

#include "dialect/Train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include <string>

namespace ciuic::train {

/// The options of a remark of these passes.
inline mlir::remark::RemarkOpts trainRemark(llvm::StringRef name) {
  return mlir::remark::RemarkOpts::name(name).category("train");
}

/// The user's name at a location: that of its outermost NameLoc, else "".
llvm::StringRef nameAt(mlir::Location loc);

/// "'op.name'", followed by " (layers.0.mlp)" where its location has a name.
std::string describe(mlir::Operation *op);

/// Whether an op works element by element: `arith`, `math` and sigmoid.
bool isPointwise(mlir::Operation *op);

/// All states of a module, in its order.
llvm::SmallVector<StateOp> statesOf(mlir::ModuleOp module);

/// The function of a role by name; emits at the module if there is none or if
/// it is not one block with a body. `expected` says what would have made it.
mlir::FailureOr<mlir::func::FuncOp> lookupFunction(mlir::ModuleOp module,
                                                   llvm::StringRef name,
                                                   llvm::StringRef expected);

/// The functions of a differentiated module.
struct StepFunctions {
  mlir::func::FuncOp micro, apply, eval;
};

/// All of them, or what lookupFunction emits of the first that is missing.
mlir::FailureOr<StepFunctions> lookupSteps(mlir::ModuleOp module);

/// Declares states of a module, each after those that are there already.
class StateDeclarer {
public:
  explicit StateDeclarer(mlir::ModuleOp module);

  /// Declares `name` with a constant initialiser, or emits at `loc` that the
  /// name is taken. `of` is empty where the role has none, so is `slot`.
  mlir::FailureOr<StateOp> declare(mlir::Location loc, Role role,
                                   llvm::StringRef name, llvm::StringRef of,
                                   llvm::StringRef slot, mlir::Type type,
                                   double value);

  /// The same with any initialiser.
  mlir::FailureOr<StateOp> declare(mlir::Location loc, Role role,
                                   llvm::StringRef name, llvm::StringRef of,
                                   llvm::StringRef slot, mlir::Type type,
                                   mlir::Attribute init);

private:
  mlir::OpBuilder builder;
  mlir::SymbolTable symbols;
};

/// A constant of `type`, a float tensor, all of whose elements are `value`.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type,
                  double value);

/// Bytes as people read them: "512 bytes", "1.50 MiB".
std::string formatBytes(int64_t bytes);

} // namespace ciuic::train

#endif // CIUIC_PASSES_TRAIN_SUPPORT_H
