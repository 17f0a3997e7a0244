//===- Timeline.cpp - When each task runs ---------------------------------===//
#include "passes/Analysis/Timeline.h"
#include "passes/Analysis/TaskTimes.h"
#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <cassert>

using namespace mlir;
using namespace ciuic::sched;

double Timeline::idle() const {
  return total - *std::max_element(busy.begin(), busy.end());
}

Timeline ciuic::sched::playTasks(ArrayRef<TimedTask> tasks) {
  Timeline line;
  line.start.reserve(tasks.size());
  line.end.reserve(tasks.size());
  std::array<double, std::tuple_size_v<decltype(line.busy)>> last{};
  for (const TimedTask &task : tasks) {
    double start = last[task.stream];
    for (unsigned earlier : task.waits) {
      assert(earlier < line.end.size() && "waits for a later task");
      start = std::max(start, line.end[earlier]);
    }
    double end = start + task.microseconds;
    line.start.push_back(start);
    line.end.push_back(end);
    line.busy[task.stream] += task.microseconds;
    last[task.stream] = end;
    line.total = std::max(line.total, end);
  }
  return line;
}

Timeline ciuic::sched::playProgram(ProgramOp program, const Rates &rates) {
  llvm::DenseMap<Value, unsigned> numbers;
  std::vector<std::vector<unsigned>> waits;
  std::vector<TimedTask> tasks;
  for (auto task : program.getBody().getOps<TaskOp>()) {
    std::vector<unsigned> &mine = waits.emplace_back();
    for (Value event : task.getAfter())
      mine.push_back(numbers.lookup(event));
    numbers[task.getDone()] = tasks.size();
    tasks.push_back({static_cast<unsigned>(task.getStream()),
                     microsecondsOf(task, rates),
                     {}});
  }
  for (auto [task, mine] : llvm::zip_equal(tasks, waits))
    task.waits = mine;
  return playTasks(tasks);
}

double ciuic::sched::stepMicroseconds(ModuleOp module, int64_t accumulation,
                                      const Rates &rates) {
  double total = 0;
  for (auto program : module.getOps<ProgramOp>()) {
    double times =
        llvm::StringSwitch<double>(program.getSymName())
            .Case("micro_first", 1)
            .Case("micro_next", static_cast<double>(accumulation) - 1)
            .Case("apply", 1)
            .Default(0);
    if (times > 0)
      total += times * playProgram(program, rates).total;
  }
  return total;
}
