//===- CudaKernel.h - A kernel as a CUDA function ---------------*- C++ -*-===//
//
// One skeleton a form (KernelForm.h). In all of them a pass over columns is
// printed by printColumns: vectors are loaded, their lanes computed one after
// the other in an unrolled loop, and vectors of results stored. Columns are in
// CudaColumns.cpp, skeletons in CudaKernel.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_CODEGEN_CUDAKERNEL_H
#define CIUIC_PASSES_CODEGEN_CUDAKERNEL_H

#include "passes/Codegen/KernelForm.h"
#include "passes/Codegen/KernelText.h"

#include <set>

namespace ciuic::codegen {

class CudaKernel : KernelText {
public:
  CudaKernel(sched::KernelOp kernel, llvm::raw_ostream &os)
      : KernelText(kernel, Language::Cuda, os) {}
  llvm::LogicalResult print();

private:
  /// An element of a memref, with its induction variable left out: the same in
  /// all passes over a row.
  using Place = std::pair<const void *, Linear>;

  /// Where the columns of one pass are.
  struct Columns {
    mlir::Block *body;
    Value induction;
    int vector;          ///< Columns at a time.
    std::string element; ///< Index of the first one, if it is no IR's; else "".
  };

  void printHead();
  void printSentence(llvm::StringRef text);
  void printSignature();
  llvm::LogicalResult printFlat();
  llvm::LogicalResult printRows();
  llvm::LogicalResult printNest();
  llvm::LogicalResult printGeneral();
  void printAlignmentCheck();
  void printLauncher();

  llvm::LogicalResult printPass(mlir::scf::ForOp loop);
  llvm::LogicalResult printColumns(const Columns &columns);
  llvm::LogicalResult
  loadColumns(const Columns &columns,
              llvm::function_ref<bool(mlir::memref::LoadOp)> wanted);
  llvm::LogicalResult hoistInvariants(mlir::Block &body, Value induction);
  llvm::LogicalResult printLane(Operation &op, const Columns &columns);
  llvm::LogicalResult printGeneralOp(Operation &op);
  llvm::LogicalResult printGeneralLoop(mlir::scf::ForOp loop);
  void openSum(mlir::scf::ForOp loop);
  void closeSum(mlir::scf::ForOp loop, llvm::StringRef function);
  void planHeld();
  void openChunks(const std::string &column);
  void closeChunks();

  static Place placeOf(const Access &access, Value induction) {
    Linear element = access.element;
    element.terms.erase(induction.getAsOpaquePointer());
    return {access.memref.getAsOpaquePointer(), element};
  }
  /// An op that computes an index, which is no constant.
  static bool isIndex(Operation &op) {
    return op.getNumResults() == 1 && op.getResult(0).getType().isIndex() &&
           !llvm::isa<mlir::arith::ConstantOp>(op);
  }
  /// The element as a pointer's offset or an index has it.
  std::string elementText(Operation *op, const Columns &columns);
  std::string typeOf(Value memref) {
    llvm::StringRef type =
        types[llvm::cast<mlir::BlockArgument>(memref).getArgNumber() - 1];
    type.consume_front("const ");
    return type.str();
  }
  bool is16Bit(Value memref) {
    return llvm::cast<mlir::MemRefType>(memref.getType())
               .getElementTypeBitWidth() == 16;
  }
  /// Whether rows are cut into as many vectors as the threads hold.
  bool fillsThreads() const {
    return int64_t{form.perRow} * form.chunks * form.vector == form.columns;
  }

  KernelForm form;
  llvm::DenseSet<Value> moving; ///< Memrefs whose element depends on a loop.
  /// Values that a thread keeps between passes, by place: their array.
  std::map<Place, std::string> held;
  /// Their memrefs and arrays in the order in which they are declared: that of
  /// `held` is by address, another one in each run.
  llvm::SmallVector<std::pair<Value, std::string>> heldArrays;
  int64_t rowRegisters = 0; ///< Of a thread, for what it loads of a row.
  /// Those that are one for all rows, and a load of each.
  llvm::SmallVector<std::pair<std::string, mlir::memref::LoadOp>>
      heldAcrossRows;
  /// Held values that have been loaded by a pass of this row.
  std::set<Place> known;
  /// Of the pass being printed: vectors of loads, lanes of stores.
  std::map<Place, std::string> vectors, lanes;
};

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_CUDAKERNEL_H
