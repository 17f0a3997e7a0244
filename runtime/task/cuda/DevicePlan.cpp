//===- DevicePlan.cpp - What is enqueued on a device, in order ------------===//
#include "runtime/task/cuda/DevicePlan.h"

#include "runtime/kernels/host/Operation.h"
#include "runtime/task/cuda/PlanGraphs.h"

#include <algorithm>

namespace ciuic::rt {
namespace {

constexpr uint32_t none = ~0u;

/// A task of a rank or of all, or the start or end of a program on a rank.
struct Node {
  enum class Kind : uint8_t { Start, Task, End };
  Kind kind;
  uint32_t task;
  uint32_t rank;
  uint32_t lane;
  uint32_t place;              ///< How many of its lane are at or before it.
  uint32_t event = none;       ///< Where another lane waits for it.
  uint32_t stretch = none;     ///< Of a host task.
  std::vector<uint32_t> waits; ///< Nodes of other lanes, the latest first.
};

class Planner {
public:
  Planner(const abi::Program &program, const PlanOptions &options)
      : program(program), options(options),
        lanes(options.ranks * abi::kStreams), reached(lanes), placed(lanes, 0) {
    for (auto &row : reached)
      row.assign(lanes, 0);
    last.assign(lanes, 0);
  }

  DevicePlan plan() {
    makeNodes();
    groupHostTasks();
    for (uint32_t n = 0; n < nodes.size(); ++n)
      emit(n);
    if (options.graphs)
      cutGraphs(plan_, lanes);
    plan_.waits = static_cast<uint32_t>(std::count_if(
        plan_.steps.begin(), plan_.steps.end(), [](const PlanStep &step) {
          return step.kind == PlanStep::Kind::Wait;
        }));
    return std::move(plan_);
  }

private:
  //===--- Which node waits for which -------------------------------------===//

  /// Appends a node after `before`; its number.
  uint32_t append(Node::Kind kind, uint32_t task, uint32_t rank, uint32_t lane,
                  std::vector<uint32_t> before) {
    Node node{kind, task, rank, lane, ++placed[lane], none, none, {}};
    std::vector<uint32_t> &mine = reached[lane];
    // A later node is likelier to imply an earlier one than the reverse.
    std::sort(before.begin(), before.end(), std::greater<>());
    for (uint32_t earlier : before) {
      const Node &other = nodes[earlier];
      if (mine[other.lane] >= other.place)
        continue;
      node.waits.push_back(earlier);
      const std::vector<uint32_t> &known = clocks[earlier];
      for (uint32_t i = 0; i < lanes; ++i)
        mine[i] = std::max(mine[i], known[i]);
    }
    mine[lane] = node.place;
    clocks.push_back(mine);
    nodes.push_back(std::move(node));
    return static_cast<uint32_t>(nodes.size() - 1);
  }

  void makeNodes() {
    uint32_t ranks = options.ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      uint32_t start = append(Node::Kind::Start, 0, rank,
                              laneOf(rank, abi::Stream::Compute), {});
      for (uint32_t s = 0; s < abi::kStreams; ++s)
        last[rank * abi::kStreams + s] = start;
    }
    nodeOf.assign(size_t(program.taskCount) * ranks, 0);
    for (uint32_t t = 0; t < program.taskCount; ++t) {
      const abi::Task &task = program.tasks[t];
      if (options.sharedCollectives && isCollective(task.kind)) {
        std::vector<uint32_t> before;
        for (uint32_t rank = 0; rank < ranks; ++rank)
          addBefore(task, rank, before);
        uint32_t node = append(Node::Kind::Task, t, 0, laneOf(0, task.stream),
                               std::move(before));
        for (uint32_t rank = 0; rank < ranks; ++rank)
          place(t, rank, node);
        continue;
      }
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        std::vector<uint32_t> before;
        addBefore(task, rank, before);
        place(t, rank,
              append(Node::Kind::Task, t, rank, laneOf(rank, task.stream),
                     std::move(before)));
      }
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<uint32_t> before(last.begin() + rank * abi::kStreams,
                                   last.begin() + (rank + 1) * abi::kStreams);
      last[laneOf(rank, abi::Stream::Compute)] =
          append(Node::Kind::End, 0, rank, laneOf(rank, abi::Stream::Compute),
                 std::move(before));
    }
  }

