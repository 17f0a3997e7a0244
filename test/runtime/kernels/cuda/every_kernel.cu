//===- every_kernel.cu - Instantiates the device kernels of tasks ---------===//
#include "test/runtime/kernels/cuda/Launchers.h"

#include "runtime/kernels/cuda/Columns.cuh"
#include "runtime/kernels/cuda/CrossEntropy.cuh"
#include "runtime/kernels/cuda/Embedding.cuh"
#include "runtime/kernels/cuda/Move.cuh"
#include "runtime/kernels/cuda/RankReduce.cuh"
#include "runtime/kernels/cuda/Scalars.cuh"
#include "runtime/kernels/cuda/Sums.cuh"
#include "runtime/kernels/cuda/Update.cuh"

namespace ciuic::cuda::test {
namespace {

template <cudaError_t (*launcher)(const abi::CudaLaunch &)>
int call(const abi::CudaLaunch &launch) {
  return launcher(launch);
}

} // namespace

// A launcher for each of the three types of data.
#define CIUIC_BY_TYPE(launcher, dtype)                                         \
  ((dtype) == abi::DType::F16    ? call<launcher<f16>>                         \
   : (dtype) == abi::DType::BF16 ? call<launcher<bf16>>                        \
                                 : call<launcher<float>>)

// The same for an output of another type; the same type or f32.
#define CIUIC_BY_TYPES(launcher)                                               \
  if (first == abi::DType::F32 && second == abi::DType::F32)                   \
    return call<launcher<float, float>>;                                       \
  if (first == abi::DType::BF16 && second == abi::DType::BF16)                 \
    return call<launcher<bf16, bf16>>;                                         \
  if (first == abi::DType::BF16 && second == abi::DType::F32)                  \
    return call<launcher<bf16, float>>;                                        \
  if (first == abi::DType::F16 && second == abi::DType::F16)                   \
    return call<launcher<f16, f16>>;                                           \
  if (first == abi::DType::F16 && second == abi::DType::F32)                   \
  return call<launcher<f16, float>>

abi::CudaLaunchFn launcherOf(abi::TaskKind kind, abi::DType first,
                             abi::DType second) {
  using abi::DType;
  using abi::TaskKind;
  switch (kind) {
  case TaskKind::Embedding:
    return CIUIC_BY_TYPE(launchEmbedding, first);
  case TaskKind::EmbeddingGrad:
    return CIUIC_BY_TYPE(launchEmbeddingGrad, first);
  case TaskKind::CrossEntropy:
    return CIUIC_BY_TYPE(launchCrossEntropy, first);
  case TaskKind::CrossEntropyGrad:
    return CIUIC_BY_TYPE(launchCrossEntropyGrad, first);
  case TaskKind::CrossEntropyWithGrad:
    return CIUIC_BY_TYPE(launchCrossEntropyWithGrad, first);
  case TaskKind::Accumulate:
    return CIUIC_BY_TYPE(launchAccumulate, first);
  case TaskKind::SquareSum:
    return CIUIC_BY_TYPE(launchSquareSum, first);
  case TaskKind::ColumnSum:
    CIUIC_BY_TYPES(launchColumnSum);
    return nullptr;
  case TaskKind::NormWeightGrad:
    CIUIC_BY_TYPES(launchNormWeightGrad);
    return nullptr;
  case TaskKind::Copy:
    CIUIC_BY_TYPES(launchCopy);
    if (first == DType::F32)
      return second == DType::F16 ? call<launchCopy<float, f16>>
                                  : call<launchCopy<float, bf16>>;
    if (first == DType::F16)
      return call<launchCopy<f16, bf16>>;
    if (first == DType::BF16)
      return call<launchCopy<bf16, f16>>;
    return first == DType::F64 ? call<launchCopy<double, double>>
                               : call<launchCopy<int32_t, int32_t>>;
  case TaskKind::Zero:
    return call<launchZero>;
  case TaskKind::SumSlots:
    return call<launchSumSlots>;
  case TaskKind::GradScale:
    return call<launchGradScale>;
  case TaskKind::LearningRate:
    return call<launchLearningRate>;
  case TaskKind::Advance:
    return call<launchAdvance>;
  case TaskKind::UpdateLossScale:
    return call<launchUpdateLossScale>;
  case TaskKind::Adam:
    return first == DType::F16    ? call<launchAdam<f16>>
           : first == DType::BF16 ? call<launchAdam<bf16>>
                                  : call<launchAdam<void>>;
  case TaskKind::Sgd:
    return first == DType::F16    ? call<launchSgd<f16>>
           : first == DType::BF16 ? call<launchSgd<bf16>>
                                  : call<launchSgd<void>>;
  default:
    return nullptr;
  }
}

abi::CudaReduceFn reduceLauncher() { return reduceRanks; }

} // namespace ciuic::cuda::test
