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

std::optional<Lists> Lives::findConflicts(size_t most) const {
  size_t count = lives.size();
  auto forEachPair = [&](auto visit) {
    for (uint32_t i = 0; i < count; ++i)
      for (uint32_t j = i + 1; j < count && lives[j].first < fence[i]; ++j)
        if (!lives[i].isBefore(lives[j]) && !visit(i, j))
          return;
  };
  size_t pairs = 0;
  std::vector<uint32_t> degrees(count, 0);
  forEachPair([&](uint32_t i, uint32_t j) {
    ++degrees[i];
    ++degrees[j];
    return 2 * ++pairs <= most;
  });
  if (2 * pairs > most)
    return std::nullopt;

  Lists lists;
  for (uint32_t degree : degrees)
    lists.begins.push_back(lists.begins.back() + degree);
  lists.numbers.resize(2 * pairs);
  std::vector<uint32_t> next(lists.begins.begin(), lists.begins.end() - 1);
  forEachPair([&](uint32_t i, uint32_t j) {
    lists.numbers[next[i]++] = j;
    lists.numbers[next[j]++] = i;
    return true;
  });
  return lists;
}

std::optional<Lists> Lives::findSuccessors(int64_t work) const {
  Lists lists;
  int64_t compared = 0;
  for (const Life &life : lives) {
    size_t from = lists.numbers.size();
    uint32_t until = UINT32_MAX;
    size_t j = llvm::partition_point(lives,
                                     [&](const Life &other) {
                                       return other.first <= life.last;
                                     }) -
               lives.begin();
    for (; j < lives.size() && lives[j].first < until; ++j) {
      if (++compared > work)
        return std::nullopt;
      if (!life.isBefore(lives[j]))
        continue;
      auto found = llvm::ArrayRef(lists.numbers).drop_front(from);
      compared += found.size();
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
