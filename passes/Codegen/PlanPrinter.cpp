//===- PlanPrinter.cpp - Prints the plan for people and tools -------------===//
#include "passes/Codegen/PlanPrinter.h"
#include "dialect/Comm/Comm.h"
#include "dialect/Train/Train.h"
#include "passes/Analysis/Timeline.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/Peak.h"
#include "passes/Sched/ProgramLives.h"

#include <map>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;
namespace json = llvm::json;

static int64_t arenaBytes(ModuleOp module, StringRef name) {
  auto attr = module->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

/// Buffers that one task uses while it runs.
static llvm::DenseSet<StringAttr> scratchOf(ModuleOp module) {
  llvm::DenseSet<StringAttr> buffers;
  module.walk([&](TaskOp task) {
    if (task.getScratch())
      buffers.insert(task.getScratch()->getBuffer().getAttr());
  });
  return buffers;
}

/// The role of a state's buffer, or what else a buffer holds.
static std::string contentOf(BufferOp buffer, SymbolTable &symbols,
                             const llvm::DenseSet<StringAttr> &scratch) {
  if (buffer.getState()) {
    auto state = symbols.lookup<train::StateOp>(*buffer.getState());
    return state ? train::stringifyRole(state.getRole()).str() : "state";
  }
  if (buffer.getConstant())
    return "constant";
  if (scratch.contains(buffer.getSymNameAttr()))
    return "scratch";
  return buffer.getProgram() ? "activation" : "input";
}

/// What the transients that collectives and scratch stand for hold, by name.
static llvm::DenseMap<StringAttr, StringRef>
transientContents(ModuleOp module, const SymbolTable &symbols) {
  llvm::DenseMap<StringAttr, StringRef> contents;
  auto note = [&](Attribute view, StringRef holds) {
    contents[cast<ViewAttr>(view).getBuffer().getAttr()] = holds;
  };
  for (auto program : module.getOps<ProgramOp>())
    for (auto task : program.getBody().getOps<TaskOp>()) {
      if (task.getScratch())
        note(*task.getScratch(), "scratch");
      ArrayAttr views = task.getViews();
      if (views.size() < 2)
        continue;
      // Parameters of the host are copied up as others are gathered.
      auto source = symbols.lookup<BufferOp>(
          cast<ViewAttr>(views[0]).getBuffer().getAttr());
      bool copiesUp = task.getStream() == Stream::H2D &&
                      task->hasAttr(kUseAttr) && source && source.getState();
      if (task.getKind() == Kind::AllGather || copiesUp) {
        note(views[1], "gathered");
      } else if (task.getStream() == Stream::Disk) {
        // What is brought from a file, or what goes there.
        for (Attribute view : views)
          note(view, "staged");
      } else if (task.getKind() == Kind::ReduceScatter ||
                 (task.getKind() == Kind::AllReduce &&
                  program.getSymName().starts_with("micro"))) {
        note(views[0], "partial gradient");
        note(views[1], "reduced gradient");
      }
    }
  return contents;
}

static StringRef labelOf(BufferOp buffer) {
  StringRef name = buffer.getSymName();
  name.consume_front("buf.");
  return name;
}

/// The task at which most bytes of `arena` are live, and who holds them.
static json::Object printPeak(ArrayRef<Lifetime> lifetimes,
                              ArrayRef<TaskOp> tasks, Arena arena) {
  constexpr size_t shown = 20;
  Peak peak = findPeak(lifetimes, tasks.size(), arena);
  json::Array holders;
  for (BufferOp buffer : ArrayRef(peak.holders).take_front(shown))
    holders.push_back(
        json::Object{{"name", labelOf(buffer)},
                     {"bytes", static_cast<int64_t>(buffer.getBytes())}});
  TaskOp at = tasks.empty() ? TaskOp() : tasks[peak.task];
  return json::Object{{"bytes", peak.bytes},
                      {"task", static_cast<int64_t>(peak.task)},
                      {"name", at ? at.getName().str() : ""},
                      {"holders", std::move(holders)}};
}

/// "64x32xbf16"
static std::string typeOf(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (int64_t size : type.getShape())
    os << size << "x";
  os << type.getElementType();
  return text;
}

static int64_t elementBytes(RankedTensorType type) {
  return type.getElementTypeBitWidth() / 8;
}

/// Where each parameter of the model lies in its bucket, in elements.
static json::Array printParameters(ModuleOp module) {
  json::Array parameters;
  for (auto state : module.getOps<train::StateOp>())
    if (state.getBucket())
      parameters.push_back(json::Object{
          {"name", state.getSymName()},
          {"bucket", *state.getBucket()},
          {"at", static_cast<int64_t>(state.getOffset().value_or(0))},
          {"elements", state.getTensorType().getNumElements()},
          {"type", typeOf(state.getTensorType())},
          {"trainable", state.getTrainable()}});
  return parameters;
}

static json::Array printBuckets(ModuleOp module) {
  json::Array buckets;
  for (auto bucket : module.getOps<comm::BucketOp>())
    buckets.push_back(
        json::Object{{"name", bucket.getSymName()},
                     {"elements", static_cast<int64_t>(bucket.getElements())},
                     {"chunk", static_cast<int64_t>(bucket.getChunk())}});
  return buckets;
}

/// What a buffer's state says of it.
static void addState(json::Object &row, BufferOp buffer, SymbolTable &symbols) {
  auto state = symbols.lookup<train::StateOp>(*buffer.getState());
  if (!state)
    return;
  row["state"] = state.getSymName();
  if (state.getSlot())
    row["slot"] = *state.getSlot();
  if (state.getOf())
    row["bucket"] = *state.getOf();
  row["sharded"] = state.getSharded();
  row["element_bytes"] = elementBytes(state.getTensorType());
}

/// What a process holds beside its arenas in each part of a run.
static json::Object printPhases(ModuleOp module, const ProcessFacts &process) {
  json::Object phases;
  for (const HostPhase &phase : findHostPhases(module, process)) {
    json::Array parts;
    for (const HostPart &part : phase.parts)
      if (part.bytes > 0)
        parts.push_back(json::Object{{"name", part.name},
                                     {"bytes", part.bytes},
                                     {"source", part.source}});
    phases[phase.name] =
        json::Object{{"bytes", phase.bytes()}, {"parts", std::move(parts)}};
  }
  return phases;
}

/// A row a buffer.
static void printBuffers(ModuleOp module, SymbolTable &symbols,
                         const llvm::DenseMap<StringAttr, Lifetime> &lives,
                         json::OStream &os) {
  llvm::DenseSet<StringAttr> scratch = scratchOf(module);
  auto contents = transientContents(module, symbols);
  for (auto buffer : module.getOps<BufferOp>()) {
    std::string holds = contentOf(buffer, symbols, scratch);
    if (buffer.getProgram())
      if (auto it = contents.find(buffer.getSymNameAttr());
          it != contents.end())
        holds = it->second.str();
    json::Object row{
        {"name", labelOf(buffer)},
        {"holds", holds},
        {"arena", stringifyArena(buffer.getArena())},
        {"bytes", static_cast<int64_t>(buffer.getBytes())},
        {"offset", static_cast<int64_t>(buffer.getAt().value_or(0))}};
    if (buffer.getState())
      addState(row, buffer, symbols);
    if (buffer.getProgram()) {
      row["program"] = *buffer.getProgram();
      if (auto it = lives.find(buffer.getSymNameAttr()); it != lives.end()) {
        row["first_task"] = static_cast<int64_t>(it->second.first);
        row["last_task"] = static_cast<int64_t>(it->second.last);
      }
    }
    os.value(std::move(row));
  }
}

void codegen::printMemoryPlan(ModuleOp module, const ProcessFacts &process,
                              json::OStream &os) {
  constexpr ArrayRef<Arena> arenas(kAllArenas);
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, Lifetime> lives;
  json::Object peaks;
  int64_t bounds[std::size(kAllArenas)] = {};
  json::Object exact;
  for (Arena arena : arenas)
    exact[stringifyArena(arena)] = true;
  for (auto program : module.getOps<ProgramOp>()) {
    TaskOrder order(program, /*withEvents=*/true);
    SmallVector<Lifetime> lifetimes = lifetimesOf(order, symbols);
    for (Lifetime life : lifetimes)
      lives[life.buffer.getSymNameAttr()] = life;
    json::Object byArena;
    for (auto [arena, bound] : llvm::zip(arenas, bounds)) {
      LiveBound least = findLives(order, symbols, arena).bound;
      bound = std::max(bound, least.bytes);
      if (!least.exact)
        exact[stringifyArena(arena)] = false;
      json::Object peak = printPeak(lifetimes, order.tasks(), arena);
      peak["live_bound"] = least.bytes;
      byArena[stringifyArena(arena)] = std::move(peak);
    }
    peaks[program.getSymName()] = std::move(byArena);
  }

  json::Object live, fragmentation;
  for (auto [arena, bound] : llvm::zip(arenas, bounds)) {
    StringRef name = stringifyArena(arena);
    int64_t least = lastingBytes(module, arena) + bound;
    live[name] = least;
    int64_t lost = arenaBytes(module, arenaAttr(arena)) - least;
    fragmentation[name] = lost;
    if (lost == 0) // A packing that takes no more proves the bound.
      exact[name] = true;
  }
  json::Object plan{{"ranks", getRanks(module)},
                    {"device_arena_bytes", arenaBytes(module, kDeviceArena)},
                    {"host_arena_bytes_a_rank", arenaBytes(module, kHostArena)},
                    {"nvme_arena_bytes_a_rank", arenaBytes(module, kNvmeArena)},
                    {"live_bound", std::move(live)},
                    {"live_bound_exact", std::move(exact)},
                    {"fragmentation", std::move(fragmentation)},
                    {"peaks", std::move(peaks)},
                    {"processes", process.processes},
                    {"threads_a_process", process.threads},
                    {"phases", printPhases(module, process)},
                    {"buckets", printBuckets(module)},
                    {"parameters", printParameters(module)}};
  std::map<StringRef, const json::Value *> sorted;
  for (const auto &[key, value] : plan)
    sorted[key] = &value;
  // Of buffers there may be a million: they are not held as JSON.
  os.object([&] {
    for (auto [key, value] : sorted)
      os.attribute(key, *value);
    os.attributeArray("buffers",
                      [&] { printBuffers(module, symbols, lives, os); });
  });
}

/// What a task reads and writes of which buffers.
static json::Array printViews(TaskOp task) {
  json::Array views;
  auto add = [&](ViewAttr view, StringRef access) {
    StringRef name = view.getBuffer().getValue();
    name.consume_front("buf.");
    json::Object row{{"buffer", name},
                     {"access", access},
                     {"offset", view.getOffset()},
                     {"bytes", view.getBytes()},
                     {"element_bytes", elementBytes(view.getType())}};
    if (view.getRankStride() != 0)
      row["rank_stride"] = view.getRankStride();
    views.push_back(std::move(row));
  };
  for (Attribute attr : task.getViews()) {
    auto view = cast<ViewAttr>(attr);
    add(view, stringifyAccess(view.getAccess()));
  }
  if (task.getSkip())
    add(*task.getSkip(), "skip");
  if (task.getScratch())
    add(*task.getScratch(), "scratch");
  return views;
}

/// To an eighth, which a double has exactly.
static double roundedTime(double microseconds) {
  return std::round(microseconds * 8) / 8;
}

/// A row a task.
static void printTasks(ProgramOp program, const Rates &rates,
                       json::OStream &os) {
  Timeline times = playProgram(program, rates);
  llvm::DenseMap<Value, int64_t> numbers;
  for (auto task : program.getBody().getOps<TaskOp>()) {
    json::Array waits;
    for (Value event : task.getAfter())
      waits.push_back(numbers.lookup(event));
    int64_t bytes = 0;
    for (Attribute view : task.getViews())
      bytes += cast<ViewAttr>(view).getBytes();
    int64_t number = numbers.size();
    numbers[task.getDone()] = number;
    json::Object row{{"task", number},
                     {"name", task.getName()},
                     {"kind", stringifyKind(task.getKind())},
                     {"stream", stringifyStream(task.getStream())},
                     {"waits", std::move(waits)},
                     {"start_us", roundedTime(times.start[number])},
                     {"end_us", roundedTime(times.end[number])},
                     {"bytes", bytes},
                     {"views", printViews(task)}};
    if (task.getKernel())
      row["kernel"] = *task.getKernel();
    if (task.getScratch())
      row["scratch_bytes"] = task.getScratch()->getBytes();
    os.value(std::move(row));
  }
}

void codegen::printSchedulePlan(ModuleOp module, json::OStream &os) {
  Rates rates = getRates(module);
  os.object([&] {
    for (auto program : module.getOps<ProgramOp>())
      os.attributeArray(program.getSymName(),
                        [&] { printTasks(program, rates, os); });
  });
}
