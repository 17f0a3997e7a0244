//===- Flow.cpp - A greatest flow through a network -----------------------===//
#include "passes/Sched/Flow.h"

#include <algorithm>
#include <limits>

using namespace ciuic::sched;

int64_t Flow::run(uint32_t source, uint32_t sink, int64_t work) {
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

bool Flow::findLevels(uint32_t source, uint32_t sink) {
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
int64_t Flow::pushPath(uint32_t source, uint32_t sink) {
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
