//===- BufferOrder.cpp - Which buffers are never live together ------------===//
#include "passes/Sched/BufferOrder.h"

using namespace mlir;
using namespace ciuic::sched;

BufferOrder::BufferOrder(ModuleOp module) {
  for (auto program : module.getOps<ProgramOp>()) {
    TaskOrder order(program, /*withEvents=*/true);
    for (auto &[buffer, touches] : order.touches()) {
      Life life{program.getSymNameAttr(), {}, {}};
      life.start.fill(INT32_MAX);
      for (const Touch &touch : touches) {
        unsigned stream = order.streamOf(touch.task);
        life.last[stream] =
            std::max(life.last[stream], order.positionOf(touch.task) + 1);
        for (unsigned s = 0; s < kStreams; ++s)
          life.start[s] = std::min(life.start[s], order.clockOf(touch.task)[s]);
      }
      lives[buffer] = life;
    }
  }
}

bool BufferOrder::isBefore(const Life &a, const Life &b) {
  for (unsigned s = 0; s < kStreams; ++s)
    if (a.last[s] > b.start[s])
      return false;
  return true;
}

bool BufferOrder::areOrdered(BufferOp a, BufferOp b) const {
  // States, inputs and constants live all the time.
  if (!a.getProgram() || !b.getProgram())
    return false;
  if (a.getProgramAttr() != b.getProgramAttr())
    return true;
  auto first = lives.find(a.getSymNameAttr());
  auto second = lives.find(b.getSymNameAttr());
  if (first == lives.end() || second == lives.end())
    return true;
  return isBefore(first->second, second->second) ||
         isBefore(second->second, first->second);
}
