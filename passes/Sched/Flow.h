//===- Flow.h - A greatest flow through a network ---------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_FLOW_H
#define CIUIC_PASSES_SCHED_FLOW_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ciuic::sched {

/// A greatest flow by levels (Dinitz, 1970), without recursion: paths may be
/// as long as programs.
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
  int64_t run(uint32_t source, uint32_t sink, int64_t work);

  /// After run(): whether more could flow to this node.
  bool isReached(uint32_t node) const { return level[node] >= 0; }
  /// How often run() looked at an edge.
  int64_t visited() const { return visits; }

private:
  struct Edge {
    uint32_t to;
    int64_t capacity;
  };

  bool findLevels(uint32_t source, uint32_t sink);
  int64_t pushPath(uint32_t source, uint32_t sink);

  std::vector<Edge> edges; ///< Each followed by its reverse.
  std::vector<std::vector<uint32_t>> edgesOf;
  std::vector<int32_t> level;
  std::vector<uint32_t> next;
  int64_t visits = 0;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_FLOW_H
