//===- Layout.h - Tensors by the names that users know ----------*- C++ -*-===//
//
// However a module lays its state out, whole or in buckets, on one rank or
// sharded, each tensor has one name: a parameter its Hugging Face name `P`,
// what belongs to it `P.grad`, `P.master` or `P.<slot>` (P.exp_avg), all else
// the name of its state.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_ORACLE_LAYOUT_H
#define CIUIC_TOOLS_ORACLE_LAYOUT_H

#include "tools/oracle/Interpreter.h"

namespace ciuic::oracle {

struct NamedTensor {
  std::string name;
  train::Role role;
  /// Of a parameter and what belongs to it: the parameter's declaration.
  train::StateOp parameter;
  /// The state that holds the elements, and the first one's place in it. That
  /// of a bucket is counted in the whole bucket, also where it is sharded.
  train::StateOp storage;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> shape;
  int64_t size = 0;

  Element element() const {
    return describe(train::StateOp(storage).getTensorType())->element;
  }
};

class Layout {
public:
  /// Emits an error at the state at fault and fails if the module's states do
  /// not fit together: a member outside of its bucket, a storage of another
  /// size than its bucket, two tensors of one name.
  static mlir::FailureOr<Layout> create(mlir::ModuleOp module);

  /// In the order of declaration, storage by storage.
  llvm::ArrayRef<NamedTensor> tensors() const { return list; }
  /// Null if there is none of that name.
  const NamedTensor *find(llvm::StringRef name) const;

  /// The elements of a tensor. A gradient held whole is the mean over ranks,
  /// as it will be reduced; a metric their sum; all else rank 0's.
  static std::vector<double> get(const Interpreter &interpreter,
                                 const NamedTensor &tensor);

  /// Stores elements, rounded to the storage's type, on all ranks that hold
  /// them.
  static void set(Interpreter &interpreter, const NamedTensor &tensor,
                  llvm::ArrayRef<double> elements);

private:
  mlir::LogicalResult add(NamedTensor tensor);

  std::vector<NamedTensor> list;
  llvm::StringMap<size_t> byName;
};

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_LAYOUT_H
