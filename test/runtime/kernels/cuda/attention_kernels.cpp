//===- attention_kernels.cpp - Attention kernels under test ---------------===//
#include "test/runtime/kernels/cuda/AttentionInstances.h"

namespace ciuic::cuda {
CIUIC_ATTENTION_INSTANCES()
} // namespace ciuic::cuda
