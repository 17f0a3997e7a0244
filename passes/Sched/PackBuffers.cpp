//===- PackBuffers.cpp - Offsets for buffers that share bytes -------------===//
#include "passes/Sched/PackBuffers.h"
#include "passes/Sched/Gaps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <numeric>
#include <queue>
#include <tuple>

using namespace ciuic::sched;

namespace {

using Order = std::vector<uint32_t>;

/// Numbers that are the same everywhere (SplitMix64; Steele et al., 2014).
class Draw {
public:
  uint64_t below(uint64_t bound) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % bound;
  }

private:
  uint64_t state = 0;
};

class Packer {
public:
  Packer(const Lives &lives, const std::optional<Lists> &conflicts,
         llvm::ArrayRef<llvm::StringRef> names, const PackOptions &options)
      : lives(lives), conflicts(conflicts), names(names), options(options) {}

  Packing run();

private:
  bool isDone() const {
    return best.bytes <= options.enough || visits >= options.work;
  }
  llvm::ArrayRef<uint32_t> conflictsOf(uint32_t i) {
    visits += (*conflicts)[i].size() + 1;
    return (*conflicts)[i];
  }
  std::vector<Order> makeOrders() const;
  Packing place(const Order &order, bool bestFit);
  Packing sweep(bool backward, Fit fit) const;
  void improve(Order order, bool bestFit, Packing packing, int64_t until);
  void keep(const Packing &packing) {
    if (best.offsets.empty() || packing.bytes < best.bytes)
      best = packing;
  }

  const Lives &lives;
  const std::optional<Lists> &conflicts;
  llvm::ArrayRef<llvm::StringRef> names;
  const PackOptions &options;
  Packing best;
  Draw draw;
  int64_t visits = 0;
  std::vector<std::pair<int64_t, int64_t>> taken; ///< Scratch of place().
};

/// By rising `key`, then by name.
template <typename Key>
Order sortedBy(llvm::ArrayRef<llvm::StringRef> names, Key key) {
  Order order(names.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](uint32_t a, uint32_t b) {
    auto of = [&](uint32_t i) { return std::make_tuple(key(i), names[i]); };
    return of(a) < of(b);
  });
  return order;
}

} // namespace

std::vector<Order> Packer::makeOrders() const {
  auto size = [&](uint32_t i) { return -lives[i].bytes; };
  auto span = [&](uint32_t i) {
    return -int64_t(lives[i].last - lives[i].first);
  };
  auto degree = [&](uint32_t i) { return -int64_t((*conflicts)[i].size()); };
  return {
      sortedBy(names, size),
      // Backwards in time: the backward pass frees what the forward took, so
      // what is taken last lies lowest and is left in one piece.
      sortedBy(names, [&](uint32_t i) { return -int64_t(lives[i].first); }),
      sortedBy(names, degree),
      sortedBy(names, span),
      sortedBy(names, [&](uint32_t i) { return -int64_t(lives[i].last); }),
      sortedBy(names, [&](uint32_t i) { return int64_t(lives[i].first); }),
      sortedBy(names,
               [&](uint32_t i) { return std::make_pair(size(i), span(i)); }),
  };
}

/// Each at the lowest gap that is large enough or, for the best fit, at the
/// smallest one; else above them all.
Packing Packer::place(const Order &order, bool bestFit) {
  Packing packing{0, std::vector<int64_t>(order.size(), -1)};
  for (uint32_t i : order) {
    taken.clear();
    for (uint32_t other : conflictsOf(i))
      if (int64_t begin = packing.offsets[other]; begin >= 0)
        taken.push_back({begin, begin + lives[other].bytes});
    llvm::sort(taken);
    int64_t offset = 0, bytes = lives[i].bytes, fit = -1, least = INT64_MAX;
    for (auto [begin, end] : taken) {
      if (begin - offset >= bytes && begin - offset < least) {
        fit = offset;
        least = begin - offset;
        if (!bestFit)
          break;
      }
      offset = std::max(offset, end);
    }
    packing.offsets[i] = offset = fit >= 0 ? fit : offset;
    packing.bytes = std::max(packing.bytes, offset + bytes);
  }
  return packing;
}

