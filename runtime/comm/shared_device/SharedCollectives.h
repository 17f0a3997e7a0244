//===- SharedCollectives.h - Collectives of ranks on one GPU ----*- C++ -*-===//
//
// Ranks that share a device exchange by copies and sums on it: one task for
// all of them, on the stream of the first, which the others' streams wait for.
// Values are added in rank order in f32 and rounded once, as on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_SHARED_DEVICE_SHAREDCOLLECTIVES_H
#define CIUIC_RUNTIME_COMM_SHARED_DEVICE_SHAREDCOLLECTIVES_H

#include "runtime/task/cuda/DeviceTask.h"

namespace ciuic::rt {

/// Code::Invalid where views do not fit; `reduce` is the bundle's, null for a
/// job of one rank.
Result<DeviceTaskPtr> makeSharedCollective(const DeviceTaskArguments &arguments,
                                           abi::CudaReduceFn reduce);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_SHARED_DEVICE_SHAREDCOLLECTIVES_H