  void addBefore(const abi::Task &task, uint32_t rank,
                 std::vector<uint32_t> &before) const {
    before.push_back(last[laneOf(rank, task.stream)]);
    for (uint32_t i = task.waits.begin; i < task.waits.end; ++i)
      before.push_back(nodeOf[size_t(program.waits[i]) * options.ranks + rank]);
  }

  void place(uint32_t task, uint32_t rank, uint32_t node) {
    nodeOf[size_t(task) * options.ranks + rank] = node;
    last[laneOf(rank, program.tasks[task].stream)] = node;
  }

  //===--- Stretches of host tasks ----------------------------------------===//

  bool isHostTask(const Node &node) const {
    return node.kind == Node::Kind::Task &&
           isOfHost(program.tasks[node.task].stream);
  }

  void groupHostTasks() {
    for (Node &node : nodes)
      for (uint32_t earlier : node.waits)
        if (nodes[earlier].event == none)
          nodes[earlier].event = plan_.events++;
    std::vector<uint32_t> previous(lanes, none);
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      Node &node = nodes[n];
      if (!isHostTask(node))
        continue;
      uint32_t before = previous[node.lane];
      previous[node.lane] = n;
      if (before != none && node.waits.empty() && nodes[before].event == none) {
        node.stretch = nodes[before].stretch;
      } else {
        node.stretch = static_cast<uint32_t>(plan_.stretches.size());
        plan_.stretches.push_back(
            {node.rank, program.tasks[node.task].stream, {}});
        lastOf.push_back(n);
      }
      lastOf[node.stretch] = n;
      plan_.stretches[node.stretch].tasks.push_back(node.task);
    }
    awaited.assign(plan_.stretches.size(), false);
    open.assign(lanes, none);
  }

  //===--- The steps ------------------------------------------------------===//

  void step(PlanStep::Kind kind, uint32_t lane, uint32_t index,
            uint32_t rank = 0) {
    plan_.steps.push_back({kind, lane, index, rank});
  }

  /// Lets the host lane wait for a stretch, once.
  void await(uint32_t stretch) {
    if (stretch == none || awaited[stretch])
      return;
    awaited[stretch] = true;
    const HostStretch &awaitedFor = plan_.stretches[stretch];
    uint32_t lane = laneOf(awaitedFor.rank, awaitedFor.stream);
    step(PlanStep::Kind::Await, lane, stretch);
    // Only the last task of a stretch is waited for.
    if (uint32_t event = nodes[lastOf[stretch]].event; event != none)
      step(PlanStep::Kind::Record, lane, event);
  }

  void emit(uint32_t n) {
    Node &node = nodes[n];
    for (uint32_t earlier : node.waits) {
      const Node &other = nodes[earlier];
      // A host task is awaited where that is first needed.
      if (isHostTask(other))
        await(other.stretch);
      step(PlanStep::Kind::Wait, node.lane, other.event);
    }
    if (isHostTask(node)) {
      const HostStretch &stretch = plan_.stretches[node.stretch];
      if (stretch.tasks.front() != node.task)
        return;
      await(open[node.lane]);
      open[node.lane] = node.stretch;
      step(PlanStep::Kind::Release, node.lane, node.stretch);
      return;
    }
    if (node.kind == Node::Kind::Task)
      step(PlanStep::Kind::Run, node.lane, node.task, node.rank);
    if (node.event != none)
      step(PlanStep::Kind::Record, node.lane, node.event);
  }

  const abi::Program &program;
  const PlanOptions options;
  const uint32_t lanes;
  std::vector<Node> nodes;
  /// Of each lane and node: how many nodes of each lane are done before it.
  std::vector<std::vector<uint32_t>> reached, clocks;
  std::vector<uint32_t> placed;
  std::vector<uint32_t> last;   ///< Of each rank and stream.
  std::vector<uint32_t> nodeOf; ///< Of each task and rank.
  std::vector<uint32_t> lastOf; ///< The last node of each stretch.
  std::vector<bool> awaited;    ///< Of each stretch.
  std::vector<uint32_t> open;   ///< The latest released stretch of each lane.
  DevicePlan plan_;
};

} // namespace

DevicePlan planProgram(const abi::Program &program,
                       const PlanOptions &options) {
  return Planner(program, options).plan();
}

} // namespace ciuic::rt
