//===- SchedOps.cpp - Verifiers of buffers, kernels and tasks -------------===//
#include "dialect/Sched/Sched.h"
#include "dialect/Train/Train.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace ciuic::sched;

LogicalResult ViewAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               Access access, FlatSymbolRefAttr buffer,
                               int64_t offset, int64_t rankStride,
                               RankedTensorType type) {
  if (offset < 0 || rankStride < 0)
    return emitError() << "view of " << buffer << " starts at " << offset
                       << " + rank * " << rankStride
                       << ", expected no negative offset";
  if (!type.hasStaticShape() || type.getRank() > 2)
    return emitError() << "view of " << buffer << " has type " << type
                       << ", expected a static shape of at most 2 dimensions";
  return success();
}

int64_t ViewAttr::getBytes() { return train::bytesOf(getType()); }

ViewAttr ViewAttr::withAccess(Access access) {
  return get(getContext(), access, getBuffer(), getOffset(), getRankStride(),
             getType());
}

LogicalResult BufferOp::verify() {
  // (C1)
  auto bytes = static_cast<int64_t>(getBytes());
  if (bytes < 1)
    return emitOpError() << "has " << bytes << " bytes, expected at least 1";
  if (getAt() && static_cast<int64_t>(*getAt()) % kBufferAlignment != 0)
    return emitOpError() << "lies at " << *getAt()
                         << ", expected a multiple of " << kBufferAlignment;
  // (C2)
  if (getState() && getProgram())
    return emitOpError() << "belongs to state " << getStateAttr()
                         << " and to program " << getProgramAttr()
                         << ", expected one of them at most";
  return success();
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  // (C1)
  if (block.getNumArguments() == 0 || !block.getArgument(0).getType().isIndex())
    return emitOpError() << "takes no row; expected an index first";
  for (BlockArgument argument : block.getArguments().drop_front())
    if (!isa<MemRefType>(argument.getType()))
      return emitOpError() << "argument " << argument.getArgNumber()
                           << " has type " << argument.getType()
                           << ", expected a memref";
  auto memrefs = static_cast<int64_t>(block.getNumArguments()) - 1;
  auto outputs = static_cast<int64_t>(getOutputs());
  if (outputs < 1 || outputs > memrefs)
    return emitOpError() << "has " << outputs << " outputs among " << memrefs
                         << " memrefs, expected at least 1 and no more";
  // (C2)
  auto walk = getBody().walk([&](memref::StoreOp store) {
    auto argument = dyn_cast<BlockArgument>(store.getMemRef());
    if (!argument || argument.getOwner() != &block ||
        static_cast<int64_t>(argument.getArgNumber()) <= memrefs - outputs) {
      store.emitOpError() << "stores to a memref that is not among the "
                          << outputs << " outputs of kernel @" << getSymName();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// Names an event after its task's kind: %gemm, %all_gather_3.
void TaskOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getDone(), stringifyKind(getKind()));
}

LogicalResult TaskOp::verify() {
  // (C2)
  if ((getKind() == Kind::Launch) != getKernel().has_value())
    return emitOpError() << "of kind " << stringifyKind(getKind())
                         << (getKernel() ? " names a kernel" : " names none")
                         << "; a launch names one, other kinds none";
  return success();
}

/// (C1): the view lies inside the buffer for ranks 0 to ranks - 1.
static LogicalResult verifyView(TaskOp task, ViewAttr view,
                                SymbolTableCollection &symbols, int64_t ranks) {
  auto buffer =
      symbols.lookupNearestSymbolFrom<BufferOp>(task, view.getBuffer());
  if (!buffer)
    return task.emitOpError()
           << "\"" << task.getName() << "\" views " << view.getBuffer()
           << ", which is no sched.buffer of this module";
  auto bytes = static_cast<int64_t>(buffer.getBytes());
  int64_t last = view.getOffset() + (ranks - 1) * view.getRankStride();
  if (view.getBytes() > bytes || last > bytes - view.getBytes())
    return task.emitOpError()
           << "\"" << task.getName() << "\" views " << view.getBytes()
           << " bytes at " << last << " of " << view.getBuffer()
           << ", which has " << bytes;
  return success();
}

LogicalResult TaskOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t ranks = getRanks(*this);
  for (Attribute view : getViews())
    if (failed(verifyView(*this, cast<ViewAttr>(view), symbols, ranks)))
      return failure();
  if (getSkip() && failed(verifyView(*this, *getSkip(), symbols, ranks)))
    return failure();
  if (!getKernel())
    return success();

  // (C2)
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "launches " << getKernelAttr()
                         << ", which is no sched.kernel of this module";
  auto arguments = kernel.getBody().front().getArguments().drop_front();
  if (arguments.size() != getViews().size())
    return emitOpError() << "gives " << getViews().size() << " views to "
                         << getKernelAttr() << ", which takes "
                         << arguments.size();
  for (auto [argument, attr] : llvm::zip(arguments, getViews())) {
    auto memref = cast<MemRefType>(argument.getType());
    RankedTensorType type = cast<ViewAttr>(attr).getType();
    if (memref.getShape() != type.getShape() ||
        memref.getElementType() != type.getElementType())
      return emitOpError() << "gives " << type << " to argument "
                           << argument.getArgNumber() << " of "
                           << getKernelAttr() << ", which takes " << memref;
  }
  return success();
}
