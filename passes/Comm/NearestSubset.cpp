//===- NearestSubset.cpp - Whole things near a wanted sum -----------------===//
#include "passes/Comm/NearestSubset.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <functional>
#include <map>

using namespace ciuic;
using namespace ciuic::comm;

namespace {
/// Buckets of a model have few different sizes, so the search is over how many
/// of each are taken: depth first, larger sizes first, the count that comes
/// nearest first.
class Search {
public:
  explicit Search(llvm::ArrayRef<int64_t> sizes) {
    std::map<int64_t, int64_t, std::greater<>> counts;
    for (int64_t size : sizes)
      ++counts[size];
    groups.assign(counts.begin(), counts.end());
    // What all groups from i on have together.
    rest.assign(groups.size() + 1, 0);
    for (size_t i = groups.size(); i-- > 0;)
      rest[i] = rest[i + 1] + groups[i].first * groups[i].second;
    taken.assign(groups.size(), 0);
    best = taken;
  }

  /// How many to take of each size.
  std::map<int64_t, int64_t> run(int64_t wanted) {
    found = false;
    descend(0, wanted);
    std::map<int64_t, int64_t> counts;
    for (auto [group, count] : llvm::zip(groups, best))
      counts[group.first] = count;
    return counts;
  }

private:
  static constexpr int64_t kMostSteps = 200'000;

  /// Takes from the groups from `i` on, to come near to `missing`.
  void descend(size_t i, int64_t missing) {
    if (++steps > kMostSteps || (found && bestGap == 0))
      return;
    if (i == groups.size())
      return consider(missing);
    // Beyond either end nothing can be chosen any more.
    if (missing <= 0 || missing >= rest[i]) {
      for (size_t k = i; k < groups.size(); ++k)
        taken[k] = missing <= 0 ? 0 : groups[k].second;
      return consider(missing <= 0 ? missing : missing - rest[i]);
    }
    auto [size, count] = groups[i];
    // Fewer than `low` leave more than the smaller ones can fill, more than
    // `high` + 1 are worse than one less.
    int64_t high = std::min(count, missing / size);
    int64_t low = std::max<int64_t>(0, (missing - rest[i + 1]) / size);
    if (high < count)
      ++high;
    for (int64_t take : order(low, std::min(high, count), missing / size)) {
      taken[i] = take;
      descend(i + 1, missing - take * size);
    }
  }

  /// [low, high], from `first` down and then what is above it.
  static llvm::SmallVector<int64_t> order(int64_t low, int64_t high,
                                          int64_t first) {
    llvm::SmallVector<int64_t> takes;
    // More than a few of a size never matter but where sizes are close.
    for (int64_t take = std::min(first, high);
         take >= low && takes.size() < 4096; --take)
      takes.push_back(take);
    if (high > first)
      takes.push_back(high);
    return takes;
  }

  void consider(int64_t missing) {
    int64_t gap = missing < 0 ? -missing : missing;
    if (!found || gap < bestGap || (gap == bestGap && missing > bestMissing)) {
      best = taken;
      bestGap = gap;
      bestMissing = missing;
      found = true;
    }
  }

  llvm::SmallVector<std::pair<int64_t, int64_t>> groups; ///< (size, count).
  llvm::SmallVector<int64_t> rest, taken, best;
  int64_t bestGap = 0, bestMissing = 0, steps = 0;
  bool found = false;
};
} // namespace

llvm::BitVector comm::nearestSubset(llvm::ArrayRef<int64_t> sizes,
                                    int64_t wanted) {
  std::map<int64_t, int64_t> counts = Search(sizes).run(wanted);
  llvm::BitVector chosen(sizes.size());
  for (auto [i, size] : llvm::enumerate(sizes))
    if (counts[size]-- > 0)
      chosen.set(i);
  return chosen;
}
