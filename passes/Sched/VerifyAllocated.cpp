//===- VerifyAllocated.cpp - Checks that live buffers never overlap -------===//
#include "passes/Sched/BufferOrder.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/ProgramLives.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_VERIFYALLOCATEDPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyAllocated : impl::VerifyAllocatedPassBase<VerifyAllocated> {
  using VerifyAllocatedPassBase::VerifyAllocatedPassBase;

  void runOnOperation() final {
    BufferOrder order(getOperation());
    for (Arena arena : kAllArenas)
      if (failed(verify(arena, order)))
        return signalPassFailure();
  }

  LogicalResult verify(Arena arena, const BufferOrder &order) {
    ModuleOp module = getOperation();
    StringRef name = arenaAttr(arena);
    auto size = module->getAttrOfType<IntegerAttr>(name);
    // Programs never run at the same time: each is checked for itself, with
    // what lives all the time.
    SmallVector<Place> lasting;
    llvm::MapVector<StringAttr, SmallVector<Place>> programs;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena)
        continue;
      if (!buffer.getAt())
        return buffer.emitOpError() << "has no offset";
      if (auto at = static_cast<int64_t>(*buffer.getAt());
          at % storedAlignment(buffer) != 0)
        return buffer.emitOpError() << "lies at " << at << ", no multiple of "
                                    << storedAlignment(buffer);
      if (!size || end(buffer) > size.getInt())
        return buffer.emitOpError()
               << "ends at byte " << end(buffer) << " of the "
               << stringifyArena(arena) << " arena, which has "
               << (size ? size.getInt() : 0);
      Place place{static_cast<int64_t>(*buffer.getAt()), end(buffer),
                  order.find(buffer), buffer};
      if (buffer.getProgram())
        programs[buffer.getProgramAttr().getAttr()].push_back(place);
      else
        lasting.push_back(place);
    }
    if (failed(verify(lasting)))
      return failure();
    for (auto &[program, places] : programs) {
      SmallVector<Place> all = lasting;
      all.append(places);
      if (failed(verify(all)))
        return failure();
    }
    return success();
  }

  struct Place {
    int64_t begin, end;
    const Life *life; ///< Null: all the time, or never.
    BufferOp buffer;

    bool isLasting() { return !buffer.getProgram(); }
  };

  static bool areOrdered(Place &a, Place &b) {
    if (a.life && b.life)
      return a.life->isBefore(*b.life) || b.life->isBefore(*a.life);
    return !a.isLasting() && !b.isLasting();
  }

  static LogicalResult verify(SmallVector<Place> &places) {
    llvm::stable_sort(places, [](const Place &a, const Place &b) {
      return a.begin < b.begin;
    });
    // Only neighbours whose bytes meet need looking at.
    for (auto [i, place] : llvm::enumerate(places))
      for (Place &next : MutableArrayRef(places).drop_front(i + 1)) {
        if (next.begin >= place.end)
          break;
        if (areOrdered(place, next))
          continue;
        InFlightDiagnostic diag =
            next.buffer.emitOpError()
            << "at bytes [" << next.begin << ", " << next.end << ") overlaps @"
            << place.buffer.getSymName() << " at [" << place.begin << ", "
            << place.end << "), and both may be live at once";
        diag.attachNote(place.buffer.getLoc()) << "the other buffer is here";
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
