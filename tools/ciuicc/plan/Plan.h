//===- Plan.h - The plan of a bundle, read back -----------------*- C++ -*-===//
//
// plan/memory.json and plan/schedule.json as the commands that show them need
// them. A bundle may come from anywhere: what is read is checked, so that
// every number here is in range and every index names something.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_CIUICC_PLAN_PLAN_H
#define CIUIC_TOOLS_CIUICC_PLAN_PLAN_H

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ciuic::tool {

enum class PlanArena { Device, Host, Nvme };
inline constexpr size_t planArenas = 3;
inline constexpr std::array<const char *, planArenas> planArenaNames = {
    "device", "host", "nvme"};
inline constexpr std::array<PlanArena, planArenas> allPlanArenas = {
    PlanArena::Device, PlanArena::Host, PlanArena::Nvme};

/// Bytes of an arena. Those of a program live from its task `first` to its
/// task `last`; all others all the time.
struct PlanBuffer {
  std::string name;
  std::string holds; ///< "parameter", "moment", "activation", ...
  PlanArena arena = PlanArena::Device;
  int64_t offset = 0, bytes = 0;
  std::optional<uint32_t> program; ///< Of Plan::programs.
  bool isTouched = false;          ///< Whether any task of it does.
  uint32_t first = 0, last = 0;
  std::string state, slot, bucket; ///< Of a state; empty where not.
  bool sharded = false;
  int64_t elementBytes = 0; ///< Of a state.
};

struct PlanView {
  uint32_t buffer = 0; ///< Of Plan::buffers.
  std::string access;  ///< "read", "write", "update", "skip", "scratch".
  int64_t offset = 0, bytes = 0, elementBytes = 0, rankStride = 0;
};

struct PlanTask {
  std::string name, kind, stream;
  std::vector<uint32_t> waits; ///< Earlier tasks of the program.
  int64_t bytes = 0;           ///< Of all its views.
  double start = 0, end = 0;   ///< Microseconds from its program's start.
  std::vector<PlanView> views;
};

struct PlanProgram {
  std::string name;
  std::vector<PlanTask> tasks;
};

struct PlanBucket {
  std::string name;
  int64_t elements = 0, chunk = 0;
};

/// Elements [at, at + elements) of its bucket.
struct PlanParameter {
  std::string name, bucket, type;
  int64_t at = 0, elements = 0;
  bool trainable = false;
};

/// Host memory of a process beside its arenas, in one part of a run.
struct PlanPart {
  std::string name, source;
  int64_t bytes = 0;
};
struct PlanPhase {
  std::string name; ///< "start", "step", "checkpoint", "resume", "export".
  std::vector<PlanPart> parts;
  int64_t bytes = 0; ///< Of all of them.
};

struct Plan {
  int64_t ranks = 1;
  std::array<int64_t, planArenas> arenaBytes{}; ///< Of each rank.
  std::array<int64_t, planArenas> liveBound{};
  std::array<bool, planArenas> boundExact{}; ///< Else it may be too low.
  std::vector<PlanProgram> programs; ///< In the order in which a step runs.
  std::vector<PlanBuffer> buffers;
  std::vector<PlanBucket> buckets;
  std::vector<PlanParameter> parameters;
  int64_t processes = 1, threads = 1; ///< Of a run, and of each process.
  std::vector<PlanPhase> phases;      ///< None in a plan that tells nothing.
};

/// Reads the plan of a bundle; says what is wrong with it and where.
rt::Result<Plan> readPlan(const std::string &bundle);

/// Most bytes that are live at one task of a program, in program order, what
/// is held all the time included.
struct PlanPeak {
  int64_t bytes = 0;
  uint32_t task = 0;
};
PlanPeak findPlanPeak(const Plan &plan, uint32_t program, PlanArena arena);

/// Bytes of states, inputs and constants.
int64_t lastingBytes(const Plan &plan, PlanArena arena);

/// The buffers live at a task, the largest first, then by name; those that are
/// held all the time come too if `lasting`.
std::vector<const PlanBuffer *> liveAt(const Plan &plan, uint32_t program,
                                       uint32_t task, PlanArena arena,
                                       bool lasting);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_PLAN_PLAN_H
