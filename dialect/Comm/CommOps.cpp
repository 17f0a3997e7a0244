//===- CommOps.cpp - Verifiers of buckets and collectives -----------------===//
#include "dialect/Comm/Comm.h"

using namespace mlir;
using namespace ciuic::comm;

static RankedTensorType tensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Both are one-dimensional and of one element type.
static LogicalResult verifyFlat(Operation *op, Value a, Value b) {
  RankedTensorType ta = tensor(a), tb = tensor(b);
  if (ta.getRank() != 1 || tb.getRank() != 1 ||
      ta.getElementType() != tb.getElementType())
    return op->emitOpError() << "takes " << ta << " to " << tb
                             << "; expected one dimension and one element type";
  return success();
}

/// `whole` holds one `part` for each rank of `axis`.
static LogicalResult verifyShare(Operation *op, Value whole, Value part,
                                 AxisAttr axis) {
  if (failed(verifyFlat(op, whole, part)))
    return failure();
  int64_t elements = tensor(whole).getNumElements();
  int64_t chunk = tensor(part).getNumElements();
  if (elements % axis.getSize() != 0 || elements / axis.getSize() != chunk)
    return op->emitOpError()
           << "has a whole of " << elements << " and a chunk of " << chunk
           << " elements; expected " << axis.getSize() << " chunks, one a rank "
           << "of axis \"" << axis.getName() << "\"";
  return success();
}

static LogicalResult verifyUse(Operation *op, StringRef use) {
  if (use.empty())
    return op->emitOpError() << "names no use-group, expected for \"...\"";
  return success();
}

LogicalResult BucketOp::verify() {
  auto elements = static_cast<int64_t>(getElements());
  auto chunk = static_cast<int64_t>(getChunk());
  // (C1)
  int64_t ranks = getAxis().getSize();
  if (elements < 1 || chunk < 1 || elements % ranks != 0 ||
      elements / ranks != chunk)
    return emitOpError() << "has " << elements << " elements in chunks of "
                         << chunk << "; expected " << ranks
                         << " chunks, one a rank of axis \""
                         << getAxis().getName() << "\"";
  // (C2)
  if (chunk % kAlignment != 0)
    return emitOpError() << "has a chunk of " << chunk
                         << " elements, expected a multiple of " << kAlignment;
  return success();
}

LogicalResult UnpackOp::verify() {
  RankedTensorType bucket = tensor(getBucket()), result = tensor(getResult());
  // (C1)
  if (bucket.getRank() != 1 ||
      bucket.getElementType() != result.getElementType())
    return emitOpError() << "takes " << result << " from " << bucket
                         << "; expected one dimension and one element type";
  // (C2)
  auto at = static_cast<int64_t>(getAt());
  int64_t elements = bucket.getNumElements();
  if (at < 0 || at > elements || result.getNumElements() > elements - at)
    return emitOpError() << "takes " << result.getNumElements()
                         << " elements at " << at << " from a bucket of "
                         << elements;
  return success();
}

LogicalResult PackOp::verify() {
  RankedTensorType result = tensor(getResult());
  ArrayRef<int64_t> at = getAt();
  if (at.size() != getMembers().size())
    return emitOpError() << "has " << getMembers().size() << " members at "
                         << at.size() << " offsets";
  if (result.getRank() != 1)
    return emitOpError() << "result has type " << result
                         << ", expected one dimension";
  int64_t end = 0;
  for (auto [member, offset] : llvm::zip(getMembers(), at)) {
    RankedTensorType type = tensor(member);
    // (C1)
    if (type.getElementType() != result.getElementType())
      return emitOpError() << "packs " << type << " into " << result
                           << "; expected one element type";
    // (C2)
    int64_t elements = result.getNumElements();
    if (offset < end || offset > elements ||
        type.getNumElements() > elements - offset)
      return emitOpError() << "lays " << type << " at " << offset
                           << ", outside of [" << end << ", "
                           << result.getNumElements() << ")";
    end = offset + type.getNumElements();
  }
  return success();
}

LogicalResult ChunkOp::verify() {
  return verifyShare(*this, getWhole(), getResult(), getAxis()); // (C1)
}

LogicalResult TransferOp::verify() {
  return getUse() ? verifyUse(*this, *getUse()) : success(); // (C1)
}

/// Names the result after the axis it was gathered over: %dp_full, %tp_full.
void AllGatherOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), (getAxis().getName() + "_full").str());
}

LogicalResult AllGatherOp::verify() {
  // (C1), (C2)
  if (failed(verifyShare(*this, getResult(), getInput(), getAxis())))
    return failure();
  return verifyUse(*this, getUse()); // (C3)
}

void ReduceScatterOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), (getAxis().getName() + "_chunk").str());
}

LogicalResult ReduceScatterOp::verify() {
  // (C1), (C2)
  if (failed(verifyShare(*this, getInput(), getResult(), getAxis())))
    return failure();
  return verifyUse(*this, getUse());
}

LogicalResult AllReduceOp::verify() { return verifyUse(*this, getUse()); }
