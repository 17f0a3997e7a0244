//===- OnHost.h - Control of the emulated CUDA devices ----------*- C++ -*-===//
//
// What a test says to the emulator and what the emulator found. The emulated
// devices are created at the first CUDA call; `configure` makes new ones. All
// functions may be called from any thread unless a comment says otherwise.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_ONHOST_H
#define CIUIC_TEST_CUDA_ON_HOST_ONHOST_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;

namespace ciuic::onhost {

struct Settings {
  int devices = 1;
  /// Chooses the interleaving of streams, the delays, the order of blocks,
  /// warps and threads, and the garbage in fresh memory.
  uint64_t seed = 1;
  int major = 8; ///< Compute capability.
  int minor = 0;
  int processors = 4; ///< Multiprocessors of a device.
  uint64_t memoryBytes = uint64_t(40) << 30;
  uint64_t usedBytes = 0; ///< Of memoryBytes, by others.
  int driverVersion = 13000;
  int runtimeVersion = 13000;
  uint64_t cublasLtVersion = 130100;
  int ncclVersion = 22809;
  bool streamMemoryOperations = true; ///< cuStreamWaitValue32 and its like.
  /// Without progress for so long a program counts as stuck: it is reported
  /// and all that waits fails.
  double stuckSeconds = 20;
};

/// New devices: memory, streams, reports and injected faults of the old ones
/// are forgotten. Nothing of the old ones may be in use.
void configure(const Settings &settings);

/// Waits for all streams, then returns what was found since the last call,
/// one finding an entry, in the order found.
std::vector<std::string> takeReports();

/// Names what is enqueued on `stream` from now on in reports.
void label(CUstream_st *stream, const std::string &text);

/// Marks bytes as never written: a planned buffer that starts a new life.
void forget(const void *pointer, size_t bytes);

/// Order and accesses of tasks on host threads. A token stands for what the
/// task comes after and for the task itself.
///
/// hostRelease: inside a host function, all that its stream has done so far.
/// A host function that takes no token is ordered before all later calls of
/// the host instead.
uint64_t hostRelease();
/// A token that comes after both.
uint64_t hostMerge(uint64_t token, uint64_t other);
/// Announces what the task does with pinned memory.
void hostAccess(uint64_t token, const void *pointer, size_t bytes, bool write,
                const std::string &name = "a host task");
/// Right before the task stores `value` to `flag`: a wait of a stream that
/// this satisfies comes after the task.
void hostSignal(uint64_t token, const uint32_t *flag, uint32_t value);
/// All that this thread enqueues from now on comes after the task.
void hostJoin(uint64_t token);

/// The same for code of the host that synchronises through CUDA alone.
void hostReads(const void *pointer, size_t bytes);
void hostWrites(const void *pointer, size_t bytes);

/// Faults, for tests that must fail.
enum class Fault {
  DropWait,         ///< The n-th cudaStreamWaitEvent does nothing.
  DropRecord,       ///< The n-th cudaEventRecord does nothing.
  DropSignal,       ///< The n-th satisfied wait for a flag orders nothing.
  DropHostOrder,    ///< The n-th hostRelease is a token after nothing.
  SwapCollectives,  ///< The n-th collective of a device changes places with
                    ///< the one it enqueues next.
  ShrinkCollective, ///< The n-th collective moves one element less.
  ShrinkAllocation, ///< The n-th cudaMalloc returns 256 bytes less.
  NeverEnter,       ///< The n-th collective waits until it is aborted.
};
/// `n` counts from 0 from now on, over the whole process.
void inject(Fault fault, uint64_t n);
/// The n-th call of `function` from now on does nothing and returns `status`
/// (of the type that this function returns).
void failCall(const std::string &function, uint64_t n, int status);
/// How often a fault struck.
uint64_t injected();

/// How often `function` was called since `configure`.
uint64_t calls(const std::string &function);

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_ONHOST_H
