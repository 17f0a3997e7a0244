//===- BufferOrder.cpp - When each buffer of a module lives ---------------===//
#include "passes/Sched/BufferOrder.h"

using namespace mlir;
using namespace ciuic::sched;

BufferOrder::BufferOrder(ModuleOp module) {
  for (auto program : module.getOps<ProgramOp>()) {
    TaskOrder order(program, /*withEvents=*/true);
    for (auto &[buffer, touches] : order.touches())
      lives[buffer] = order.lifeOf(touches);
  }
}

const Life *BufferOrder::find(BufferOp buffer) const {
  if (!buffer.getProgram())
    return nullptr;
  auto it = lives.find(buffer.getSymNameAttr());
  return it == lives.end() ? nullptr : &it->second;
}
