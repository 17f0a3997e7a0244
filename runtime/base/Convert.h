//===- Convert.h - Arrays from one element type to another ------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_CONVERT_H
#define CIUIC_RUNTIME_BASE_CONVERT_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"

#include <cstdint>

namespace ciuic::rt {

/// Whether convertElements takes this pair: equal types always, otherwise
/// both must be F32, F16, BF16 or F64.
constexpr bool canConvert(DType from, DType to) {
  return from == to || (isConvertible(from) && isConvertible(to));
}

/// Writes `count` elements of `in`, converted, to `out`. The arrays must not
/// overlap; neither needs any alignment. Rounds once, to nearest even. Fails
/// (Code::Invalid) for a pair that canConvert refuses.
Status convertElements(DType from, const void *in, DType to, void *out,
                       uint64_t count);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_CONVERT_H
