//===- Gaps.cpp - Free bytes between buffers ------------------------------===//
#include "passes/Sched/Gaps.h"
#include "llvm/Support/MathExtras.h"

using namespace ciuic::sched;

/// Rises with the length, by powers of two and the next two bits.
static unsigned classOf(int64_t length) {
  unsigned power = llvm::Log2_64(length);
  uint64_t bits = power >= 2 ? uint64_t(length) >> (power - 2)
                             : uint64_t(length) << (2 - power);
  return 4 * power + (bits & 3);
}

void Gaps::insert(int64_t begin, int64_t end) {
  ends.insert({begin, end});
  classes[classOf(end - begin)].insert(begin);
  lengths.insert({end - begin, begin});
}

Gaps::ByBegin::iterator Gaps::erase(ByBegin::iterator gap) {
  auto [begin, end] = *gap;
  auto known = classes.find(classOf(end - begin));
  known->second.erase(begin);
  if (known->second.empty())
    classes.erase(known);
  lengths.erase({end - begin, begin});
  return ends.erase(gap);
}

void Gaps::release(int64_t begin, int64_t end) {
  auto next = ends.lower_bound(begin);
  if (next != ends.end() && next->first == end) {
    end = next->second;
    next = erase(next);
  }
  if (next != ends.begin() && std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    erase(std::prev(next));
  }
  insert(begin, end);
}

/// Of each class above the length's own any gap will do, so its first does.
std::optional<int64_t> Gaps::findLowest(int64_t bytes) const {
  std::optional<int64_t> lowest;
  unsigned own = classOf(bytes);
  for (auto it = classes.upper_bound(own); it != classes.end(); ++it)
    if (int64_t begin = *it->second.begin(); !lowest || begin < *lowest)
      lowest = begin;
  if (auto it = classes.find(own); it != classes.end())
    for (int64_t begin : it->second) {
      if (lowest && begin > *lowest)
        break;
      if (ends.at(begin) - begin >= bytes)
        return begin;
    }
  return lowest;
}

std::optional<int64_t> Gaps::findSmallest(int64_t bytes) const {
  auto it = lengths.lower_bound({bytes, 0});
  return it == lengths.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int64_t> Gaps::take(int64_t bytes, Fit fit) {
  auto begin = fit == Fit::Lowest ? findLowest(bytes) : findSmallest(bytes);
  if (!begin)
    return std::nullopt;
  auto gap = ends.find(*begin);
  int64_t end = gap->second;
  erase(gap);
  if (*begin + bytes < end)
    insert(*begin + bytes, end);
  return begin;
}

std::optional<int64_t> Gaps::takeUpTo(int64_t end) {
  auto gap = ends.lower_bound(end);
  if (gap == ends.begin() || std::prev(gap)->second != end)
    return std::nullopt;
  int64_t begin = std::prev(gap)->first;
  erase(std::prev(gap));
  return begin;
}
