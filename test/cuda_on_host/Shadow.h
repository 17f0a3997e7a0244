//===- Shadow.h - Who read and wrote every byte -----------------*- C++ -*-===//
//
// Memory that devices reach, with a cell for every two bytes: the last task
// that wrote them and the tasks that have read them since. Tasks are ordered
// by vector clocks: a timeline for each stream and one for the host; a task is
// a point of one timeline, and the clock under which it runs says which points
// of all others come before it. Two accesses of one cell, one of them a write,
// with neither before the other, are a race, whatever order they ran in here.
//
// All members need `mutex`, except `find` and `isOnStack`.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_SHADOW_H
#define CIUIC_TEST_CUDA_ON_HOST_SHADOW_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ciuic::onhost {

/// Entry t: how many points of timeline t come before.
using Clock = std::vector<uint32_t>;
void join(Clock &into, const Clock &other);

/// A task, as cells name it. 0: none.
using TaskId = uint32_t;

struct Cell {
  TaskId write;    ///< 0: never written.
  TaskId reads[3]; ///< Unordered readers since; a fourth takes a place.
};

/// Who touched a cell last within one kernel.
struct Toucher {
  uint32_t writer; ///< Linear index of the block plus 1.
  uint32_t reader;
  TaskId task;
};

enum class Memory : uint8_t { Device, Pinned };

struct Allocation {
  uintptr_t begin;
  size_t bytes;
  size_t mapped; ///< Bytes of pages; 0: memory of the caller, registered.
  Memory memory;
  int device;
  uint64_t serial; ///< Counts allocations, for people.
  Cell *cells;
  Toucher *touchers;
};

class Shadow {
public:
  Shadow();

  std::mutex mutex;

  /// Forgets tasks, reports and allocations.
  void reset(uint64_t seed);

  /// Null if there is no room for more addresses.
  Allocation *allocate(size_t bytes, Memory memory, int device);
  Allocation *adopt(void *pointer, size_t bytes);
  void release(Allocation *allocation);

  /// The allocation that holds `address`, or null.
  Allocation *find(uintptr_t address) const;
  /// Whether such an address can only be one of an allocation.
  bool inRegion(uintptr_t address) const;
  /// The allocation that starts at `pointer`, or null.
  Allocation *findStart(const void *pointer) const;

  uint32_t newTimeline();
  uint32_t timelines() const { return timelineCount; }

  /// Until `end`, accesses are those of a new task: the next point of
  /// `timeline` in `clock`.
  void begin(uint32_t timeline, Clock &clock, const std::string &name,
             int device);
  void end();
  /// As `begin`, for a task that began before and goes on under a later clock.
  void resume(TaskId task, Clock &clock, int device);
  TaskId current() const { return task; }

  /// Both return false if any byte lies outside of allocations that the
  /// running task's device reaches.
  bool read(const void *pointer, size_t bytes);
  bool write(const void *pointer, size_t bytes);
  /// An access that orders itself (flags, atomics): only bounds are checked,
  /// and the bytes count as written.
  bool touch(const void *pointer, size_t bytes);

  /// `read` and `write` of one block of a kernel, `block` its index plus 1:
  /// also reports accesses of two blocks that nothing orders.
  bool readInKernel(uintptr_t address, size_t bytes, uint32_t block);
  bool writeInKernel(uintptr_t address, size_t bytes, uint32_t block);
  /// The running kernel orders its blocks by atomics: they are not compared.
  void blocksOrdered() { compareBlocks = false; }

  void forget(const void *pointer, size_t bytes);

  /// Adds a finding; one of equal `key` is added once.
  void report(const std::string &text, const std::string &key = "");
  std::vector<std::string> takeReports();
  bool hasReports() const { return !reports.empty(); }

  /// "allocation 3 of device 0 (4096 bytes) + 128".
  std::string describe(uintptr_t address) const;
  const std::string &nameOf(TaskId id) const;

private:
  struct Point {
    uint32_t timeline;
    uint32_t clock;
    uint32_t name;
  };

  bool isBefore(TaskId earlier) const {
    const Point &point = points[earlier];
    return currentClock[point.timeline] >= point.clock;
  }
  bool check(uintptr_t address, size_t bytes, bool isWrite, Allocation *&found);
  void onRead(Cell &cell, uintptr_t address);
  void onWrite(Cell &cell, uintptr_t address);
  void onConflict(TaskId other, bool otherWrites, bool thisWrites,
                  uintptr_t address);
  void onBlocks(bool otherWrites, bool thisWrites, uintptr_t address);
  uint32_t nameIndex(const std::string &name);

  uintptr_t base = 0;
  size_t nextPage = 1;
  uint32_t *pages = nullptr; ///< Page to index of an allocation plus 1.
  std::vector<std::unique_ptr<Allocation>> allocations;
  std::vector<Allocation *> adopted;
  mutable Allocation *last = nullptr; ///< Of the device thread.
  uint64_t serial = 0;
  uint64_t random = 1;

  std::vector<Point> points;
  std::vector<std::string> names;
  std::unordered_map<std::string, uint32_t> nameIndices;
  uint32_t timelineCount = 0;
  TaskId task = 0;
  int taskDevice = -1;
  const uint32_t *currentClock = nullptr;
  bool compareBlocks = true;

  std::vector<std::string> reports;
  std::set<std::string> keys;
};

Shadow &shadow();

} // namespace ciuic::onhost

#endif // CIUIC_TEST_CUDA_ON_HOST_SHADOW_H
