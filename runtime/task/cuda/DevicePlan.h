//===- DevicePlan.h - What is enqueued on a device, in order ----*- C++ -*-===//
//
// A program, for the ranks of one device, as the list of steps that its thread
// enqueues: tasks on lanes (a CUDA stream is a lane) and, where a lane must
// wait for another one, an event recorded on one and awaited on the other. A
// wait that follows from an earlier wait or from a lane's own order is left
// out. All is enqueued in program order, so that lanes that share a hardware
// queue cannot wait for one another in a circle.
//
// Host tasks have lanes too, the rank's Host and Disk streams: a step releases
// them when the lane reaches it, and a later one lets the lane wait until they
// are done. So what follows a host task waits for an event as everywhere else.
//
// A program begins and ends on the compute lane of each rank: other lanes start
// after its start, and its end waits for them.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_TASK_CUDA_DEVICEPLAN_H
#define CIUIC_RUNTIME_TASK_CUDA_DEVICEPLAN_H

#include "runtime/abi/Program.h"

#include <cstdint>
#include <vector>

namespace ciuic::rt {

/// Whether the tasks of a stream are done by the host: on CPUs, or by reading
/// and writing files.
constexpr bool isOfHost(abi::Stream stream) {
  return stream == abi::Stream::Host || stream == abi::Stream::Disk;
}

/// Host tasks of one rank that run one after another without a device task in
/// between that they wait for or that waits for one of them but the last.
struct HostStretch {
  uint32_t rank;               ///< Counted within the device.
  abi::Stream stream;          ///< Host or Disk.
  std::vector<uint32_t> tasks; ///< Of the program.
};

struct PlanStep {
  enum class Kind : uint8_t {
    Run,     ///< index: task.
    Record,  ///< index: event.
    Wait,    ///< index: event.
    Release, ///< index: stretch. The lane's host tasks may run now.
    Await,   ///< index: stretch. The lane goes on when they are done.
    Graph,   ///< index: graph. Its launch on the lane stands for its steps.
  };
  Kind kind;
  uint32_t lane;
  uint32_t index;
  /// Of Run, within the device. A task of all ranks has the first.
  uint32_t rank;
};

/// Steps that can be captured from the lane of their Graph step, which they
/// follow: other lanes start after it and end before it, and what they have
/// done before and will do later is ordered outside. Enqueued one by one they
/// do the same.
struct PlanGraph {
  uint32_t begin, end; ///< Steps.
  uint32_t tasks;      ///< Among them.
};

struct DevicePlan {
  std::vector<PlanStep> steps;
  std::vector<HostStretch> stretches;
  std::vector<PlanGraph> graphs;
  uint32_t events = 0; ///< Each is recorded once.
  uint32_t waits = 0;  ///< Steps of that kind.
};

/// Lanes of a device: ranks x kStreams.
constexpr uint32_t laneOf(uint32_t rank, abi::Stream stream) {
  return rank * abi::kStreams + static_cast<uint32_t>(stream);
}

struct PlanOptions {
  uint32_t ranks = 1; ///< On the device.
  /// Collectives are one task of all ranks, on the lane of the first.
  bool sharedCollectives = false;
  /// Stretches without host tasks can be captured.
  bool graphs = false;
};

/// `program` has passed checkBundle.
DevicePlan planProgram(const abi::Program &program, const PlanOptions &options);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_CUDA_DEVICEPLAN_H
