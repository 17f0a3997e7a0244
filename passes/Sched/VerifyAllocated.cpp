//===- VerifyAllocated.cpp - Checks that live buffers never overlap -------===//
#include "passes/Sched/BufferOrder.h"
#include "passes/Sched/Passes.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_VERIFYALLOCATEDPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyAllocated : impl::VerifyAllocatedPassBase<VerifyAllocated> {
  using VerifyAllocatedPassBase::VerifyAllocatedPassBase;

  void runOnOperation() final {
    BufferOrder order(getOperation());
    for (Arena arena : {Arena::Device, Arena::Host})
      if (failed(verify(arena, order)))
        return signalPassFailure();
  }

  LogicalResult verify(Arena arena, const BufferOrder &order) {
    ModuleOp module = getOperation();
    StringRef name = arena == Arena::Device ? kDeviceArena : kHostArena;
    auto size = module->getAttrOfType<IntegerAttr>(name);
    SmallVector<BufferOp> buffers;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena)
        continue;
      if (!buffer.getAt())
        return buffer.emitOpError() << "has no offset";
      if (!size || end(buffer) > size.getInt())
        return buffer.emitOpError()
               << "ends at byte " << end(buffer) << " of the "
               << stringifyArena(arena) << " arena, which has "
               << (size ? size.getInt() : 0);
      buffers.push_back(buffer);
    }
    llvm::sort(buffers,
               [](BufferOp a, BufferOp b) { return *a.getAt() < *b.getAt(); });
    // Only neighbours whose bytes meet need looking at.
    for (auto [i, buffer] : llvm::enumerate(buffers))
      for (BufferOp next : ArrayRef(buffers).drop_front(i + 1)) {
        if (static_cast<int64_t>(*next.getAt()) >= end(buffer))
          break;
        if (order.areOrdered(buffer, next))
          continue;
        InFlightDiagnostic diag = next.emitOpError()
                                  << "at bytes [" << *next.getAt() << ", "
                                  << end(next) << ") overlaps @"
                                  << buffer.getSymName() << " at ["
                                  << *buffer.getAt() << ", " << end(buffer)
                                  << "), and both may be live at once";
        diag.attachNote(buffer.getLoc()) << "the other buffer is here";
        return diag;
      }
    return success();
  }

  static int64_t end(BufferOp buffer) {
    return static_cast<int64_t>(*buffer.getAt() + buffer.getBytes());
  }
};
} // namespace
} // namespace ciuic::sched
