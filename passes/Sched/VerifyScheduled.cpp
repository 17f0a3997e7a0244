//===- VerifyScheduled.cpp - Checks that conflicting tasks are ordered ----===//
#include "mlir/IR/BuiltinOps.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/TaskOrder.h"
#include "passes/Sched/TouchIndex.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

namespace {
struct VerifyScheduled : impl::VerifyScheduledPassBase<VerifyScheduled> {
  using VerifyScheduledPassBase::VerifyScheduledPassBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>()) {
      for (auto task : program.getBody().getOps<TaskOp>())
        if (failed(verifyMemory(task, symbols)))
          return signalPassFailure();
      if (failed(verify(program)))
        return signalPassFailure();
    }
  }

  /// A task touches the memory of what runs it; copies to and from the host
  /// alone go between, and copies from and to files.
  static LogicalResult verifyMemory(TaskOp task, const SymbolTable &symbols) {
    Stream stream = task.getStream();
    if (stream == Stream::Disk)
      return verifyDisk(task, symbols);
    bool crosses = stream == Stream::H2D || stream == Stream::D2H;
    if (crosses && task.getKind() != Kind::Copy)
      return task.emitOpError()
             << "\"" << task.getName() << "\" of kind "
             << stringifyKind(task.getKind()) << " is on "
             << stringifyStream(stream) << ", which only copies";
    auto check = [&](ViewAttr view, Arena arena) -> LogicalResult {
      auto buffer = symbols.lookup<BufferOp>(view.getBuffer().getAttr());
      if (!buffer || buffer.getArena() == arena)
        return success();
      return task.emitOpError()
             << "\"" << task.getName() << "\" on " << stringifyStream(stream)
             << " views " << view.getBuffer() << " in "
             << stringifyArena(buffer.getArena()) << " memory, expected "
             << stringifyArena(arena);
    };
    Arena own = stream == Stream::Host ? Arena::Host : Arena::Device;
    for (auto [i, attr] : llvm::enumerate(task.getViews())) {
      Arena arena = own;
      if (crosses)
        arena =
            (stream == Stream::H2D) == (i == 0) ? Arena::Host : Arena::Device;
      if (failed(check(cast<ViewAttr>(attr), arena)))
        return failure();
    }
    if (task.getSkip() && failed(check(*task.getSkip(), own)))
      return failure();
    if (task.getScratch() && failed(check(*task.getScratch(), own)))
      return failure();
    return success();
  }

  /// Bytes go between a file and host memory as they are, in whole blocks.
  static LogicalResult verifyDisk(TaskOp task, const SymbolTable &symbols) {
    if (task.getKind() != Kind::Copy)
      return task.emitOpError() << "\"" << task.getName() << "\" of kind "
                                << stringifyKind(task.getKind())
                                << " is on disk, which only copies";
    unsigned inFiles = 0;
    int64_t alignment = getDiskAlignment(task);
    RankedTensorType type = cast<ViewAttr>(task.getViews()[0]).getType();
    for (Attribute attr : task.getViews()) {
      auto view = cast<ViewAttr>(attr);
      auto buffer = symbols.lookup<BufferOp>(view.getBuffer().getAttr());
      if (buffer && buffer.getArena() == Arena::Device)
        return task.emitOpError() << "\"" << task.getName()
                                  << "\" on disk views " << view.getBuffer()
                                  << " in device memory, expected host or nvme";
      inFiles += buffer && buffer.getArena() == Arena::Nvme;
      if (view.getType() != type)
        return task.emitOpError()
               << "\"" << task.getName() << "\" on disk copies " << type
               << " to " << view.getType() << ", expected one type";
      if (view.getOffset() % alignment || view.getBytes() % alignment ||
          view.getRankStride() != 0)
        return task.emitOpError()
               << "\"" << task.getName() << "\" on disk views "
               << view.getBytes() << " bytes at " << view.getOffset() << " of "
               << view.getBuffer() << ", expected multiples of " << alignment
               << " that are the same for all ranks";
    }
    if (inFiles != 1)
      return task.emitOpError()
             << "\"" << task.getName() << "\" on disk has " << inFiles
             << " views of nvme memory, expected 1 and 1 of host memory";
    auto skip = task.getSkip();
    auto buffer = skip ? symbols.lookup<BufferOp>(skip->getBuffer().getAttr())
                       : BufferOp();
    if (buffer && buffer.getArena() != Arena::Host)
      return task.emitOpError()
             << "\"" << task.getName() << "\" on disk is skipped by "
             << skip->getBuffer() << " in " << stringifyArena(buffer.getArena())
             << " memory, expected host";
    if (task.getScratch())
      return task.emitOpError()
             << "\"" << task.getName() << "\" on disk has scratch";
    return success();
  }

  static LogicalResult verify(ProgramOp program) {
    TaskOrder order(program, /*withEvents=*/true);
    for (auto &[buffer, touches] : order.touches()) {
      TouchIndex before;
      for (size_t from = 0, to = 0; from < touches.size(); from = to) {
        // All of one task, before any of them counts for the next.
        unsigned task = touches[from].task;
        for (; to < touches.size() && touches[to].task == task; ++to) {
          std::optional<unsigned> unordered;
          before.forEachConflict(touches[to], [&](const Touch &early) {
            if (!order.isBefore(early.task, task))
              unordered = std::min(unordered.value_or(early.task), early.task);
            return true;
          });
          if (!unordered)
            continue;
          TaskOp first = order.tasks()[*unordered];
          TaskOp second = order.tasks()[task];
          InFlightDiagnostic diag = second.emitOpError()
                                    << "\"" << second.getName() << "\" on "
                                    << stringifyStream(second.getStream())
                                    << " touches bytes of " << buffer
                                    << " that \"" << first.getName() << "\" on "
                                    << stringifyStream(first.getStream())
                                    << " touches too, and nothing orders them";
          diag.attachNote(first.getLoc()) << "the other task is here";
          return diag;
        }
        for (size_t i = from; i < to; ++i)
          before.add(touches[i]);
      }
    }
    return success();
  }
};
} // namespace
} // namespace ciuic::sched
