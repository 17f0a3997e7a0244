//===- SchedOps.cpp - Verifiers of buffers, kernels and tasks -------------===//
#include "dialect/Sched/Sched.h"
#include "dialect/Train/Train.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic::sched;

LogicalResult ViewAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               Access access, FlatSymbolRefAttr buffer,
                               int64_t offset, int64_t rankStride,
                               RankedTensorType type) {
  // (C1)
  if (offset < 0 || rankStride < 0)
    return emitError() << "view of " << buffer << " starts at " << offset
                       << " + rank * " << rankStride
                       << ", expected no negative offset";
  // (C2)
  if (!type.hasStaticShape() || type.getRank() > 2)
    return emitError() << "view of " << buffer << " has type " << type
                       << ", expected a static shape of at most 2 dimensions";
  Type element = type.getElementType();
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() % 8 != 0)
    return emitError() << "view of " << buffer << " has elements of " << element
                       << ", expected numbers of whole bytes";
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  for (int64_t size : type.getShape())
    if (llvm::MulOverflow(bytes, size, bytes) || bytes > kMostBytes)
      return emitError() << "view of " << buffer << " has type " << type
                         << ", expected at most 2^48 bytes";
  return success();
}

int64_t ViewAttr::getBytes() { return train::bytesOf(getType()); }

