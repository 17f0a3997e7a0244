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

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_LOCAL_LOCALCOLLECTIVES_H
