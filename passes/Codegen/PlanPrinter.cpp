//===- PlanPrinter.cpp - Prints the plan for people and tools -------------===//
#include "passes/Codegen/PlanPrinter.h"
#include "dialect/Train/Train.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/TaskOrder.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;
namespace json = llvm::json;

static int64_t arenaBytes(ModuleOp module, StringRef name) {
  auto attr = module->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

/// The role of a state's buffer, or what else a buffer holds.
static std::string contentOf(BufferOp buffer, SymbolTable &symbols) {
  if (buffer.getState()) {
    auto state = symbols.lookup<train::StateOp>(*buffer.getState());
    return state ? train::stringifyRole(state.getRole()).str() : "state";
  }
  if (buffer.getConstant())
    return "constant";
  return buffer.getProgram() ? "activation" : "input";
}

static StringRef labelOf(BufferOp buffer) {
  StringRef name = buffer.getSymName();
  name.consume_front("buf.");
  return name;
}

namespace {
/// First and last task that touch a buffer, by program order.
struct Life {
  unsigned first, last;
};
} // namespace

/// The task of `program` at which most bytes of `arena` are live, in program
/// order, and who holds them.
static json::Object peakOf(ArrayRef<TaskOp> tasks,
                           ArrayRef<std::pair<BufferOp, Life>> buffers) {
  std::vector<int64_t> change(tasks.size() + 1, 0);
  for (auto &[buffer, life] : buffers) {
    auto bytes = static_cast<int64_t>(BufferOp(buffer).getBytes());
    change[life.first] += bytes;
    change[life.last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  unsigned at = 0;
  for (unsigned i = 0; i < tasks.size(); ++i) {
    live += change[i];
    if (live > most) {
      most = live;
      at = i;
    }
  }
  json::Array holders;
  SmallVector<std::pair<BufferOp, Life>> sorted(buffers);
  llvm::sort(sorted, [](auto &a, auto &b) {
    return BufferOp(a.first).getBytes() > BufferOp(b.first).getBytes();
  });
  for (auto &[buffer, life] : sorted)
    if (life.first <= at && at <= life.last && holders.size() < 20)
      holders.push_back(json::Object{
          {"name", labelOf(buffer)},
          {"bytes", static_cast<int64_t>(BufferOp(buffer).getBytes())}});
  return json::Object{
      {"bytes", most},
      {"task", static_cast<int64_t>(at)},
      {"name", tasks.empty() ? "" : TaskOp(tasks[at]).getName().str()},
      {"holders", std::move(holders)}};
}

json::Value codegen::memoryPlan(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<StringAttr, Life> lives;
  json::Object peaks;
  for (auto program : module.getOps<ProgramOp>()) {
    TaskOrder order(program, /*withEvents=*/false);
    SmallVector<std::pair<BufferOp, Life>> mine[2];
    for (auto &[name, touches] : order.touches()) {
      auto buffer = symbols.lookup<BufferOp>(name);
      if (!buffer || !buffer.getProgram())
        continue;
      Life life{touches.front().task, touches.front().task};
      for (const Touch &touch : touches) {
        life.first = std::min(life.first, touch.task);
        life.last = std::max(life.last, touch.task);
      }
      lives[name] = life;
      mine[static_cast<unsigned>(buffer.getArena())].push_back({buffer, life});
    }
    json::Object byArena;
    byArena["device"] = peakOf(order.tasks(), mine[0]);
    byArena["host"] = peakOf(order.tasks(), mine[1]);
    peaks[program.getSymName()] = std::move(byArena);
  }

  json::Array buffers;
  for (auto buffer : module.getOps<BufferOp>()) {
    json::Object row{
        {"name", labelOf(buffer)},
        {"holds", contentOf(buffer, symbols)},
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
      tasks.push_back(std::move(row));
    }
    programs[program.getSymName()] = std::move(tasks);
  }
  return programs;
}
