//===- KernelPrinter.h - Prints kernel bodies as C++ or CUDA ----*- C++ -*-===//
//
// Upstream EmitC cannot carry these kernels (no rsqrt, no 16-bit literals that
// g++ takes, values named v1...), so this prints scf, arith, math and memref
// itself. An op it does not know is a hard error: nothing is guessed.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_CODEGEN_KERNELPRINTER_H
#define CIUIC_PASSES_CODEGEN_KERNELPRINTER_H

#include "dialect/Sched/Sched.h"
#include "llvm/Support/raw_ostream.h"

namespace ciuic::codegen {

enum class Language {
  Cpp,  ///< A function over a range of rows; loops vectorise.
  Cuda, ///< A `__global__` function and its launcher: see KernelForm.h.
};

/// Prints `kernel` as one function named after it, and for CUDA another one,
/// `launch_<name>`, that enqueues it for a task. Emits an error at the op
/// that has no form in `language`.
llvm::LogicalResult printKernel(sched::KernelOp kernel, Language language,
                                llvm::raw_ostream &os);

} // namespace ciuic::codegen

#endif // CIUIC_PASSES_CODEGEN_KERNELPRINTER_H
