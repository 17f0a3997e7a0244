//===- Grid.h - Runs a kernel's threads as fibers ---------------*- C++ -*-===//
//
// Blocks run one at a time. The threads of a block are fibers of one host
// thread: each runs until it ends or waits, at a barrier for its block or in
// an exchange for lanes of its warp. Which warp and which lane goes on next is
// drawn at random.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_GRID_H
#define CIUIC_TEST_CUDA_ON_HOST_GRID_H

#include "test/cuda_on_host/SharedShadow.h"
#include "test/cuda_on_host/include/onhost_device.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ciuic::onhost {

inline constexpr unsigned kMostThreads = 1024;
inline constexpr unsigned kLanes = 32;
/// What a block may ask for, as on sm_80 and up to sm_90.
inline constexpr size_t kMostDynamicShared = 227 * 1024;

/// A kernel that was launched: calls `thread(closure)` once a thread.
struct GridLaunch {
  std::string name;
  dim3 grid;
  dim3 block;
  size_t sharedBytes = 0;
  void (*thread)(const void *closure) = nullptr;
  const void *closure = nullptr;
  size_t closureBytes = 0;
};

/// What a lane waits for, and what it brought.
struct WarpWait {
  Exchange kind;
  uint32_t mask;
  uint64_t value; ///< In: what it offers. Out: what it gets.
  int argument;
  int width;
  const char *file;
  int line;
};

/// One asynchronous copy of 16 bytes.
struct AsyncCopy {
  char *shared;
  const char *global; ///< Null: zeros.
};

struct Fiber {
  void *stackPointer = nullptr;
  char *stack = nullptr; ///< Lowest usable byte.
  bool entered = false;  ///< Its frames are alive.

  // Of the thread that it runs.
  unsigned thread = 0; ///< Linear index in its block.
  uint3 index = {0, 0, 0};
  WarpWait wait;
  const char *barrierFile = nullptr;
  int barrierLine = 0;
  std::vector<AsyncCopy> copies;
  std::vector<size_t> groups; ///< Ends of committed groups in `copies`.
};

/// The state of the block that runs.
class Grid {
public:
  Grid();

  /// Runs all blocks; false if it was given up, which was reported.
  bool run(const GridLaunch &launch, uint64_t seed);

  /// Whether the kernel's own code runs, and not what it called here. That
  /// may be instrumented too, where a library shares inline functions.
  bool inKernel = false;

  // What follows is called from within a thread of the block.
  Fiber &self() { return *running; }
  void barrier(const char *file, int line);
  uint64_t exchange(const WarpWait &wait);
  uint32_t liveLanes() const;
  /// An access of the running thread. Does not return if it is not allowed.
  void access(uintptr_t address, size_t bytes, bool isWrite);
  /// The same of any number of bytes at any address.
  void accessRange(const void *pointer, size_t bytes, bool isWrite);
  uint64_t atomic(int kind, int type, void *address, uint64_t value,
                  uint64_t compare);
  void copyAsync(void *shared, const void *global, bool valid);
  void commitCopies();
  void waitCopies(size_t groupsLeft);

  /// Reports and gives the whole kernel up.
  [[noreturn]] void fail(const std::string &what);

  char *dynamicShared();

  uint3 blockIndex = {0, 0, 0};
  dim3 blockSize;
  dim3 gridSize;

private:
  /// While it lives the kernel's own code does not run.
  struct Outside {
    explicit Outside(Grid &grid) : grid(grid) { grid.inKernel = false; }
    ~Outside() { grid.inKernel = true; }
    Grid &grid;
  };
  void touch(uintptr_t address, size_t bytes, bool isWrite);
  struct Warp {
    uint32_t lanes = 0;    ///< That exist.
    uint32_t fresh = 0;    ///< Not started.
    uint32_t runnable = 0; ///< Started and able to go on.
    uint32_t waiting = 0;  ///< In an exchange.
    uint32_t atBarrier = 0;
    uint32_t done = 0;
    unsigned rotation = 0; ///< Where the choice of a lane starts.
  };

  static void enter();
  void runBlock();
  bool releaseBarrier();
  void describeStuck();
  void runWarp(unsigned warp);
  Fiber &chooseLane(unsigned warp);
  void yield();
  void prepare(Fiber &fiber);
  void finishExchange(Warp &warp, unsigned warpIndex, const WarpWait &wait);
  unsigned draw();
  std::string where() const;
  Moment moment() const;
  bool isHarmless(uintptr_t address, size_t bytes);
  void setThread(Fiber &fiber, unsigned thread);

  const GridLaunch *launch = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Fiber *> idle;
  std::array<Fiber *, kMostThreads> ofThread = {};
  std::array<Warp, kMostThreads / kLanes> warps;
  Fiber *running = nullptr;
  unsigned runningWarp = 0;
  void *scheduler = nullptr; ///< Its stack pointer while a fiber runs.
  unsigned warpCount = 0;
  unsigned threadCount = 0;
  uint32_t blockNumber = 0; ///< Linear, from 1.
  uint32_t serial = 0;      ///< Of the block; never 0 while one runs.
  uint32_t barriers = 0;    ///< That the block has passed.
  std::array<uint32_t, kMostThreads / kLanes> syncs = {};
  uint64_t random = 1;
  bool failed = false;
  uintptr_t stacks = 0;
  uintptr_t harmless = 0; ///< A page that kernels may read beside memory.
  SharedShadow shared;
};

/// The grid of the calling thread, or null: it runs no kernel.
extern constinit thread_local Grid *gridOfThread;
inline Grid *runningGrid() { return gridOfThread; }

/// What lanes of a full exchange get (Warp.cpp). Null lanes take no part.
/// Returns why it cannot be, or "".
std::string completeExchange(std::array<WarpWait *, kLanes> &lanes,
                             Exchange kind);

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_GRID_H