/// Each in a gap if there is one, in the order in which they begin or,
/// backwards, end. Of buffers that begin at one task the larger comes first.
Packing Packer::sweep(bool backward, Fit fit) const {
  // Times that rise either way.
  auto begin = [&](uint32_t i) {
    return backward ? -int64_t(lives.fenceOf(i)) : int64_t(lives[i].first);
  };
  auto end = [&](uint32_t i) {
    return backward ? -int64_t(lives[i].first) : int64_t(lives.fenceOf(i));
  };
  Order order = sortedBy(names, [&](uint32_t i) {
    return std::make_pair(begin(i), -lives[i].bytes);
  });
  Packing packing{0, std::vector<int64_t>(order.size(), -1)};
  Gaps gaps;
  using Entry = std::pair<int64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> held;
  for (uint32_t i : order) {
    for (; !held.empty() && held.top().first <= begin(i); held.pop()) {
      uint32_t done = held.top().second;
      int64_t offset = packing.offsets[done];
      gaps.release(offset, offset + lives[done].bytes);
    }
    int64_t bytes = lives[i].bytes;
    std::optional<int64_t> offset = gaps.take(bytes, fit);
    if (!offset) // The last gap goes on above what has been taken so far.
      offset = gaps.takeUpTo(packing.bytes).value_or(packing.bytes);
    packing.offsets[i] = *offset;
    packing.bytes = std::max(packing.bytes, *offset + bytes);
    held.push({end(i), i});
  }
  return packing;
}

/// A step of the search takes at most one part of so many more at first.
static constexpr int64_t kDetour = 50;

void Packer::improve(Order order, bool bestFit, Packing packing,
                     int64_t until) {
  std::vector<uint32_t> position(order.size()), top, earlier;
  const int64_t from = visits;
  while (packing.bytes > options.enough && visits < until) {
    // What takes a little more may lead on to what takes less; ever less of it.
    const auto more =
        static_cast<int64_t>(double(packing.bytes) / kDetour *
                             double(until - visits) / double(until - from));
    for (auto [at, i] : llvm::enumerate(order))
      position[i] = at;
    visits += order.size();
    top.clear();
    for (uint32_t i = 0; i < order.size(); ++i)
      if (packing.offsets[i] + lives[i].bytes == packing.bytes)
        top.push_back(i);
    uint32_t moved = top[draw.below(top.size())];
    earlier.clear();
    for (uint32_t other : conflictsOf(moved))
      if (position[other] < position[moved])
        earlier.push_back(position[other]);
    if (earlier.empty())
      return; // Alone it takes that many bytes.
    // Now and then in front of all of them.
    uint32_t to = draw.below(4) == 0 ? *llvm::min_element(earlier)
                                     : earlier[draw.below(earlier.size())];
    Order changed = order;
    std::rotate(changed.begin() + to, changed.begin() + position[moved],
                changed.begin() + position[moved] + 1);
    Packing tried = place(changed, bestFit);
    if (tried.bytes > packing.bytes + more)
      continue;
    order = std::move(changed);
    packing = std::move(tried);
    keep(packing);
  }
}

Packing Packer::run() {
  constexpr size_t improved = 3;
  if (lives.size() == 0)
    return {};
  if (!conflicts) {
    for (Fit fit : {Fit::Lowest, Fit::Smallest})
      for (bool backward : {false, true})
        keep(sweep(backward, fit));
    return best;
  }
  struct Found {
    Order order;
    Packing packing;
  };
  // The smallest gaps leave large ones in one piece; the lowest are tried for
  // what remains.
  for (bool bestFit : {true, false}) {
    std::vector<Found> found;
    for (const Order &order : makeOrders()) {
      Packing packing = place(order, bestFit);
      keep(packing);
      if (best.bytes <= options.enough)
        return best;
      found.push_back({order, std::move(packing)});
    }
    llvm::stable_sort(found, [](const Found &a, const Found &b) {
      return a.packing.bytes < b.packing.bytes;
    });
    // An even share of what work there is to each.
    int64_t share = options.work / int64_t(2 * improved);
    for (size_t k = 0; k < improved && !isDone(); ++k)
      improve(std::move(found[k].order), bestFit, std::move(found[k].packing),
              visits + share);
    if (isDone())
      break;
  }
  return best;
}

Packing ciuic::sched::packBuffers(const Lives &lives,
                                  const std::optional<Lists> &conflicts,
                                  llvm::ArrayRef<llvm::StringRef> names,
                                  const PackOptions &options) {
  return Packer(lives, conflicts, names, options).run();
}
