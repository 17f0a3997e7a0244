//===- Lives.cpp - When the buffers of a program live ---------------------===//
#include "passes/Sched/Lives.h"
#include "llvm/ADT/STLExtras.h"

#include <cassert>

using namespace ciuic::sched;

Lives::Lives(std::vector<Life> given, llvm::ArrayRef<Clock> clocks)
    : lives(std::move(given)) {
  assert(llvm::is_sorted(
      lives, [](const Life &a, const Life &b) { return a.first < b.first; }));
  // What is done when any task from this one on starts.
  std::vector<Clock> since(clocks.begin(), clocks.end());
  for (size_t task = since.size(); task-- > 1;)
    for (unsigned s = 0; s < kStreams; ++s)
      since[task - 1][s] = std::min(since[task - 1][s], since[task][s]);
  fence.reserve(lives.size());
  for (const Life &life : lives)
    fence.push_back(llvm::partition_point(since,
                                          [&](const Clock &clock) {
                                            return !isAtMost(life.end, clock);
                                          }) -
                    since.begin());
}

Lists Lives::findConflicts() const {
  size_t count = lives.size();
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  Lists lists;
  lists.begins.assign(count + 1, 0);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count && lives[j].first < fence[i]; ++j)
      if (!lives[i].isBefore(lives[j])) {
        pairs.push_back({i, j});
        ++lists.begins[i + 1];
        ++lists.begins[j + 1];
      }
  for (size_t i = 0; i < count; ++i)
    lists.begins[i + 1] += lists.begins[i];
  lists.numbers.resize(2 * pairs.size());
  std::vector<uint32_t> next(lists.begins.begin(), lists.begins.end() - 1);
  for (auto [i, j] : pairs) {
    lists.numbers[next[i]++] = j;
    lists.numbers[next[j]++] = i;
  }
  return lists;
}

Lists Lives::findSuccessors() const {
  Lists lists;
  for (const Life &life : lives) {
    size_t from = lists.numbers.size();
    uint32_t until = UINT32_MAX;
    size_t j = llvm::partition_point(lives,
                                     [&](const Life &other) {
                                       return other.first <= life.last;
                                     }) -
               lives.begin();
    for (; j < lives.size() && lives[j].first < until; ++j) {
      if (!life.isBefore(lives[j]))
        continue;
      auto found = llvm::ArrayRef(lists.numbers).drop_front(from);
      if (llvm::any_of(found,
                       [&](uint32_t k) { return lives[k].isBefore(lives[j]); }))
        continue;
      lists.numbers.push_back(j);
      until = std::min(until, fence[j]);
    }
    lists.begins.push_back(lists.numbers.size());
  }
  return lists;
}
