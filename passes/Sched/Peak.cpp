//===- Peak.cpp - Where a program holds most bytes ------------------------===//
#include "passes/Sched/Peak.h"

using namespace mlir;
using namespace ciuic::sched;

SmallVector<Lifetime> ciuic::sched::lifetimesOf(const TaskOrder &order,
                                                const SymbolTable &symbols) {
  SmallVector<Lifetime> lifetimes;
  for (const auto &[name, touches] : order.touches()) {
    auto buffer = symbols.lookup<BufferOp>(name);
    if (!buffer || !buffer.getProgram())
      continue;
    Lifetime life{buffer, touches.front().task, touches.front().task};
    for (const Touch &touch : touches) {
      life.first = std::min(life.first, touch.task);
      life.last = std::max(life.last, touch.task);
    }
    lifetimes.push_back(life);
  }
  return lifetimes;
}

Peak ciuic::sched::findPeak(ArrayRef<Lifetime> lifetimes, unsigned tasks,
                            Arena arena) {
  // Bytes that come and go at each task.
  SmallVector<int64_t> change(tasks + 1, 0);
  auto isHere = [&](Lifetime life) { return life.buffer.getArena() == arena; };
  for (Lifetime life : lifetimes) {
    if (!isHere(life))
      continue;
    auto bytes = static_cast<int64_t>(life.buffer.getBytes());
    change[life.first] += bytes;
    change[life.last + 1] -= bytes;
  }
  Peak peak;
  int64_t live = 0;
  for (unsigned task = 0; task < tasks; ++task) {
    live += change[task];
    if (live > peak.bytes) {
      peak.bytes = live;
      peak.task = task;
    }
  }
  for (Lifetime life : lifetimes)
    if (isHere(life) && life.first <= peak.task && peak.task <= life.last)
      peak.holders.push_back(life.buffer);
  llvm::sort(peak.holders, [](BufferOp a, BufferOp b) {
    if (a.getBytes() != b.getBytes())
      return a.getBytes() > b.getBytes();
    return a.getSymName() < b.getSymName();
  });
  return peak;
}
