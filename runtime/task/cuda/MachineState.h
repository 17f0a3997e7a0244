//===- MachineState.h - What the threads of a machine share -----*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_MACHINESTATE_H
#define CIUIC_RUNTIME_TASK_CUDA_MACHINESTATE_H

#include "runtime/base/Status.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace ciuic::rt {

/// The one lock and condition of a machine: enqueue threads sleep on it until
/// there is work, callers until work is done. The first failure is kept for
/// good, since what a failed program left behind is not known.
class MachineState {
public:
  std::mutex mutex;
  std::condition_variable changed;

  bool failed() const { return isFailed.load(std::memory_order_acquire); }

  /// Keeps the first failure, wakes all who wait and calls what was given to
  /// onFailure, in this thread.
  void fail(Status status) {
    if (status.ok())
      return;
    {
      std::scoped_lock lock(mutex);
      if (failed())
        return;
      failure = std::move(status);
      isFailed.store(true, std::memory_order_release);
    }
    changed.notify_all();
    for (const auto &action : actions)
      action();
  }

  /// A copy of the first failure, or success.
  Status status() {
    std::scoped_lock lock(mutex);
    return failed() ? Status(failure.code(), failure.str()) : Status();
  }

  /// What else is to be done when something fails; before threads start.
  void onFailure(std::function<void()> action) {
    actions.push_back(std::move(action));
  }

  /// Sleeps until `done()` or a failure. `done` is called with the lock held.
  template <typename Fn> Status waitUntil(Fn &&done) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return failed() || done(); });
    }
    return status();
  }

  /// As waitUntil(), but for this long at most; whether it is over.
  template <typename Fn> bool waitFor(double seconds, Fn &&done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::duration<double>(seconds),
                            [&] { return failed() || done(); });
  }

private:
  std::atomic<bool> isFailed{false};
  Status failure;
  std::vector<std::function<void()>> actions;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_MACHINESTATE_H
