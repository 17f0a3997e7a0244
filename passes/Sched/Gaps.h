//===- Gaps.h - Free bytes between buffers ----------------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_GAPS_H
#define CIUIC_PASSES_SCHED_GAPS_H

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace ciuic::sched {

/// Which of the gaps that are large enough a buffer takes.
enum class Fit { Lowest, Smallest };

/// Gaps that never touch each other. Finding one does not look at all of them.
class Gaps {
public:
  /// Frees [begin, end), of which nothing is free.
  void release(int64_t begin, int64_t end);

  /// The begin of `bytes` that are no longer free: the first of a gap. None if
  /// no gap is large enough.
  std::optional<int64_t> take(int64_t bytes, Fit fit);

  /// The begin of the gap that ends at `end`, which is taken whole.
  std::optional<int64_t> takeUpTo(int64_t end);

private:
  using ByBegin = std::map<int64_t, int64_t>;

  std::optional<int64_t> findLowest(int64_t bytes) const;
  std::optional<int64_t> findSmallest(int64_t bytes) const;
  void insert(int64_t begin, int64_t end);
  ByBegin::iterator erase(ByBegin::iterator gap);

  ByBegin ends; ///< From each begin to its end.
  /// The begins by a class of lengths: four to each power of two.
  std::map<unsigned, std::set<int64_t>> classes;
  std::set<std::pair<int64_t, int64_t>> lengths; ///< Lengths and begins.
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_GAPS_H
