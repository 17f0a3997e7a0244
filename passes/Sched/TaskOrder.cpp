//===- TaskOrder.cpp - What must happen before what -----------------------===//
#include "passes/Sched/TaskOrder.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace ciuic::sched;

TaskOrder::TaskOrder(ProgramOp program, bool withEvents) {
  int64_t ranks = getRanks(program);
  last.fill(-1);
  std::array<int32_t, kStreams> counts{};
  llvm::DenseMap<Value, unsigned> numbers;
  for (auto task : program.getBody().getOps<TaskOp>()) {
    unsigned number = list.size();
    numbers[task.getDone()] = number;
    list.push_back(task);
    position.push_back(counts[static_cast<unsigned>(task.getStream())]++);
    auto touch = [&](ViewAttr view) {
      int64_t reach = (ranks - 1) * view.getRankStride() + view.getBytes();
      byBuffer[view.getBuffer().getAttr()].push_back(
          {number, view.getOffset(), view.getOffset() + reach, view.writes()});
    };
    for (Attribute view : task.getViews())
      touch(cast<ViewAttr>(view));
    if (task.getSkip())
      touch(*task.getSkip());
    if (task.getScratch())
      touch(*task.getScratch());
  }
  clocks.resize(list.size(), Clock{});
  if (!withEvents)
    return;
  for (unsigned task = 0; task < list.size(); ++task) {
    for (Value event : list[task].getAfter())
      addWait(task, numbers.lookup(event));
    finish(task);
  }
}

bool TaskOrder::addWait(unsigned task, unsigned earlier) {
  unsigned stream = streamOf(earlier);
  // Its own stream is an order already, and waits add up.
  Clock &clock = clocks[task];
  if (stream == streamOf(task) || position[earlier] < clock[stream])
    return false;
  // Also implied if the stream's previous task waited for it.
  if (int32_t previous = last[streamOf(task)]; previous >= 0)
    if (position[earlier] < clocks[previous][stream])
      return false;
  for (unsigned s = 0; s < kStreams; ++s)
    clock[s] = std::max(clock[s], clocks[earlier][s]);
  clock[stream] = std::max(clock[stream], position[earlier] + 1);
  return true;
}

void TaskOrder::finish(unsigned task) {
  Clock &clock = clocks[task];
  unsigned stream = streamOf(task);
  if (int32_t previous = last[stream]; previous >= 0)
    for (unsigned s = 0; s < kStreams; ++s)
      clock[s] = std::max(clock[s], clocks[previous][s]);
  clock[stream] = position[task]; // All earlier ones of the stream.
  last[stream] = task;
}

Life TaskOrder::lifeOf(llvm::ArrayRef<Touch> touches) const {
  Life life;
  life.first = UINT32_MAX;
  life.start.fill(INT32_MAX);
  for (const Touch &touch : touches) {
    unsigned stream = streamOf(touch.task);
    life.first = std::min(life.first, touch.task);
    life.last = std::max(life.last, touch.task);
    life.end[stream] = std::max(life.end[stream], positionOf(touch.task) + 1);
    for (unsigned s = 0; s < kStreams; ++s)
      life.start[s] = std::min(life.start[s], clockOf(touch.task)[s]);
  }
  return life;
}
