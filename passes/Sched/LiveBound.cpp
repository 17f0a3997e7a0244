//===- LiveBound.cpp - The least bytes that any packing takes -------------===//
#include "passes/Sched/LiveBound.h"
#include "passes/Sched/Flow.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <numeric>

using namespace ciuic::sched;

namespace {

/// Looks for the heaviest set of buffers no two of which are ordered.
///
/// What comes after a buffer's fence is ordered with it, so of two buffers of
/// such a set each begins before the fence of the other. Ranges of tasks that
/// meet by twos all share one task: the set is part of what a task reaches, all
/// that begins by then and whose fence is later. Tasks that reach no more bytes
/// than some known set holds are left out, and the others taken by windows.
/// Most of what a window reaches lives before, through or behind it all,
/// unordered; the few that are ordered there go into the flow.
class BoundSearch {
public:
  BoundSearch(const Lives &lives, int64_t work);

  LiveBound run();

private:
  /// Least tasks of a window. Paths of its flow are no longer.
  static constexpr uint32_t kTasks = 64;

  struct Window {
    uint32_t from, to; ///< Its first and its last task.
  };

  void takeProgramOrder();
  Window windowFrom(uint32_t from) const;
  bool narrow(Window &window) const;
  void takeEndings(const Window &window);
  void findOrdered(const Window &window);
  void solve(const Window &window);
  std::vector<uint32_t> holdersOf(const Window &window) const;
  uint32_t placeOf(uint32_t i);

  const Lives &lives;
  int64_t work; ///< What is left of it.
  LiveBound best;
  /// At each task, the bytes that it reaches.
  std::vector<int64_t> reach;
  /// And how many it reaches that have ended.
  std::vector<int32_t> lags;
  std::vector<uint32_t> byLast; ///< All buffers.
  size_t ended = 0;             ///< So many of those were taken.
  /// Those that end before the window does while their fence lies behind its
  /// first task: what may come before others in it.
  std::vector<uint32_t> endings;
  /// The window's buffers that are ordered with another one there, and by their
  /// places in this list which come right after which.
  std::vector<uint32_t> ordered;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> places; ///< In `ordered`, or none.
};

} // namespace

BoundSearch::BoundSearch(const Lives &lives, int64_t work)
    : lives(lives), work(work), byLast(lives.size()),
      places(lives.size(), kNone) {
  uint32_t tasks = 0;
  for (uint32_t i = 0; i < lives.size(); ++i)
    tasks = std::max(tasks, lives[i].last + 1);
  reach.resize(tasks + 1, 0);
  lags.resize(tasks + 1, 0);
  for (uint32_t i = 0; i < lives.size(); ++i) {
    reach[lives[i].first] += lives[i].bytes;
    reach[std::min(lives.fenceOf(i), tasks)] -= lives[i].bytes;
    ++lags[lives[i].last + 1];
    --lags[std::min(lives.fenceOf(i), tasks)];
  }
  std::partial_sum(reach.begin(), reach.end(), reach.begin());
  std::partial_sum(lags.begin(), lags.end(), lags.begin());
  reach.pop_back();
  std::iota(byLast.begin(), byLast.end(), 0);
  llvm::stable_sort(byLast, [&](uint32_t a, uint32_t b) {
    return lives[a].last < lives[b].last;
  });
}

/// What is live at the task where program order holds most.
void BoundSearch::takeProgramOrder() {
  std::vector<int64_t> change(reach.size() + 1, 0);
  for (uint32_t i = 0; i < lives.size(); ++i) {
    change[lives[i].first] += lives[i].bytes;
    change[lives[i].last + 1] -= lives[i].bytes;
  }
  uint32_t at = 0;
  int64_t live = 0;
  for (uint32_t task = 0; task < reach.size(); ++task) {
    live += change[task];
    if (live > best.bytes) {
      best.bytes = live;
      at = task;
    }
  }
  for (uint32_t i = 0; i < lives.size(); ++i)
    if (lives[i].first <= at && at <= lives[i].last)
      best.holders.push_back(i);
}

