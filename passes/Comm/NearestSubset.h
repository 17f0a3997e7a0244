//===- NearestSubset.h - Whole things near a wanted sum ---------*- C++ -*-===//
#ifndef CIUIC_PASSES_COMM_NEARESTSUBSET_H
#define CIUIC_PASSES_COMM_NEARESTSUBSET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include <cstdint>

namespace ciuic::comm {

/// Of `sizes`, all positive and of a sum below 2^62, those whose sum is nearest
/// to `wanted`; of two that are as near, the lesser. Equal sizes are taken in
/// their order. The search is bounded: with many different sizes the sum may be
/// only near to the nearest.
llvm::BitVector nearestSubset(llvm::ArrayRef<int64_t> sizes, int64_t wanted);

} // namespace ciuic::comm

#endif // CIUIC_PASSES_COMM_NEARESTSUBSET_H
