//===- AllocateBuffers.cpp - Gives every buffer its offset ----------------===//
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/HostPhases.h"
#include "passes/Sched/PackBuffers.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/ProgramLives.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_ALLOCATEBUFFERSPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

/// One part of this many above the least possible will do.
static constexpr int64_t kTolerance = 500;

/// Bytes that an arena holds at most.
static constexpr int64_t kMostTotal = int64_t(1) << 60;

/// "12.3 MB" for people.
static std::string inUnits(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (bytes >= 1000000000)
    os << llvm::format("%.1f GB", bytes / 1e9);
  else if (bytes >= 1000000)
    os << llvm::format("%.1f MB", bytes / 1e6);
  else
    os << bytes << " bytes";
  return text;
}

/// Where in the model a task is: "layers.17 backward".
static std::string placeOf(TaskOp task) {
  StringRef program = cast<ProgramOp>(task->getParentOp()).getSymName();
  bool micro = program.starts_with("micro"), eval = program.starts_with("eval");
  if (!micro && !eval && program != "apply")
    return ("\"" + task.getName() + "\"").str();
  // Up to the number of the block, else the first word.
  SmallVector<StringRef> words;
  task.getName().split(words, '.');
  size_t count = 1;
  for (auto [i, word] : llvm::enumerate(words))
    if (unsigned number; !word.getAsInteger(10, number)) {
      count = i + 1;
      break;
    }
  std::string place = llvm::join(ArrayRef(words).take_front(count), ".");
  bool backward = llvm::is_contained(words, "bwd") || words.back() == "grad";
  if (micro)
    return place + (backward ? " backward" : " forward");
  return place + (eval ? " of the evaluation" : " update");
}

static StringRef labelOf(BufferOp buffer) {
  StringRef name = buffer.getSymName();
  name.consume_front("buf.");
  return name;
}

