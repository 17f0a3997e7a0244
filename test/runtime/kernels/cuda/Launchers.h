//===- Launchers.h - Every device kernel, by kind and types -----*- C++ -*-===//
#ifndef CIUIC_TEST_RUNTIME_KERNELS_CUDA_LAUNCHERS_H
#define CIUIC_TEST_RUNTIME_KERNELS_CUDA_LAUNCHERS_H

#include "runtime/abi/Program.h"

namespace ciuic::cuda::test {

/// The launcher of a kind for its types: of the input, then of the output
/// where that may differ. Of an update, `first` is the type of the copy in 16
/// bits, or F32 for none. Null: not instantiated here.
abi::CudaLaunchFn launcherOf(abi::TaskKind kind, abi::DType first,
                             abi::DType second);

/// Sums and means of ranks that share a device.
abi::CudaReduceFn reduceLauncher();

} // namespace ciuic::cuda::test

#endif // CIUIC_TEST_RUNTIME_KERNELS_CUDA_LAUNCHERS_H
