//===- CollectiveThread.h - Collectives in one static order -----*- C++ -*-===//
//
// Where ranks are in several processes a collective waits for others: no task
// may do that, so a thread of its own does. It runs the collectives of a
// program one by one, in the program's order, which is the same in every
// process: whatever order tasks get ready in, no two processes ever wait for
// each other in different collectives. A collective depends on earlier tasks
// only, so the next one in order always gets ready.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_COLLECTIVETHREAD_H
#define CIUIC_RUNTIME_TASK_COLLECTIVETHREAD_H

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ciuic::rt {

class CollectiveThread {
public:
  /// `run` is called for each collective, on this object's thread, and tells
  /// the graph when it is done.
  explicit CollectiveThread(std::function<void(size_t node)> run);
  ~CollectiveThread();

  /// Begins a program whose collectives are these nodes, in order. All those of
  /// the one before have run.
  void begin(const std::vector<size_t> &nodes);

  /// All tasks that the `index`-th collective depends on are done.
  void markReady(size_t index);

private:
  void loop();

  std::function<void(size_t)> run;
  std::mutex mutex;
  std::condition_variable changed;
  const std::vector<size_t> *order = nullptr;
  std::vector<bool> ready; ///< A collective each.
  size_t next = 0;
  bool ending = false;
  std::thread thread;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_COLLECTIVETHREAD_H
