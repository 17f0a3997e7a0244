//===- Lives.h - When the buffers of a program live -------------*- C++ -*-===//
//
// What packing needs of a program, without its IR. "Before" is the partial
// order of streams and events: a buffer comes before another if every task
// that touches the one comes before every task that touches the other. Two
// that are not ordered may be live at once, whatever the machine's timing.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_SCHED_LIVES_H
#define CIUIC_PASSES_SCHED_LIVES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace ciuic::sched {

inline constexpr unsigned kStreams = 7;
/// For each stream, how many of its tasks are done.
using Clock = std::array<int32_t, kStreams>;

inline bool isAtMost(const Clock &a, const Clock &b) {
  for (unsigned s = 0; s < kStreams; ++s)
    if (a[s] > b[s])
      return false;
  return true;
}

/// The life of one buffer.
struct Life {
  int64_t bytes = 0;  ///< As stored: a multiple of the alignment.
  uint32_t first = 0; ///< The first task that touches it, and
  uint32_t last = 0;  ///< the last, in program order.
  Clock start{};      ///< Least clock of all touching tasks.
  Clock end{};        ///< What is done once all of them are.

  bool isBefore(const Life &other) const { return isAtMost(end, other.start); }
};

/// Many lists of numbers in one.
struct Lists {
  std::vector<uint32_t> begins{0}; ///< List i is [begins[i], begins[i + 1]).
  std::vector<uint32_t> numbers;

  llvm::ArrayRef<uint32_t> operator[](size_t i) const {
    return llvm::ArrayRef(numbers).slice(begins[i], begins[i + 1] - begins[i]);
  }
};

/// The lives of the buffers of one program and arena, by rising first task.
class Lives {
public:
  /// `clocks` are those of the program's tasks, in program order.
  Lives(std::vector<Life> lives, llvm::ArrayRef<Clock> clocks);

  size_t size() const { return lives.size(); }
  const Life &operator[](size_t i) const { return lives[i]; }

  /// For each, the others that may be live at once with it; none if there are
  /// more than `most` numbers in all, which would take memory. The work is
  /// that of the result, not the square of the buffers: a task from which on
  /// everything comes after a buffer ends the search for its conflicts.
  std::optional<Lists> findConflicts(size_t most = size_t(1) << 27) const;

  /// From this task on, all come after the buffer.
  uint32_t fenceOf(uint32_t i) const { return fence[i]; }

  /// The first buffer that begins after `task`.
  uint32_t beginningAfter(uint32_t task) const;

  /// Adds to `after` what comes right after buffer `i` among the buffers that
  /// begin by task `to` and whose fence lies behind `from`: all of them that
  /// come after `i` are among these or come after one of these. Returns how
  /// many comparisons it took.
  int64_t findSuccessors(uint32_t i, uint32_t from, uint32_t to,
                         llvm::SmallVectorImpl<uint32_t> &after) const;

private:
  std::vector<Life> lives;
  /// See fenceOf().
  std::vector<uint32_t> fence;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_LIVES_H
