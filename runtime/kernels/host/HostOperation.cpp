//===- HostOperation.cpp - Tasks that need no library ---------------------===//
#include "runtime/kernels/host/Operations.h"

namespace ciuic::rt {

Result<OperationPtr> makeHostOperation(const TaskArguments &arguments) {
  using abi::TaskKind;
  switch (arguments.kind) {
  case TaskKind::Launch:
    return makeLaunch(arguments);
  case TaskKind::AttentionForward:
    return makeAttentionForward(arguments);
  case TaskKind::AttentionBackward:
    return makeAttentionBackward(arguments);
  case TaskKind::Embedding:
    return makeEmbedding(arguments);
  case TaskKind::EmbeddingGrad:
    return makeEmbeddingGrad(arguments);
  case TaskKind::CrossEntropy:
    return makeCrossEntropy(arguments);
  case TaskKind::CrossEntropyGrad:
    return makeCrossEntropyGrad(arguments);
  case TaskKind::ColumnSum:
    return makeColumnSum(arguments);
  case TaskKind::NormWeightGrad:
    return makeNormWeightGrad(arguments);
  case TaskKind::Copy:
    return makeCopy(arguments);
  case TaskKind::Zero:
    return makeZero(arguments);
  case TaskKind::Accumulate:
    return makeAccumulate(arguments);
  case TaskKind::SquareSum:
    return makeSquareSum(arguments);
  case TaskKind::SumSlots:
    return makeSumSlots(arguments);
  case TaskKind::GradScale:
    return makeGradScale(arguments);
  case TaskKind::LearningRate:
    return makeLearningRate(arguments);
  case TaskKind::Advance:
    return makeAdvance(arguments);
  case TaskKind::UpdateLossScale:
    return makeUpdateLossScale(arguments);
  case TaskKind::Adam:
    return makeAdam(arguments);
  case TaskKind::Sgd:
    return makeSgd(arguments);
  case TaskKind::CrossEntropyWithGrad:
    return makeCrossEntropyWithGrad(arguments);
  case TaskKind::Gemm:
  case TaskKind::AllGather:
  case TaskKind::ReduceScatter:
  case TaskKind::AllReduce:
    return Status::invalid("products and collectives need a library");
  }
  return Status::invalid("unknown kind of task");
}

} // namespace ciuic::rt
