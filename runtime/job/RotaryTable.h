//===- RotaryTable.h - Cosines and sines of rotary embeddings ---*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_ROTARYTABLE_H
#define CIUIC_RUNTIME_JOB_ROTARYTABLE_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"

#include <cstdint>

namespace ciuic::rt {

/// Elements [begin, end) of the row-major table of `columns` = dim / 2
/// frequencies a row, a row a position: the cosine or sine of position times
/// frequency, computed in double and rounded once. `init` is of kind Rope.
Status fillRotary(const abi::Init &init, uint64_t columns, uint64_t begin,
                  uint64_t end, float *out);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_ROTARYTABLE_H
