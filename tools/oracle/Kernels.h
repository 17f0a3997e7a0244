//===- Kernels.h - What one op computes on one rank -------------*- C++ -*-===//
//
// A kernel is written for reading: plain loops in double, straight from the
// op's description. Ops are verified before they run, so shapes agree; only
// what depends on data (an id outside of its table) is checked.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_ORACLE_KERNELS_H
#define CIUIC_TOOLS_ORACLE_KERNELS_H

#include "mlir/IR/Operation.h"
#include "tools/oracle/Tensor.h"

namespace ciuic::oracle {

/// The operands of an op on one rank, and its results: typed, of full size and
/// zero. The caller rounds them afterwards.
struct Invocation {
  mlir::Operation *op;
  int64_t rank;
  llvm::ArrayRef<TensorRef> in;
  llvm::MutableArrayRef<Tensor> out;

  const Tensor &operand(unsigned index) const { return *in[index]; }
  double number(unsigned index) const { return in[index]->data[0]; }
};

/// Fails after emitting an error at the op.
using Kernel = llvm::LogicalResult (*)(const Invocation &);

// Each finds the kernel of an op of its family, or null.
Kernel findPointwiseKernel(mlir::Operation *op); ///< arith and math
Kernel findTensorKernel(mlir::Operation *op);    ///< train: forward, backward
Kernel findAttentionKernel(mlir::Operation *op); ///< rotary and attention
Kernel findUpdateKernel(mlir::Operation *op);    ///< train: optimizer step
Kernel findLayoutKernel(mlir::Operation *op);    ///< comm: no exchange

/// An op in which ranks meet: `inputs` has a tensor a rank, the results too.
/// Null where `op` is no collective.
using Collective = RankValues (*)(mlir::Operation *op, const RankValues &input);
Collective findCollective(mlir::Operation *op);

/// Whether the op's value depends on the rank even where operands do not.
bool dependsOnRank(mlir::Operation *op);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_KERNELS_H