/// Long enough for as many buffers to begin as lag behind, which each window
/// that they reach into looks at again.
BoundSearch::Window BoundSearch::windowFrom(uint32_t from) const {
  auto tasks = static_cast<uint32_t>(reach.size());
  uint32_t to = std::min(from + kTasks, tasks) - 1;
  size_t begins = size_t(lives.beginningAfter(from)) + lags[from];
  if (begins >= lives.size())
    return {from, tasks - 1};
  return {from, std::max(to, lives[begins].first)};
}

/// Leaves out tasks at either end that do not reach more than is known; false
/// if none is left.
bool BoundSearch::narrow(Window &window) const {
  while (window.from <= window.to && reach[window.from] <= best.bytes)
    ++window.from;
  while (window.from < window.to && reach[window.to] <= best.bytes)
    --window.to;
  return window.from <= window.to;
}

/// Brings `endings` up to date. Windows come by rising tasks.
void BoundSearch::takeEndings(const Window &window) {
  for (; ended < byLast.size() && lives[byLast[ended]].last < window.to;
       ++ended)
    endings.push_back(byLast[ended]);
  work -= endings.size();
  llvm::erase_if(endings,
                 [&](uint32_t i) { return lives.fenceOf(i) <= window.from; });
}

uint32_t BoundSearch::placeOf(uint32_t i) {
  if (places[i] == kNone) {
    places[i] = ordered.size();
    ordered.push_back(i);
  }
  return places[i];
}

void BoundSearch::findOrdered(const Window &window) {
  for (uint32_t i : ordered)
    places[i] = kNone;
  ordered.clear();
  edges.clear();
  llvm::SmallVector<uint32_t> after;
  for (uint32_t i : endings) {
    if (work < 0)
      return;
    after.clear();
    work -= lives.findSuccessors(i, window.from, window.to, after);
    for (uint32_t next : after) {
      uint32_t from = placeOf(i);
      edges.push_back({from, placeOf(next)});
    }
  }
}

/// Finds the heaviest set in a window. Each buffer is two nodes: it takes bytes
/// (i) and hands them on (count + i) to what comes after. A buffer that takes
/// all of its bytes from those before it needs none of its own.
void BoundSearch::solve(const Window &window) {
  takeEndings(window);
  findOrdered(window);
  if (work < 0)
    return;
  // All that begins within the window lives on behind its first task.
  int64_t bytes = reach[window.from];
  for (uint32_t i = lives.beginningAfter(window.from);
       i < lives.size() && lives[i].first <= window.to; ++i)
    bytes += lives[i].bytes;
  constexpr int64_t unbounded = std::numeric_limits<int64_t>::max() / 2;
  uint32_t count = ordered.size(), source = 2 * count, sink = source + 1;
  Flow flow(2 * count + 2);
  for (auto [i, buffer] : llvm::enumerate(ordered)) {
    flow.add(source, count + i, lives[buffer].bytes);
    flow.add(i, sink, lives[buffer].bytes);
    // What it was handed it may hand on, without holding it.
    flow.add(i, count + i, unbounded);
  }
  for (auto [from, to] : edges)
    flow.add(count + from, to, unbounded);
  int64_t shared = flow.run(source, sink, work);
  work -= flow.visited();
  if (shared < 0 || bytes - shared <= best.bytes)
    return;
  best.bytes = bytes - shared;
  // The cut: buffers that still have bytes to hand on, and that take none.
  best.holders = holdersOf(window);
  llvm::erase_if(best.holders, [&](uint32_t i) {
    uint32_t place = places[i];
    return place != kNone &&
           (!flow.isReached(count + place) || flow.isReached(place));
  });
}

/// All that the tasks of a window reach.
std::vector<uint32_t> BoundSearch::holdersOf(const Window &window) const {
  std::vector<uint32_t> reached;
  for (uint32_t i = 0; i < lives.size() && lives[i].first <= window.to; ++i)
    if (lives.fenceOf(i) > window.from)
      reached.push_back(i);
  return reached;
}

LiveBound BoundSearch::run() {
  takeProgramOrder();
  for (uint32_t from = 0; from < reach.size() && work >= 0;) {
    Window window = windowFrom(from);
    from = window.to + 1;
    if (narrow(window))
      solve(window);
  }
  best.exact = work >= 0;
  return std::move(best);
}

LiveBound ciuic::sched::findLiveBound(const Lives &lives, int64_t work) {
  return BoundSearch(lives, work).run();
}
