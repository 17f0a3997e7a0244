//===- ProgramLives.cpp - When the buffers of a program live --------------===//
#include "passes/Sched/ProgramLives.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic::sched;

int64_t ciuic::sched::storedAlignment(BufferOp buffer) {
  return buffer.getArena() == Arena::Device ? kBufferAlignment
                                            : getDiskAlignment(buffer);
}

int64_t ciuic::sched::storedBytes(BufferOp buffer) {
  return llvm::alignTo(static_cast<int64_t>(buffer.getBytes()),
                       storedAlignment(buffer));
}

ProgramLives ciuic::sched::findLives(const TaskOrder &order,
                                     const SymbolTable &symbols, Arena arena,
                                     int64_t boundWork) {
  SmallVector<std::pair<Life, BufferOp>> found;
  for (const auto &[name, touches] : order.touches()) {
    auto buffer = symbols.lookup<BufferOp>(name);
    if (!buffer || !buffer.getProgram() || buffer.getArena() != arena)
      continue;
    Life life = order.lifeOf(touches);
    life.bytes = storedBytes(buffer);
    found.push_back({life, buffer});
  }
  llvm::stable_sort(found, [](const auto &a, const auto &b) {
    return a.first.first < b.first.first;
  });
  SmallVector<BufferOp> buffers;
  std::vector<Life> lives;
  for (auto &[life, buffer] : found) {
    lives.push_back(life);
    buffers.push_back(buffer);
  }
  std::vector<Clock> clocks;
  for (unsigned task = 0; task < order.tasks().size(); ++task)
    clocks.push_back(order.clockOf(task));
  Lives all(std::move(lives), clocks);
  LiveBound bound = findLiveBound(all, boundWork);
  return {std::move(buffers), std::move(all), std::move(bound)};
}

int64_t ciuic::sched::lastingBytes(ModuleOp module, Arena arena) {
  int64_t bytes = 0;
  for (auto buffer : module.getOps<BufferOp>())
    if (buffer.getArena() == arena && !buffer.getProgram())
      bytes += storedBytes(buffer);
  return bytes;
}
