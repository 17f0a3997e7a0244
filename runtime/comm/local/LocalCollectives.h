//===- LocalCollectives.h - Collectives within one process ------*- C++ -*-===//
//
// One operation serves all ranks: it runs when every rank has reached it, and
// reads and writes their memories directly. Values are added in rank order
// (16-bit ones in f32) and rounded once, so that every rank gets the same bits
// in every run.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_LOCAL_LOCALCOLLECTIVES_H
#define CIUIC_RUNTIME_COMM_LOCAL_LOCALCOLLECTIVES_H

#include "runtime/kernels/host/Operation.h"

namespace ciuic::rt {

// `arguments.views` has those of rank 0, then those of rank 1, and so on.
Result<OperationPtr> makeAllGather(const TaskArguments &arguments);
Result<OperationPtr> makeReduceScatter(const TaskArguments &arguments);
Result<OperationPtr> makeAllReduce(const TaskArguments &arguments);

/// Ranks that a sum may have.
inline constexpr uint32_t mostReducedRanks = 1024;

/// out[i] = factor * (parts[0][i] + parts[1][i] + ...), added in this order in
/// f32 (f64 for f64) and rounded once.
void reduceParts(abi::DType dtype, const void *const *parts, int64_t ranks,
                 void *out, int64_t n, double factor);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_LOCAL_LOCALCOLLECTIVES_H
