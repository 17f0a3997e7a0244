//===- PlanGraphs.cpp - Which steps of a plan become graphs ---------------===//
#include "runtime/task/cuda/PlanGraphs.h"

#include <algorithm>

namespace ciuic::rt {
namespace {

constexpr uint32_t none = ~0u;

class Cutter {
public:
  Cutter(DevicePlan &plan, uint32_t lanes)
      : plan(plan), steps(std::move(plan.steps)), lanes(lanes),
        fromHost(plan.events, false), toHost(plan.events, false),
        graphOf(plan.events, none) {
    plan.steps.clear();
    for (const PlanStep &step : steps) {
      if (!isHostLane(step.lane))
        continue;
      isWhole = false;
      if (step.kind == Kind::Record)
        fromHost[step.index] = true;
      if (step.kind == Kind::Wait)
        toHost[step.index] = true;
    }
  }

  void cut() {
    size_t at = 0;
    while (at < steps.size()) {
      size_t end = at;
      while (end < steps.size() && !isCut(steps[end]))
        ++end;
      emitStretch(at, end);
      if (end < steps.size())
        emit(steps[end++]);
      at = end;
    }
  }

private:
  using Kind = PlanStep::Kind;

  static bool isHostLane(uint32_t lane) {
    return isOfHost(static_cast<abi::Stream>(lane % abi::kStreams));
  }

  bool isCut(const PlanStep &step) const {
    return isHostLane(step.lane) ||
           (step.kind == Kind::Wait && fromHost[step.index]) ||
           (step.kind == Kind::Record && toHost[step.index]);
  }

  /// Steps that no host task cuts: a graph from the first task to the last.
  void emitStretch(size_t begin, size_t end) {
    uint32_t tasks = 0;
    size_t first = end, last = begin;
    for (size_t i = begin; i < end; ++i)
      if (steps[i].kind == Kind::Run) {
        first = std::min(first, i);
        last = i + 1;
        ++tasks;
      }
    if (tasks < (isWhole ? 1 : fewestOfGraph))
      first = last = end;
    for (size_t i = begin; i < first; ++i)
      emit(steps[i]);
    if (first < last)
      emitGraph(first, last, tasks);
    for (size_t i = last; i < end; ++i)
      emit(steps[i]);
  }

  /// A step outside of graphs.
  void emit(PlanStep step) {
    if (step.kind == Kind::Wait && graphOf[step.index] != none) {
      // Within a graph events are the graph's own: its end stands for them.
      uint32_t graph = graphOf[step.index];
      if (knows[graph][step.lane])
        return;
      knows[graph][step.lane] = true;
      step.index = endOf[graph];
    }
    plan.steps.push_back(step);
  }

  void emitGraph(size_t first, size_t last, uint32_t tasks) {
    auto graph = static_cast<uint32_t>(plan.graphs.size());
    std::vector<bool> used(lanes, false), inside(plan.events, false);
    for (size_t i = first; i < last; ++i) {
      used[steps[i].lane] = true;
      if (steps[i].kind == Kind::Record)
        inside[steps[i].index] = true;
    }
    for (size_t i = first; i < last; ++i)
      if (steps[i].kind == Kind::Wait && !inside[steps[i].index])
        emit(steps[i]);
    auto origin = static_cast<uint32_t>(
        std::find(used.begin(), used.end(), true) - used.begin());
    gather(origin, used);
    plan.steps.push_back({Kind::Graph, origin, graph, 0});
    auto begin = static_cast<uint32_t>(plan.steps.size());
    scatter(origin, used);
    for (size_t i = first; i < last; ++i) {
      if (steps[i].kind == Kind::Wait && !inside[steps[i].index])
        continue;
      if (steps[i].kind == Kind::Record)
        graphOf[steps[i].index] = graph;
      plan.steps.push_back(steps[i]);
    }
    gather(origin, used);
    plan.graphs.push_back(
        {begin, static_cast<uint32_t>(plan.steps.size()), tasks});
    endOf.push_back(scatter(origin, used));
    knows.push_back(std::move(used));
  }

  /// Lets the origin wait for all other lanes.
  void gather(uint32_t origin, const std::vector<bool> &used) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (!used[lane] || lane == origin)
        continue;
      plan.steps.push_back({Kind::Record, lane, plan.events, 0});
      plan.steps.push_back({Kind::Wait, origin, plan.events++, 0});
    }
  }

  /// Lets all other lanes wait for the origin; the event.
  uint32_t scatter(uint32_t origin, const std::vector<bool> &used) {
    uint32_t event = plan.events++;
    plan.steps.push_back({Kind::Record, origin, event, 0});
    for (uint32_t lane = 0; lane < lanes; ++lane)
      if (used[lane] && lane != origin)
        plan.steps.push_back({Kind::Wait, lane, event, 0});
    return event;
  }

  DevicePlan &plan;
  const std::vector<PlanStep> steps; ///< As they were.
  const uint32_t lanes;
  bool isWhole = true;           ///< No step is of a host lane.
  std::vector<bool> fromHost;    ///< Events that a host lane records ...
  std::vector<bool> toHost;      ///< ... and that one waits for.
  std::vector<uint32_t> graphOf; ///< Where events are recorded.
  /// Of each graph: the event after it, and which lanes have waited for it.
  std::vector<uint32_t> endOf;
  std::vector<std::vector<bool>> knows;
};

} // namespace

void cutGraphs(DevicePlan &plan, uint32_t lanes) { Cutter(plan, lanes).cut(); }

} // namespace ciuic::rt
