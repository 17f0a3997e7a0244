//===- PlanPrinter.cpp - Prints the plan for people and tools -------------===//
#include "passes/Codegen/PlanPrinter.h"
#include "dialect/Train/Train.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/Peak.h"

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

json::Value codegen::memoryPlan(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, Lifetime> lives;
  json::Object peaks;
  for (auto program : module.getOps<ProgramOp>()) {
    TaskOrder order(program, /*withEvents=*/false);
    SmallVector<Lifetime> lifetimes = lifetimesOf(order, symbols);
    for (Lifetime life : lifetimes)
      lives[life.buffer.getSymNameAttr()] = life;
    peaks[program.getSymName()] = json::Object{
        {"device", printPeak(lifetimes, order.tasks(), Arena::Device)},
        {"host", printPeak(lifetimes, order.tasks(), Arena::Host)}};
  }

  llvm::DenseSet<StringAttr> scratch = scratchOf(module);
  json::Array buffers;
  for (auto buffer : module.getOps<BufferOp>()) {
    json::Object row{
        {"name", labelOf(buffer)},
        {"holds", contentOf(buffer, symbols, scratch)},
        {"arena", stringifyArena(buffer.getArena())},
        {"bytes", static_cast<int64_t>(buffer.getBytes())},
        {"offset", static_cast<int64_t>(buffer.getAt().value_or(0))}};
    if (buffer.getProgram()) {
      row["program"] = *buffer.getProgram();
      if (auto it = lives.find(buffer.getSymNameAttr()); it != lives.end()) {
        row["first_task"] = static_cast<int64_t>(it->second.first);
        row["last_task"] = static_cast<int64_t>(it->second.last);
      }
    }
    buffers.push_back(std::move(row));
  }
  return json::Object{
      {"ranks", getRanks(module)},
      {"device_arena_bytes", arenaBytes(module, kDeviceArena)},
      {"host_arena_bytes_a_rank", arenaBytes(module, kHostArena)},
      {"peaks", std::move(peaks)},
      {"buffers", std::move(buffers)}};
}

json::Value codegen::schedulePlan(ModuleOp module) {
  json::Object programs;
  for (auto program : module.getOps<ProgramOp>()) {
    json::Array tasks;
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
                       {"bytes", bytes}};
      if (task.getKernel())
        row["kernel"] = *task.getKernel();
      if (task.getScratch())
        row["scratch_bytes"] = task.getScratch()->getBytes();
      tasks.push_back(std::move(row));
    }
    programs[program.getSymName()] = std::move(tasks);
  }
  return programs;
}
