//===- CudaMachine.h - GPUs that run a bundle -------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_CUDAMACHINE_H
#define CIUIC_RUNTIME_TASK_CUDA_CUDAMACHINE_H

#include "runtime/task/Machine.h"

#include <memory>
#include <string>

namespace ciuic::rt {

/// What is rarely set besides the options.
struct CudaSettings {
  /// The device of this process's first rank: where several processes run on
  /// one box, each has its own.
  int firstDevice = 0;
  bool tf32 = false; ///< Products of f32 may round their inputs to TF32.
  /// After a failure, a collective's timeout say: seconds until the process is
  /// ended from within, if it does not end by itself.
  double exitGrace = 30;
  std::string cudnn = {}; ///< The library; empty: the usual one.
};

/// One process drives the devices of its ranks, each from a thread of its own.
class CudaMachine : public Machine {
public:
  /// Checks devices and libraries against the bundle, allocates its memory and
  /// prepares its programs. Products are done as `tuning/gemm.json` of the
  /// bundle's folder says, which tuning adds to.
  static Result<std::unique_ptr<CudaMachine>>
  create(const abi::Bundle &bundle, const MachineOptions &options,
         const CudaSettings &settings = {});
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_CUDAMACHINE_H
