//===- CollectiveThread.cpp - Collectives in one static order -------------===//
#include "runtime/task/CollectiveThread.h"

namespace ciuic::rt {

CollectiveThread::CollectiveThread(std::function<void(size_t node)> run)
    : run(std::move(run)), thread([this] { loop(); }) {}

CollectiveThread::~CollectiveThread() {
  {
    std::scoped_lock lock(mutex);
    ending = true;
  }
  changed.notify_one();
  thread.join();
}

void CollectiveThread::begin(const std::vector<size_t> &nodes) {
  std::scoped_lock lock(mutex);
  order = &nodes;
  ready.assign(nodes.size(), false);
  next = 0;
}

void CollectiveThread::markReady(size_t index) {
  {
    std::scoped_lock lock(mutex);
    ready[index] = true;
  }
  changed.notify_one();
}

void CollectiveThread::loop() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(
        lock, [&] { return ending || (next < ready.size() && ready[next]); });
    if (ending)
      return;
    size_t node = (*order)[next++];
    lock.unlock();
    run(node);
    lock.lock();
  }
}

} // namespace ciuic::rt
