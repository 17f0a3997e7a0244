//===- AllocateBuffers.cpp - Gives every buffer its offset ----------------===//
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Sched/BufferOrder.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/Peak.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_ALLOCATEBUFFERSPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

/// "12.3 MB" for people; messages also give the exact bytes.
static std::string inUnits(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (bytes >= 1000000000)
    os << llvm::format("%.2f GB", bytes / 1e9);
  else if (bytes >= 1000000)
    os << llvm::format("%.1f MB", bytes / 1e6);
  else
    os << bytes << " bytes";
  return text;
}

static StringRef labelOf(BufferOp buffer) {
  StringRef name = buffer.getSymName();
  name.consume_front("buf.");
  return name;
}

/// Largest first; equal sizes by name, so that plans are reproducible.
static void sortBySize(SmallVector<BufferOp> &buffers) {
  llvm::sort(buffers, [](BufferOp a, BufferOp b) {
    if (a.getBytes() != b.getBytes())
      return a.getBytes() > b.getBytes();
    return a.getSymName() < b.getSymName();
  });
}

namespace {
struct AllocateBuffers : impl::AllocateBuffersPassBase<AllocateBuffers> {
  using AllocateBuffersPassBase::AllocateBuffersPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    OpBuilder builder(module);
    int64_t ranks = getRanks(module);
    BufferOrder order(module);
    for (Arena arena : {Arena::Device, Arena::Host}) {
      int64_t bytes = allocate(module, arena, order);
      bool device = arena == Arena::Device;
      module->setAttr(device ? kDeviceArena : kHostArena,
                      builder.getI64IntegerAttr(bytes));
      int64_t total = bytes;
      if (!device && llvm::MulOverflow(bytes, ranks, total))
        total = INT64_MAX;
      int64_t limit = device ? deviceLimit : hostLimit;
      if (limit > 0 && total > limit) {
        refuse(module, arena, total, limit);
        return signalPassFailure();
      }
    }
  }

  static void place(BufferOp buffer, int64_t offset) {
    buffer.setAtAttr(Builder(buffer.getContext()).getI64IntegerAttr(offset));
  }

  static int64_t sizeOf(BufferOp buffer) {
    return llvm::alignTo(static_cast<int64_t>(buffer.getBytes()),
                         kBufferAlignment);
  }

  /// Places all buffers of `arena`; returns its bytes.
  int64_t allocate(ModuleOp module, Arena arena, const BufferOrder &order) {
    int64_t base = 0;
    llvm::MapVector<StringAttr, SmallVector<BufferOp>> transients;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena)
        continue;
      if (buffer.getProgram()) {
        transients[buffer.getProgramAttr().getAttr()].push_back(buffer);
        continue;
      }
      place(buffer, base);
      base += sizeOf(buffer);
    }
    int64_t peak = base;
    for (auto &[program, buffers] : transients) {
      int64_t bytes = pack(buffers, base, order);
      remark::analysis(module.getLoc(),
                       remark::RemarkOpts::name("Allocated").category("memory"))
          << remark::add("program {0}, {1}: {2} bytes in {3} buffers over {4} "
                         "bytes of state",
                         program.getValue(), stringifyArena(arena), bytes,
                         buffers.size(), base);
      peak = std::max(peak, base + bytes);
    }
    return peak;
  }

  /// Greedy by size; returns the bytes above `base`.
  static int64_t pack(SmallVector<BufferOp> &buffers, int64_t base,
                      const BufferOrder &order) {
    sortBySize(buffers);
    struct Placed {
      int64_t begin, end;
      BufferOp buffer;
    };
    SmallVector<Placed> placed; // By rising begin.
    int64_t peak = base;
    for (BufferOp buffer : buffers) {
      int64_t size = sizeOf(buffer), offset = base;
      for (const Placed &other : placed) {
        if (other.end <= offset)
          continue;
        if (other.begin >= offset + size)
          break; // Later ones begin later still.
        if (!order.areOrdered(buffer, other.buffer))
          offset = other.end;
      }
      place(buffer, offset);
      Placed entry{offset, offset + size, buffer};
      placed.insert(llvm::upper_bound(placed, entry,
                                      [](const Placed &a, const Placed &b) {
                                        return a.begin < b.begin;
                                      }),
                    entry);
      peak = std::max(peak, offset + size);
    }
    return peak - base;
  }

  /// Says by how much the job is too large, and who holds most at the peak.
  static void refuse(ModuleOp module, Arena arena, int64_t needs, int64_t has) {
    bool device = arena == Arena::Device;
    SymbolTable symbols(module);
    Peak peak;
    TaskOp at;
    for (auto program : module.getOps<ProgramOp>()) {
      TaskOrder order(program, /*withEvents=*/false);
      Peak here =
          findPeak(lifetimesOf(order, symbols), order.tasks().size(), arena);
      if (here.bytes > peak.bytes) {
        peak = here;
        at = order.tasks()[here.task];
      }
    }
    InFlightDiagnostic diag = module.emitError()
                              << "does not fit: needs " << inUnits(needs)
                              << " (" << needs << " bytes) "
                              << (device ? "on each device" : "of host memory");
    if (at)
      diag << " at \"" << at.getName() << "\"";
    diag << ", has " << inUnits(has) << " (" << has << " bytes)";

    // States are held all the time; the rest at the peak.
    SmallVector<BufferOp> holders = peak.holders;
    for (auto buffer : module.getOps<BufferOp>())
      if (buffer.getArena() == arena && !buffer.getProgram())
        holders.push_back(buffer);
    sortBySize(holders);
    for (BufferOp buffer : ArrayRef(holders).take_front(10))
      diag.attachNote(module.getLoc())
          << inUnits(buffer.getBytes()) << " for " << labelOf(buffer)
          << (buffer.getState() ? ", all the time" : "")
          << (device ? "" : ", for each rank");
  }
};
} // namespace
} // namespace ciuic::sched
