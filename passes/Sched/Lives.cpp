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

uint32_t Lives::beginningAfter(uint32_t task) const {
  return llvm::partition_point(
             lives, [&](const Life &life) { return life.first <= task; }) -
         lives.begin();
}

int64_t Lives::findSuccessors(uint32_t i, uint32_t from, uint32_t to,
                              llvm::SmallVectorImpl<uint32_t> &after) const {
  const size_t known = after.size();
  int64_t compared = 0;
  // Behind the fence of one of them all come after that.
  uint32_t until = UINT32_MAX;
  for (uint32_t j = beginningAfter(lives[i].last);
       j < lives.size() && lives[j].first <= to && lives[j].first < until;
       ++j) {
    ++compared;
    if (fence[j] <= from || !lives[i].isBefore(lives[j]))
      continue;
    auto found = llvm::ArrayRef(after).drop_front(known);
    compared += found.size();
    if (llvm::any_of(found,
                     [&](uint32_t k) { return lives[k].isBefore(lives[j]); }))
      continue;
    after.push_back(j);
    until = std::min(until, fence[j]);
  }
  return compared;
}
