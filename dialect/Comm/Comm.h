//===- Comm.h - The comm dialect --------------------------------*- C++ -*-===//
#ifndef CIUIC_DIALECT_COMM_COMM_H
#define CIUIC_DIALECT_COMM_COMM_H

#include "dialect/Train/Train.h"

namespace ciuic::comm {

/// Offsets of members, and chunks, are multiples of this many elements.
inline constexpr int64_t kAlignment = 128;

/// Unit attribute on an update that works on this rank's chunk of a bucket:
/// `undecayed` counts elements of the whole, rank r starts at r * its size.
inline constexpr llvm::StringLiteral kChunkedAttr = "comm.chunked";

} // namespace ciuic::comm

#include "dialect/Comm/CommDialect.h.inc"
#include "dialect/Comm/CommEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Comm/CommAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialect/Comm/CommOps.h.inc"

#endif // CIUIC_DIALECT_COMM_COMM_H
