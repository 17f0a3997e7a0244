//===- PlanGraphs.h - Which steps of a plan become graphs -------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_PLANGRAPHS_H
#define CIUIC_RUNTIME_TASK_CUDA_PLANGRAPHS_H

#include "runtime/task/cuda/DevicePlan.h"

namespace ciuic::rt {

/// Tasks from which on a stretch between host tasks is a graph. A graph saves
/// the enqueuing of its tasks, a few microseconds each, and costs its launch,
/// about that of two tasks, and an event and a wait into it and out of it for
/// each of its lanes, with less overlap at both ends.
constexpr uint32_t fewestOfGraph = 8;

/// Makes graphs of the steps between those of host lanes: of a program without
/// host tasks one of all, else one a stretch of `fewestOfGraph` tasks.
///
/// A stretch ends before a task that waits for a host task, so that no other
/// task waits with it, and after one that a host task waits for, so that this
/// one does not wait for more. What a graph's tasks wait for from before is
/// awaited before it; what waits for one of its tasks waits for all of it.
void cutGraphs(DevicePlan &plan, uint32_t lanes);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_PLANGRAPHS_H