/// Largest first; equal sizes by name, so that messages are reproducible.
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
    SymbolTable symbols(module);
    SmallVector<ProgramOp> programs(module.getOps<ProgramOp>());
    SmallVector<TaskOrder> orders;
    for (ProgramOp program : programs)
      orders.emplace_back(program, /*withEvents=*/true);
    int64_t shared = 0; // Bytes of both arenas of all ranks.
    std::vector<HostPhase> phases;
    if (wholeHost && (hostLimit > 0 || sharedLimit > 0))
      phases = findHostPhases(module, processFacts());
    const HostPhase *phase = phases.empty() ? nullptr : &highestPhase(phases);
    int64_t beside = 0; // Bytes of all processes that are not in arenas.
    if (phase &&
        llvm::MulOverflow(phase->bytes(), processes.getValue(), beside))
      beside = kMostTotal;
    SmallVector<Transients> ofDevice;
    for (Arena arena : kAllArenas) {
      if (failed(checkTotal(module, arena)))
        return signalPassFailure();
      SmallVector<Transients> transients;
      for (auto [program, order] : llvm::zip_equal(programs, orders))
        transients.push_back(
            {program, findLives(order, symbols, arena, boundWork), 0});
      int64_t bytes = allocate(module, arena, transients);
      bool device = arena == Arena::Device;
      bool file = arena == Arena::Nvme;
      if (bytes > 0 || !file)
        module->setAttr(arenaAttr(arena), builder.getI64IntegerAttr(bytes));
      int64_t total = bytes;
      if (!device && llvm::MulOverflow(bytes, ranks, total))
        total = INT64_MAX;
      if (arena == Arena::Host && llvm::AddOverflow(total, beside, total))
        total = INT64_MAX;
      int64_t limit = device ? deviceLimit : file ? nvmeLimit : hostLimit;
      if (limit > 0 && total > limit) {
        refuse(module, arena, total, limit,
               device ? "on each device"
               : file ? "of NVMe"
                      : "of host memory",
               transients, arena == Arena::Host ? phase : nullptr);
        return signalPassFailure();
      }
      if (file)
        continue; // Not memory.
      int64_t others = 0;
      if (llvm::MulOverflow(bytes, ranks, total) ||
          llvm::AddOverflow(total, shared, others))
        others = INT64_MAX;
      shared = others;
      if (device && llvm::AddOverflow(shared, beside, shared))
        shared = INT64_MAX;
      if (sharedLimit > 0 && shared > sharedLimit) {
        std::string what = "of memory for all " + std::to_string(ranks) +
                           " ranks, devices and host together,";
        refuse(module, std::nullopt, shared, sharedLimit, what,
               device ? transients : ofDevice, phase);
        return signalPassFailure();
      }
      if (device)
        ofDevice = std::move(transients);
    }
  }

  /// What a program adds to the states.
  struct Transients {
    ProgramOp program;
    ProgramLives lives;
    int64_t bytes;
  };

  /// What is said before bytes that may be too few.
  static StringRef atLeast(bool exact) { return exact ? "" : "at least "; }

  ProcessFacts processFacts() {
    return {processes,
            threads,
            {{"libraries and start-up", "the machine", processBytes, false},
             {"stacks and packed matrices", "the machine", threadBytes, true}}};
  }

  static void place(BufferOp buffer, int64_t offset) {
    buffer.setAtAttr(Builder(buffer.getContext()).getI64IntegerAttr(offset));
  }

  /// Sums of bytes are not checked for overflow after this.
  static LogicalResult checkTotal(ModuleOp module, Arena arena) {
    int64_t total = 0;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena)
        continue;
      total += storedBytes(buffer);
      if (total > kMostTotal)
        return module.emitError()
               << "the buffers of the " << stringifyArena(arena)
               << " arena hold more than 2^60 bytes";
    }
    return success();
  }

  /// Places all buffers of `arena`; returns its bytes.
  static int64_t allocate(ModuleOp module, Arena arena,
                          MutableArrayRef<Transients> transients) {
    int64_t base = 0;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena || buffer.getProgram())
        continue;
      place(buffer, base);
      base += storedBytes(buffer);
    }
    // One that no task touches shares its bytes with all the others.
    int64_t most = base;
    for (auto buffer : module.getOps<BufferOp>()) {
      if (buffer.getArena() != arena || !buffer.getProgram())
        continue;
      place(buffer, base);
      most = std::max(most, base + storedBytes(buffer));
    }

    // The largest first: the others need only stay below it.
    SmallVector<Transients *> bySize;
    int64_t bound = most - base;
    for (Transients &program : transients) {
      bySize.push_back(&program);
      bound = std::max(bound, program.lives.bound.bytes);
    }
    llvm::stable_sort(bySize, [](Transients *a, Transients *b) {
      return a->lives.bound.bytes > b->lives.bound.bytes;
    });
    int64_t top = bound + (base + bound) / kTolerance;
    bool exact = true;
    for (Transients *program : bySize) {
      pack(*program, base, top);
      top = std::max(top, program->bytes);
      most = std::max(most, base + program->bytes);
      // A packing that takes no more proves it.
      program->lives.bound.exact |=
          program->bytes == program->lives.bound.bytes;
      exact &= program->lives.bound.exact;
    }
    exact |= most == base + bound;
    for (Transients &program : transients)
      if (!program.lives.buffers.empty())
        remark::analysis(
            module.getLoc(),
            remark::RemarkOpts::name("Allocated").category("memory"))
            << remark::add("program {0}, {1}: {2} bytes in {3} buffers over "
                           "{4} bytes of state, {5}{6} live at once",
                           program.program.getSymName(), stringifyArena(arena),
                           program.bytes, program.lives.buffers.size(), base,
                           atLeast(program.lives.bound.exact),
                           program.lives.bound.bytes);
    if (most > 0)
      remark::analysis(
          module.getLoc(),
          remark::RemarkOpts::name("Fragmentation").category("memory"))
          << remark::add("{0} arena: {1} bytes, {2}{3} live at once, {4} lost "
                         "({5:f2} %)",
                         stringifyArena(arena), most, atLeast(exact),
                         base + bound, most - base - bound,
                         100.0 * (most - base - bound) / (base + bound));
    return most;
  }

  /// Packs a program above `base` in about `enough` bytes.
  static void pack(Transients &program, int64_t base, int64_t enough) {
    ArrayRef<BufferOp> buffers = program.lives.buffers;
    SmallVector<StringRef> names;
    for (BufferOp buffer : buffers)
      names.push_back(buffer.getSymName());
    PackOptions options;
    options.enough = enough;
    const Lives &lives = program.lives.lives;
    Packing packing =
        packBuffers(lives, lives.findConflicts(options.work), names, options);
    for (auto [buffer, offset] : llvm::zip_equal(buffers, packing.offsets))
      place(buffer, base + offset);
    program.bytes = packing.bytes;
  }

  /// The task at which most bytes of these buffers are live.
  static TaskOp findTask(const Transients &program) {
    ArrayRef<uint32_t> holders = program.lives.bound.holders;
    ProgramOp of = program.program;
    SmallVector<TaskOp> tasks(of.getBody().getOps<TaskOp>());
    SmallVector<int64_t> change(tasks.size() + 1, 0);
    for (uint32_t i : holders) {
      const Life &life = program.lives.lives[i];
      change[life.first] += life.bytes;
      change[life.last + 1] -= life.bytes;
    }
    TaskOp at;
    int64_t live = 0, most = 0;
    for (auto [task, bytes] : llvm::zip(tasks, change)) {
      live += bytes;
      if (live > most) {
        most = live;
        at = task;
      }
    }
    return at;
  }

  /// Says by how much the job is too large, and who holds most at the peak.
  /// Without an arena those of both are meant; with a phase what processes hold
  /// in it counts too.
  void refuse(ModuleOp module, std::optional<Arena> arena, int64_t needs,
              int64_t has, StringRef what, ArrayRef<Transients> transients,
              const HostPhase *phase) {
    const Transients *largest = nullptr;
    for (const Transients &program : transients)
      if (!largest || program.bytes > largest->bytes)
        largest = &program;
    TaskOp at;
    SmallVector<BufferOp> holders;
    if (largest) {
      at = findTask(*largest);
      for (uint32_t i : largest->lives.bound.holders)
        holders.push_back(largest->lives.buffers[i]);
    }
    // Exact where the rounded numbers would not tell.
    std::string needsText = inUnits(needs), hasText = inUnits(has);
    if (needsText == hasText) {
      needsText = std::to_string(needs) + " bytes";
      hasText = std::to_string(has) + " bytes";
    }
    InFlightDiagnostic diag = module.emitError() << "does not fit: needs "
                                                 << needsText << " " << what;
    if (phase)
      diag << " at " << phase->name;
    else if (at)
      diag << " at " << placeOf(at);
    diag << ", has " << hasText;
    Diagnostic &exact = diag.attachNote(module.getLoc());
    exact << "exactly " << needs << " bytes, of which there are " << has;
    if (at)
      exact << "; most at the task \"" << at.getName() << "\" of "
            << cast<ProgramOp>(at->getParentOp()).getSymName();
    if (phase)
      tellParts(module, diag, *phase);

    // States are held all the time; the rest at the peak.
    for (auto buffer : module.getOps<BufferOp>())
      if (!buffer.getProgram() &&
          buffer.getArena() == arena.value_or(buffer.getArena()))
        holders.push_back(buffer);
    sortBySize(holders);
    for (BufferOp buffer : ArrayRef(holders).take_front(10))
      diag.attachNote(module.getLoc())
          << inUnits(buffer.getBytes()) << " for " << labelOf(buffer)
          << (buffer.getState() ? ", all the time" : "")
          << (arena == Arena::Device ? "" : ", for each rank");
  }

  /// What a process holds beside its arenas.
  void tellParts(ModuleOp module, InFlightDiagnostic &diag,
                 const HostPhase &phase) {
    Diagnostic &sum = diag.attachNote(module.getLoc());
    sum << phase.bytes() << " bytes of them beside the arenas";
    if (processes > 1)
      sum << " of each of " << processes.getValue() << " processes";
    StringRef separator = ": ";
    for (const HostPart &part : phase.parts) {
      if (part.bytes == 0)
        continue;
      sum << separator << inUnits(part.bytes) << " for " << part.name;
      separator = ", ";
    }
  }
};
} // namespace
} // namespace ciuic::sched
