//===- TouchIndex.h - Earlier touches of a buffer that matter ---*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_TOUCHINDEX_H
#define CIUIC_PASSES_SCHED_TOUCHINDEX_H

#include "passes/Sched/TaskOrder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>

namespace ciuic::sched {

/// The touches of one buffer so far, in program order. A write supersedes what
/// it covers: whatever conflicts with that conflicts with the write too, and
/// order passes on. So a lookup costs about as much as what it finds, however
/// often a buffer has been touched.
class TouchIndex {
public:
  /// Calls `visit` for each touch that `touch` must come after, in no
  /// particular order, until it returns false.
  void forEachConflict(const Touch &touch,
                       llvm::function_ref<bool(const Touch &)> visit) const;

  /// Adds `touch`, which comes after all that are there.
  void add(const Touch &touch);

private:
  /// Touches by their first byte, apart by the power of two that their length
  /// reaches: those that overlap a range begin close to it.
  using ByBegin = std::multimap<int64_t, Touch>;
  using ByLength = std::map<unsigned, ByBegin>;

  template <typename Index, typename Fn>
  static bool forEachOverlap(Index &index, int64_t begin, int64_t end, Fn fn);

  ByLength reads, writes;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_TOUCHINDEX_H
