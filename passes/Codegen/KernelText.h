//===- KernelText.h - What C++ and CUDA kernels share -----------*- C++ -*-===//
//
// Names, types, literals and expressions of a kernel's body. CppKernel.cpp and
// CudaKernel.cpp put loops, loads and stores around them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_CODEGEN_KERNELTEXT_H
#define CIUIC_PASSES_CODEGEN_KERNELTEXT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Codegen/KernelPrinter.h"
#include "llvm/ADT/StringMap.h"

namespace ciuic::codegen {

/// The shape of a memref as a comment tells it: "4096x11008", "scalar".
std::string shapeText(mlir::Value memref);

/// Checks what both languages ask of a loop: a step of one and at most one
/// result, a plain f32 sum. Emits an error at what is not.
llvm::LogicalResult checkLoop(mlir::scf::ForOp loop);

/// A loop that holds no other: its iterations are independent but for a sum.
bool isInnermost(mlir::scf::ForOp loop);

class KernelText {
protected:
  KernelText(sched::KernelOp kernel, Language language, llvm::raw_ostream &os)
      : kernel(kernel), cuda(language == Language::Cuda), os(os) {}

  using Value = mlir::Value;
  using Operation = mlir::Operation;

  /// Names the memrefs in0..., out0...; fills `types`, const where only read.
  /// Emits an error at a type that kernels cannot hold.
  llvm::LogicalResult nameMemrefs();

  /// The type as it is written, in both languages.
  llvm::FailureOr<std::string> typeName(mlir::Type type, Operation *op);
  std::string literal(mlir::arith::ConstantOp constant);
  /// The row-major element that `indices` name: "row * 8 + j0".
  std::string indexText(Value memref, mlir::ValueRange indices);
  /// "in0[row * 8 + j0]"
  std::string address(Value memref, mlir::ValueRange indices);
  /// The text of an op without side effects.
  llvm::FailureOr<std::string> expression(Operation &op);
  /// Declares a constant with the value of `text` and names `value` after it.
  llvm::LogicalResult declare(Value value, const std::string &text);
  /// Names the result of a constant or of an op without side effects:
  /// declares it unless its text may stand in its only user.
  llvm::LogicalResult printPure(Operation &op);
  /// Whether `op`'s text may stand in its only user: pure and in its block.
  static bool isInlined(Operation &op);
  llvm::raw_ostream &line() { return os.indent(depth * 2); }
  std::string fresh(llvm::StringRef stem) {
    return (stem + llvm::Twine(counts[stem]++)).str();
  }
  Value row() { return kernel.getBody().front().getArgument(0); }
  mlir::Block::BlockArgListType memrefs() {
    return kernel.getBody().front().getArguments().drop_front();
  }

  sched::KernelOp kernel;
  bool cuda;
  llvm::raw_ostream &os;
  unsigned depth = 1;
  std::string indexType = "int64_t";
  llvm::SmallVector<std::string> types; ///< Of the memrefs' elements.
  llvm::DenseMap<Value, std::string> names;
  /// The f32 text of an inlined value of 16 bits before it is rounded.
  llvm::DenseMap<Value, std::string> unrounded;
  llvm::StringMap<int> counts;
};

/// The two skeletons.
llvm::LogicalResult printCppKernel(sched::KernelOp kernel,
                                   llvm::raw_ostream &os);
llvm::LogicalResult printCudaKernel(sched::KernelOp kernel,
                                    llvm::raw_ostream &os);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_KERNELTEXT_H
