//===- Machine.cpp - What all machines share ------------------------------===//
#include "runtime/task/Machine.h"

#include <string>

namespace ciuic::rt {

const char *name(TimeKind kind) {
  switch (kind) {
  case TimeKind::Forward:
    return "forward";
  case TimeKind::Backward:
    return "backward";
  case TimeKind::Gather:
    return "gather";
  case TimeKind::Reduce:
    return "reduce";
  case TimeKind::H2D:
    return "h2d";
  case TimeKind::D2H:
    return "d2h";
  case TimeKind::Disk:
    return "disk";
  case TimeKind::Adam:
    return "adam";
  case TimeKind::Other:
    return "other";
  }
  return "other";
}

TimeKind timeKindOf(const abi::Task &task) {
  switch (task.kind) {
  case abi::TaskKind::AllGather:
    return TimeKind::Gather;
  case abi::TaskKind::ReduceScatter:
  case abi::TaskKind::AllReduce:
    return TimeKind::Reduce;
  case abi::TaskKind::Adam:
  case abi::TaskKind::Sgd:
    return TimeKind::Adam;
  default:
    break;
  }
  if (task.stream == abi::Stream::H2D)
    return TimeKind::H2D;
  if (task.stream == abi::Stream::D2H)
    return TimeKind::D2H;
  if (task.stream == abi::Stream::Disk)
    return TimeKind::Disk;
  if (task.phase == abi::Phase::Forward)
    return TimeKind::Forward;
  if (task.phase == abi::Phase::Backward)
    return TimeKind::Backward;
  return TimeKind::Other;
}

Status checkProcesses(uint32_t processes, uint32_t ranks) {
  if (processes <= ranks)
    return {};
  return Status::invalid("the job has " + std::to_string(ranks) +
                         (ranks == 1 ? " rank, " : " ranks, ") +
                         std::to_string(processes) +
                         " processes were started: expected at most one a "
                         "rank");
}

Status checkElements(const abi::View &view, RankRange ranks, uint32_t rank,
                     uint64_t first, uint64_t count) {
  if (!ranks.holds(rank))
    return Status::invalid("rank " + std::to_string(rank) +
                           " is of another process: this one has " +
                           std::to_string(ranks.count) + " from rank " +
                           std::to_string(ranks.first));
  auto elements = static_cast<uint64_t>(view.shape[0]) *
                  static_cast<uint64_t>(view.shape[1]);
  if (first > elements || count > elements - first)
    return Status::invalid("elements [" + std::to_string(first) + ", " +
                           std::to_string(first) + " + " +
                           std::to_string(count) + ") of a view of " +
                           std::to_string(elements));
  bool dense = (view.shape[1] <= 1 || view.strides[1] == 1) &&
               (view.shape[0] <= 1 || view.strides[0] == view.shape[1]);
  if (!dense)
    return Status::invalid("a view with gaps is not read or written");
  return {};
}

} // namespace ciuic::rt
