//===- Operations.h - Prepared tasks that use no library --------*- C++ -*-===//
//
// One function a task kind: what views and numbers it takes is written in
// runtime/abi/Program.h.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_OPERATIONS_H
#define CIUIC_RUNTIME_KERNELS_HOST_OPERATIONS_H

#include "runtime/kernels/host/Operation.h"

namespace ciuic::rt {

/// Prepares a task of any kind but products and collectives, which need a
/// library: for these Code::Invalid.
Result<OperationPtr> makeHostOperation(const TaskArguments &arguments);

// Copies and sums: MoveOperations.cpp.
Result<OperationPtr> makeLaunch(const TaskArguments &arguments);
Result<OperationPtr> makeCopy(const TaskArguments &arguments);
Result<OperationPtr> makeZero(const TaskArguments &arguments);
Result<OperationPtr> makeAccumulate(const TaskArguments &arguments);
Result<OperationPtr> makeSquareSum(const TaskArguments &arguments);
Result<OperationPtr> makeSumSlots(const TaskArguments &arguments);
Result<OperationPtr> makeColumnSum(const TaskArguments &arguments);
Result<OperationPtr> makeNormWeightGrad(const TaskArguments &arguments);

// Tokens, labels and attention: ModelOperations.cpp.
Result<OperationPtr> makeEmbedding(const TaskArguments &arguments);
Result<OperationPtr> makeEmbeddingGrad(const TaskArguments &arguments);
Result<OperationPtr> makeCrossEntropy(const TaskArguments &arguments);
Result<OperationPtr> makeCrossEntropyGrad(const TaskArguments &arguments);
Result<OperationPtr> makeCrossEntropyWithGrad(const TaskArguments &arguments);
Result<OperationPtr> makeAttentionForward(const TaskArguments &arguments);
Result<OperationPtr> makeAttentionBackward(const TaskArguments &arguments);

// The update: UpdateOperations.cpp.
Result<OperationPtr> makeGradScale(const TaskArguments &arguments);
Result<OperationPtr> makeLearningRate(const TaskArguments &arguments);
Result<OperationPtr> makeAdvance(const TaskArguments &arguments);
Result<OperationPtr> makeUpdateLossScale(const TaskArguments &arguments);
Result<OperationPtr> makeAdam(const TaskArguments &arguments);
Result<OperationPtr> makeSgd(const TaskArguments &arguments);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_OPERATIONS_H
