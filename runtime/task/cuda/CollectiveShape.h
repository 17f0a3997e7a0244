//===- CollectiveShape.h - What a collective moves --------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_COLLECTIVESHAPE_H
#define CIUIC_RUNTIME_TASK_CUDA_COLLECTIVESHAPE_H

#include "runtime/task/cuda/DeviceTask.h"

namespace ciuic::rt {

/// The checked sizes of a collective, the same on all ranks.
struct CollectiveShape {
  abi::TaskKind kind;
  abi::DType dtype;
  uint64_t chunk; ///< Elements of a rank's part; of an all-reduce, all.
  bool mean;
};

/// Code::Invalid unless there are two dense views of one type for each of
/// `local` ranks, in the proportion that the kind asks for.
Result<CollectiveShape> checkCollective(const DeviceTaskArguments &arguments,
                                        uint32_t local);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_COLLECTIVESHAPE_H