LogicalResult BufferOp::verify() {
  // (C1)
  auto bytes = static_cast<int64_t>(getBytes());
  if (bytes < 1 || bytes > kMostBytes)
    return emitOpError() << "has " << bytes << " bytes, expected 1 to 2^48";
  constexpr int64_t mostOffset = int64_t{1} << 60;
  if (auto at = static_cast<int64_t>(getAt().value_or(0));
      at < 0 || at > mostOffset || at % kBufferAlignment != 0)
    return emitOpError() << "lies at " << at << ", expected a multiple of "
                         << kBufferAlignment << " from 0 to 2^60";
  // (C2)
  if (getState() && getProgram())
    return emitOpError() << "belongs to state " << getStateAttr()
                         << " and to program " << getProgramAttr()
                         << ", expected one of them at most";
  if (getConstant() && (getState() || getProgram()))
    return emitOpError() << "is a constant and belongs to "
                         << (getState() ? getStateAttr() : getProgramAttr())
                         << ", expected one of them at most";
  return success();
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  // (C1)
  if (block.getNumArguments() == 0 || !block.getArgument(0).getType().isIndex())
    return emitOpError() << "takes no row; expected an index first";
  for (BlockArgument argument : block.getArguments().drop_front()) {
    auto memref = dyn_cast<MemRefType>(argument.getType());
    if (!memref || !memref.hasStaticShape() || !memref.getLayout().isIdentity())
      return emitOpError() << "argument " << argument.getArgNumber()
                           << " has type " << argument.getType()
                           << ", expected a dense memref of static shape";
  }
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

namespace {
/// How much a kind takes; `most` of views counts the one that may be left out.
/// More ints than `ints` come in pairs, for kinds that take ranges.
struct Signature {
  unsigned fewestViews, mostViews, ints, reals;
  bool ranges = false;
};
} // namespace

/// In the order of Kind; see abi::TaskKind.
static Signature signatureOf(Kind kind) {
  switch (kind) {
  case Kind::Launch:
    return {1, ~0u, 2, 0};
  case Kind::Gemm:
    return {3, 4, 3, 0};
  case Kind::AttentionForward:
    return {5, 5, 3, 1};
  case Kind::AttentionBackward:
    return {9, 9, 3, 1};
  case Kind::Embedding:
    return {3, 3, 0, 0};
  case Kind::EmbeddingGrad:
    return {3, 3, 1, 0};
  case Kind::CrossEntropy:
  case Kind::CrossEntropyGrad:
    return {5, 5, 0, 0};
  case Kind::ColumnSum:
    return {2, 2, 0, 0};
  case Kind::NormWeightGrad:
    return {4, 4, 0, 0};
  case Kind::Copy:
    return {2, 2, 0, 0};
  case Kind::Zero:
    return {1, 1, 0, 0};
  case Kind::Accumulate:
    return {2, 2, 1, 0};
  case Kind::AllGather:
    return {2, 2, 0, 0};
  case Kind::ReduceScatter:
  case Kind::AllReduce:
    return {2, 2, 1, 0};
  case Kind::SquareSum:
  case Kind::SumSlots:
    return {2, 2, 0, 0};
  case Kind::GradScale:
    return {6, 6, 1, 2};
  case Kind::LearningRate:
    return {2, 2, 4, 5};
  case Kind::Advance:
    return {3, 3, 0, 0};
  case Kind::UpdateLossScale:
    return {10, 10, 3, 1};
  case Kind::Adam:
    return {8, 9, 3, 4, /*ranges=*/true};
  case Kind::Sgd:
    return {6, 7, 2, 2, /*ranges=*/true};
  case Kind::CrossEntropyWithGrad:
    return {6, 6, 0, 0};
  }
  llvm_unreachable("unknown kind");
}

/// (C4)
static LogicalResult verifySignature(TaskOp task) {
  Signature takes = signatureOf(task.getKind());
  size_t views = task.getViews().size(), ints = task.getInts().size(),
         reals = task.getReals().size();
  bool hasInts = takes.ranges
                     ? ints >= takes.ints && (ints - takes.ints) % 2 == 0
                     : ints == takes.ints;
  if (views < takes.fewestViews || views > takes.mostViews || !hasInts ||
      reals != takes.reals)
    return task.emitOpError()
           << "of kind " << stringifyKind(task.getKind()) << " has " << views
           << " views, " << ints << " ints and " << reals << " reals, expected "
           << takes.fewestViews
           << (takes.mostViews > takes.fewestViews ? " or more" : "") << ", "
           << takes.ints << (takes.ranges ? " and pairs" : "") << ", and "
           << takes.reals;
  if (task.getKind() == Kind::Gemm)
    for (Attribute attr : task.getViews().getValue().take_front(3))
      if (RankedTensorType type = cast<ViewAttr>(attr).getType();
          type.getRank() != 2)
        return task.emitOpError()
               << "multiplies " << type << ", expected matrices";
  return success();
}

LogicalResult TaskOp::verify() {
  if (failed(verifySignature(*this)))
    return failure();
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
  int64_t last = 0;
  if (llvm::MulOverflow(ranks - 1, view.getRankStride(), last) ||
      llvm::AddOverflow(last, view.getOffset(), last))
    last = INT64_MAX;
  if (view.getBytes() > bytes || last > bytes - view.getBytes())
    return task.emitOpError()
           << "\"" << task.getName() << "\" views " << view.getBytes()
           << " bytes at " << last << " of " << view.getBuffer()
           << ", which has " << bytes;
  // (C5)
  auto program = task->getParentOfType<ProgramOp>();
  if (buffer.getProgram() && *buffer.getProgram() != program.getSymName())
    return task.emitOpError()
           << "\"" << task.getName() << "\" of program @"
           << program.getSymName() << " views " << view.getBuffer()
           << ", which belongs to program " << buffer.getProgramAttr();
  return success();
}

/// (C6)
static LogicalResult verifyScratch(TaskOp task, ViewAttr scratch,
                                   SymbolTableCollection &symbols) {
  auto refuse = [&](const Twine &what) {
    return task.emitOpError() << "\"" << task.getName() << "\" has the scratch "
                              << scratch.getBuffer() << what.str();
  };
  if (scratch.getAccess() != Access::Write || scratch.getRankStride() != 0 ||
      scratch.getType().getRank() != 1)
    return refuse(", expected a written view of one dimension that is the same "
                  "for all ranks");
  auto buffer =
      symbols.lookupNearestSymbolFrom<BufferOp>(task, scratch.getBuffer());
  if (!buffer.getProgram())
    return refuse(", which belongs to no program");
  for (Attribute view : task.getViews())
    if (cast<ViewAttr>(view).getBuffer() == scratch.getBuffer())
      return refuse(", which it also views");
  return success();
}

LogicalResult TaskOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t ranks = getRanks(*this);
  for (Attribute view : getViews())
    if (failed(verifyView(*this, cast<ViewAttr>(view), symbols, ranks)))
      return failure();
  if (getSkip() && failed(verifyView(*this, *getSkip(), symbols, ranks)))
    return failure();
  if (getScratch() &&
      (failed(verifyView(*this, *getScratch(), symbols, ranks)) ||
       failed(verifyScratch(*this, *getScratch(), symbols))))
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
