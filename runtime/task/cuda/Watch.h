//===- Watch.h - Sees what does not end -------------------------*- C++ -*-===//
//
// A thread that looks, from time to time, at the collectives and programs that
// are on their way: a device that failed is reported though nobody waits for
// it, and a collective that has begun on a rank and does not complete within
// the timeout fails the machine, with what each rank last finished. It sleeps
// while nothing is on its way.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_WATCH_H
#define CIUIC_RUNTIME_TASK_CUDA_WATCH_H

#include "runtime/abi/Program.h"
#include "runtime/base/RankRange.h"
#include "runtime/task/cuda/MachineState.h"

#include <cuda_runtime.h>
#include <memory>

namespace ciuic::rt {

struct WatchOptions {
  double timeoutSeconds = 600;
  /// After a timeout the process is ended with exit code 3 if it has not ended
  /// by itself for so long.
  double graceSeconds = 30;
};

class Watch {
public:
  /// `poll` is called at each look: what else may have failed.
  static Result<std::unique_ptr<Watch>> create(MachineState &state,
                                               RankRange ranks,
                                               const WatchOptions &options,
                                               std::function<Status()> poll);
  ~Watch();

  /// Around what rank `localRank` (within the process) enqueues on a stream,
  /// by its enqueue thread: a collective, or a whole program (task null). What
  /// is not timed may take as long as it likes.
  Status begin(uint32_t localRank, const char *program, const abi::Task *task,
               cudaStream_t stream, bool timed);
  Status end(uint32_t localRank, cudaStream_t stream);

private:
  class Impl;
  explicit Watch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_WATCH_H
