//===- LiveBound.cpp - The least bytes that any packing takes -------------===//
#include "passes/Sched/LiveBound.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace ciuic::sched;

namespace {

/// A greatest flow by levels (Dinitz, 1970), without recursion: paths are as
/// long as programs.
class Flow {
public:
  explicit Flow(size_t nodes) : edgesOf(nodes) {}

  void add(uint32_t from, uint32_t to, int64_t capacity) {
    edgesOf[from].push_back(edges.size());
    edges.push_back({to, capacity});
    edgesOf[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  /// The greatest flow; -1 once more than `work` edges are looked at.
  int64_t run(uint32_t source, uint32_t sink, int64_t work) {
    int64_t total = 0;
    while (findLevels(source, sink)) {
      next.assign(edgesOf.size(), 0);
      while (int64_t found = pushPath(source, sink)) {
        total += found;
        if (visits > work)
          return -1;
      }
    }
    return total;
  }

  /// After run(): whether more could flow to this node.
  bool isReached(uint32_t node) const { return level[node] >= 0; }

private:
  struct Edge {
    uint32_t to;
    int64_t capacity;
  };

  bool findLevels(uint32_t source, uint32_t sink) {
    level.assign(edgesOf.size(), -1);
    level[source] = 0;
    std::vector<uint32_t> queue{source};
    for (size_t i = 0; i < queue.size(); ++i)
      for (uint32_t e : edgesOf[queue[i]]) {
        ++visits;
        uint32_t to = edges[e].to;
        if (edges[e].capacity == 0 || level[to] >= 0)
          continue;
        level[to] = level[queue[i]] + 1;
        queue.push_back(to);
      }
    return level[sink] >= 0;
  }

  /// Pushes what one more path along rising levels takes; 0: there is none.
  int64_t pushPath(uint32_t source, uint32_t sink) {
    std::vector<uint32_t> path;
    uint32_t node = source;
    while (node != sink) {
      bool moved = false;
      for (uint32_t &i = next[node]; i < edgesOf[node].size(); ++i) {
        ++visits;
        const Edge &edge = edges[edgesOf[node][i]];
        if (edge.capacity == 0 || level[edge.to] != level[node] + 1)
          continue;
        path.push_back(edgesOf[node][i]);
        node = edge.to;
        moved = true;
        break;
      }
      if (moved)
        continue;
      if (path.empty())
        return 0;
      // Nothing goes on from here: step back and past this edge.
      node = edges[path.back() ^ 1].to;
      path.pop_back();
      ++next[node];
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (uint32_t e : path)
      least = std::min(least, edges[e].capacity);
    for (uint32_t e : path) {
      edges[e].capacity -= least;
      edges[e ^ 1].capacity += least;
    }
    return least;
  }

  std::vector<Edge> edges; ///< Each followed by its reverse.
  std::vector<std::vector<uint32_t>> edgesOf;
  std::vector<int32_t> level;
  std::vector<uint32_t> next;
  int64_t visits = 0;
};

} // namespace

/// What is live at the task where program order holds most.
static LiveBound boundByProgramOrder(const Lives &lives) {
  uint32_t tasks = 0;
  for (size_t i = 0; i < lives.size(); ++i)
    tasks = std::max(tasks, lives[i].last + 1);
  std::vector<int64_t> change(tasks + 1, 0);
  for (size_t i = 0; i < lives.size(); ++i) {
    change[lives[i].first] += lives[i].bytes;
    change[lives[i].last + 1] -= lives[i].bytes;
  }
  LiveBound bound;
  uint32_t at = 0;
  int64_t live = 0;
  for (uint32_t task = 0; task < tasks; ++task) {
    live += change[task];
    if (live > bound.bytes) {
      bound.bytes = live;
      at = task;
    }
  }
  for (size_t i = 0; i < lives.size(); ++i)
    if (lives[i].first <= at && at <= lives[i].last)
      bound.holders.push_back(i);
  bound.exact = false;
  return bound;
}

LiveBound ciuic::sched::findLiveBound(const Lives &lives, int64_t work) {
  // Each buffer is two nodes: it takes bytes (i) and hands them on (count + i)
  // to what comes after. A buffer that takes all of its bytes from those
  // before it needs none of its own.
  constexpr int64_t unbounded = std::numeric_limits<int64_t>::max() / 2;
  LiveBound byOrder = boundByProgramOrder(lives);
  std::optional<Lists> successors = lives.findSuccessors(work);
  if (!successors)
    return byOrder;
  auto count = static_cast<uint32_t>(lives.size());
  uint32_t source = 2 * count, sink = source + 1;
  Flow flow(2 * count + 2);
  int64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    total += lives[i].bytes;
    flow.add(source, count + i, lives[i].bytes);
    flow.add(i, sink, lives[i].bytes);
    // What it was handed it may hand on, without holding it.
    flow.add(i, count + i, unbounded);
    for (uint32_t next : (*successors)[i])
      flow.add(count + i, next, unbounded);
  }
  int64_t shared = flow.run(source, sink, work);
  if (shared < 0)
    return byOrder;
  LiveBound bound{total - shared, {}, /*exact=*/true};
  // The cut: buffers that still have bytes to hand on, and that take none.
  for (uint32_t i = 0; i < count; ++i)
    if (flow.isReached(count + i) && !flow.isReached(i))
      bound.holders.push_back(i);
  return bound;
}
