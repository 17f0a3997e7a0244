//===- MakeOperation.cpp - From a task's kind to what runs it -------------===//
#include "runtime/blas/Gemm.h"
#include "runtime/comm/local/LocalCollectives.h"
#include "runtime/kernels/host/Operations.h"

namespace ciuic::rt {

Result<OperationPtr> makeOperation(const TaskArguments &arguments) {
  switch (arguments.kind) {
  case abi::TaskKind::Gemm:
    return makeGemm(arguments);
  case abi::TaskKind::AllGather:
    return makeAllGather(arguments);
  case abi::TaskKind::ReduceScatter:
    return makeReduceScatter(arguments);
  case abi::TaskKind::AllReduce:
    return makeAllReduce(arguments);
  default:
    return makeHostOperation(arguments);
  }
}

} // namespace ciuic::rt
