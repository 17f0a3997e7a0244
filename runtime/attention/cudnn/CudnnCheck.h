//===- CudnnCheck.h - cuDNN against the task's own kernels ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNCHECK_H
#define CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNCHECK_H

#include "runtime/attention/cudnn/CudnnAttention.h"

namespace ciuic::rt {

/// Runs an attention task on made-up inputs by its own launcher and by cuDNN
/// and compares what they write: a library that reads strides or statistics
/// in another way must not train a model. Overwrites all views of the task and
/// its scratch, and waits for the stream of `task`. Once a shape, before the
/// first step, with the task's device current.
Status checkCudnnTask(const CudnnTask &cudnn, abi::TaskKind kind,
                      const abi::CudaLaunch &task, abi::CudaLaunchFn own);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_ATTENTION_CUDNN_CUDNNCHECK_H
