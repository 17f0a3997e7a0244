//===- Interpreter.h - Runs functions on all ranks at once ------*- C++ -*-===//
//
// All ranks advance op by op together, so a collective finds all its inputs
// ready. The state of a module lives here between calls: reads see it as it
// was when the function was entered, writes take effect when it returns.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_ORACLE_INTERPRETER_H
#define CIUIC_TOOLS_ORACLE_INTERPRETER_H

#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tools/oracle/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace ciuic::oracle {

/// Registers the dialects of the modules that can run.
void registerDialects(mlir::DialectRegistry &registry);

/// More ranks than these are refused.
inline constexpr int64_t kMaxRanks = 1024;

struct InterpreterOptions {
  /// Compute in f64 throughout: no result is rounded to its type.
  bool exact = false;
  /// Ranks; 0: as many as the axis of the module's comm ops has, or 1.
  int64_t ranks = 0;
};

class Interpreter {
public:
  /// Checks that the module can run: ops, types and one mesh axis. Emits an
  /// error and fails otherwise. States start at zero.
  static mlir::FailureOr<Interpreter> create(mlir::ModuleOp module,
                                             const InterpreterOptions &options);

  mlir::ModuleOp getModule() const { return module; }
  int64_t ranks() const { return rankCount; }
  bool isExact() const { return exact; }

  /// Null if the module has no such function.
  mlir::func::FuncOp find(llvm::StringRef function) const;

  /// Runs `function`; `arguments` and results have a tensor on each rank.
  mlir::FailureOr<std::vector<RankValues>>
  call(mlir::func::FuncOp function, llvm::ArrayRef<RankValues> arguments);

  /// The value of a state on each rank.
  const RankValues &state(llvm::StringRef name) const {
    return states.find(name)->second;
  }
  /// The value of a state on one rank, to be changed.
  std::vector<double> &edit(llvm::StringRef name, int64_t rank);
  /// Sets every element of a state on every rank.
  void fill(llvm::StringRef name, double value);

  /// Is shown every op outside of recompute regions and its results.
  std::function<void(mlir::Operation *, llvm::ArrayRef<RankValues>)> observer;

private:
  using Environment = llvm::DenseMap<mlir::Value, RankValues>;

  Interpreter(mlir::ModuleOp module, bool exact, int64_t ranks)
      : module(module), exact(exact), rankCount(ranks) {}

  mlir::FailureOr<std::vector<RankValues>>
  runBlock(mlir::Block &block, llvm::ArrayRef<RankValues> arguments);
  mlir::LogicalResult runOp(mlir::Operation *op, Environment &environment);
  mlir::FailureOr<std::vector<RankValues>>
  evaluate(mlir::Operation *op, llvm::ArrayRef<RankValues> operands);
  void accumulate(llvm::StringRef state, const RankValues &value);

  mlir::ModuleOp module;
  bool exact;
  int64_t rankCount;
  llvm::StringMap<RankValues> states;
  llvm::StringMap<RankValues> written; ///< By the call that is running.
  int regionDepth = 0;
};

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_INTERPRETER_H
