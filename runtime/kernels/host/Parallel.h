//===- Parallel.h - Loops over fixed chunks ---------------------*- C++ -*-===//
//
// How work is divided depends on its size alone, never on the number of
// threads: so the same bits come out of any number of them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_PARALLEL_H
#define CIUIC_RUNTIME_KERNELS_HOST_PARALLEL_H

#include <algorithm>
#include <cstdint>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

namespace ciuic::rt {

/// Calls fn(chunk) for chunk in [0, chunks), each once, in any order, on the
/// threads of the arena. A thread that waits here takes no other task.
template <typename Fn> void parallelFor(int64_t chunks, const Fn &fn) {
  if (chunks <= 1) {
    if (chunks == 1)
      fn(int64_t(0));
    return;
  }
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, chunks, 1),
        [&](const tbb::blocked_range<int64_t> &range) {
          for (int64_t chunk = range.begin(); chunk < range.end(); ++chunk)
            fn(chunk);
        },
        tbb::simple_partitioner());
  });
}

inline int64_t chunkCount(int64_t count, int64_t grain) {
  return (count + grain - 1) / grain;
}

/// Calls fn(begin, end) for consecutive pieces of [0, count) of `grain`
/// elements, the last one shorter.
template <typename Fn>
void parallelChunks(int64_t count, int64_t grain, const Fn &fn) {
  parallelFor(chunkCount(count, grain), [&](int64_t chunk) {
    fn(chunk * grain, std::min(count, (chunk + 1) * grain));
  });
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_PARALLEL_H
