//===- TouchIndex.cpp - Earlier touches of a buffer that matter -----------===//
#include "passes/Sched/TouchIndex.h"
#include "llvm/Support/MathExtras.h"

using namespace ciuic::sched;

/// The entry's length is below 2 to the power of this.
static unsigned classOf(const Touch &touch) {
  return llvm::Log2_64(std::max<int64_t>(touch.end - touch.begin, 1)) + 1;
}

/// Calls `fn(class, iterator)` for what overlaps [begin, end); it returns the
/// iterator to go on with, or none to stop.
template <typename Index, typename Fn>
bool TouchIndex::forEachOverlap(Index &index, int64_t begin, int64_t end,
                                Fn fn) {
  for (auto &[power, touches] : index) {
    int64_t before = power < 62 ? begin - (int64_t(1) << power) : INT64_MIN;
    for (auto it = touches.lower_bound(before);
         it != touches.end() && it->first < end;) {
      if (it->second.end <= begin) {
        ++it;
        continue;
      }
      auto next = fn(touches, it);
      if (!next)
        return false;
      it = *next;
    }
  }
  return true;
}

void TouchIndex::forEachConflict(
    const Touch &touch, llvm::function_ref<bool(const Touch &)> visit) const {
  auto each = [&](const ByBegin &, ByBegin::const_iterator it) {
    return visit(it->second) ? std::optional(std::next(it)) : std::nullopt;
  };
  if (forEachOverlap(writes, touch.begin, touch.end, each) && touch.writes)
    forEachOverlap(reads, touch.begin, touch.end, each);
}

void TouchIndex::add(const Touch &touch) {
  if (touch.writes) {
    auto drop = [&](ByBegin &touches, ByBegin::iterator it) {
      const Touch &old = it->second;
      bool covered = touch.begin <= old.begin && old.end <= touch.end;
      return std::optional(covered ? touches.erase(it) : std::next(it));
    };
    forEachOverlap(reads, touch.begin, touch.end, drop);
    forEachOverlap(writes, touch.begin, touch.end, drop);
  }
  ByLength &index = touch.writes ? writes : reads;
  index[classOf(touch)].insert({touch.begin, touch});
}
