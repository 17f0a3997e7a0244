//===- KernelForm.h - How a GPU's threads share a kernel's work -*- C++ -*-===//
//
// A kernel's body says what one row of its grid does. What its indices are
// tells how threads may share the work: an elementwise body needs no rows at
// all, a body with sums wants a warp or a block a row. Wherever addresses
// allow, a thread does a vector of neighbouring columns at a time.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_CODEGEN_KERNELFORM_H
#define CIUIC_PASSES_CODEGEN_KERNELFORM_H

#include "dialect/Sched/Sched.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

namespace ciuic::codegen {

/// An index as constant + sum of coefficient * symbol. Symbols are the row,
/// induction variables, and results of what is not linear.
struct Linear {
  int64_t constant = 0;
  std::map<const void *, int64_t> terms; ///< By symbol; none is 0.

  int64_t of(mlir::Value symbol) const {
    auto it = terms.find(symbol.getAsOpaquePointer());
    return it == terms.end() ? 0 : it->second;
  }
  bool operator==(const Linear &other) const = default;
  auto operator<=>(const Linear &other) const = default;
};

/// A place that a kernel loads or stores: a memref and the element in it.
struct Access {
  mlir::Value memref;
  Linear element;
  bool isStore = false;
};
Access accessOf(mlir::Operation *loadOrStore);

enum class Form {
  /// Element by element: all vectors of the tensors, in a grid-stride loop.
  Flat,
  /// Passes over the columns of a row: a warp or a block a row.
  Rows,
  /// A loop in a loop, such as heads and their columns: a thread does a vector
  /// of the inner loop and some iterations of the outer.
  Nest,
  /// Anything else: a block a row, whose threads share innermost loops.
  General,
};

struct KernelForm {
  Form form = Form::General;
  bool wide = false;      ///< Indices do not fit 32 bits.
  int vector = 1;         ///< Columns that a thread does at a time.
  int64_t columns = 1;    ///< Of a row; of Nest: of the inner loop.
  int64_t elements = 0;   ///< Flat: of each tensor.
  unsigned threads = 256; ///< Of a block.
  unsigned perRow = 0;    ///< Rows: threads that share a row.
  unsigned chunks = 0;    ///< Rows: vectors of a row a thread has; 0: it loops.
  unsigned outer = 1;     ///< Nest: iterations of the outer loop,
  unsigned groups = 1;    ///< which so many threads share.
  bool loadsStored = false; ///< Loads what it has stored.
};

/// Decides the form. Reads the tasks of the kernel's module: a vector is only
/// used where all of them start its operands at addresses that allow it.
KernelForm formOf(sched::KernelOp kernel);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_KERNELFORM_H
