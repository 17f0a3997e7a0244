//===- VerifyAllocated.cpp - Checks that live buffers never overlap -------===//
#include "passes/Sched/BufferOrder.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/ProgramLives.h"

#include <map>

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
    Occupants held;
    for (const Place &place : lasting)
      if (failed(occupy(held, place)))
        return failure();
    for (auto &[program, places] : programs) {
      llvm::stable_sort(places, [](const Place &a, const Place &b) {
        return a.startsAt() < b.startsAt();
      });
      Occupants occupants = held;
      for (const Place &place : places)
        if (failed(occupy(occupants, place)))
          return failure();
    }
    return success();
  }

  struct Place {
    int64_t begin, end;
    const Life *life; ///< Null: all the time, or never.
    BufferOp buffer;

    /// In program order; what is never touched comes last.
    uint32_t startsAt() const { return life ? life->first : UINT32_MAX; }
  };
  /// Who had which bytes last, by their begins.
  struct Occupant {
    int64_t end;
    const Place *place;
  };
  using Occupants = std::map<int64_t, Occupant>;

  /// Whether a buffer may still be live when `next` begins, which is no earlier
  /// in program order.
  static bool isHeld(BufferOp buffer, const Life *life, const Place &next) {
    if (!buffer.getProgram())
      return true;
    return life && next.life && !life->isBefore(*next.life);
  }

  /// Gives `next` its bytes. What comes after a buffer comes after all before
  /// it, so only those who had the bytes last need looking at.
  static LogicalResult occupy(Occupants &occupants, const Place &next) {
    auto it = occupants.lower_bound(next.begin);
    if (it != occupants.begin() && std::prev(it)->second.end > next.begin)
      --it;
    while (it != occupants.end() && it->first < next.end) {
      auto [end, place] = it->second;
      if (isHeld(place->buffer, place->life, next))
        return place->begin <= next.begin ? refuse(*place, next)
                                          : refuse(next, *place);
      // Its bytes on either side stay its own.
      if (it->first < next.begin) {
        it->second.end = next.begin;
        ++it;
      } else {
        it = occupants.erase(it);
      }
      if (end > next.end)
        it = occupants.insert(it, {next.end, {end, place}});
    }
    occupants.insert(it, {next.begin, {next.end, &next}});
    return success();
  }

  static LogicalResult refuse(const Place &place, const Place &next) {
    BufferOp buffer = next.buffer, other = place.buffer;
    InFlightDiagnostic diag = buffer.emitOpError()
                              << "at bytes [" << next.begin << ", " << next.end
                              << ") overlaps @" << other.getSymName() << " at ["
                              << place.begin << ", " << place.end
                              << "), and both may be live at once";
    diag.attachNote(other.getLoc()) << "the other buffer is here";
    return diag;
  }

  static int64_t end(BufferOp buffer) {
    return static_cast<int64_t>(*buffer.getAt() + buffer.getBytes());
  }
};
} // namespace
} // namespace ciuic::sched
