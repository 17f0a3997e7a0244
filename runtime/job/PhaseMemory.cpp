//===- PhaseMemory.cpp - What each part of a run holds --------------------===//
#include "runtime/job/PhaseMemory.h"

#include "runtime/base/StagedBytes.h"

#include <algorithm>
#include <cstdio>
#include <malloc.h>
#include <vector>

namespace ciuic::rt {
namespace {

/// Makes the peak of this process's memory what it holds now.
bool forgetPeak() {
  std::FILE *file = std::fopen("/proc/self/clear_refs", "we");
  if (!file)
    return false;
  bool written = std::fputs("5", file) >= 0;
  return std::fclose(file) == 0 && written;
}

/// VmHWM of /proc/self/status, in bytes; 0 if it is not there.
uint64_t residentPeak() {
  std::FILE *file = std::fopen("/proc/self/status", "re");
  if (!file)
    return 0;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
      break;
  std::fclose(file);
  return static_cast<uint64_t>(kilobytes) * 1024;
}

} // namespace

const char *name(RunPhase phase) {
  switch (phase) {
  case RunPhase::Start:
    return "start";
  case RunPhase::Step:
    return "step";
  case RunPhase::Checkpoint:
    return "checkpoint";
  case RunPhase::Resume:
    return "resume";
  case RunPhase::Export:
    return "export";
  }
  return "";
}

void PhaseMemory::begin() {
  // What ran before has freed it, but may hold it still.
  malloc_trim(0);
  (void)StagedBytes::takePeak();
  knowsResident = forgetPeak();
}

void PhaseMemory::end(RunPhase phase) {
  PhasePeak &peak = most[static_cast<size_t>(phase)];
  peak.staged = std::max(peak.staged, StagedBytes::takePeak());
  if (knowsResident)
    peak.resident = std::max(peak.resident, residentPeak());
  begin();
}

Status PhaseMemory::share(ProcessGroup &group) {
  if (group.processes() == 1)
    return {};
  std::vector<PhasePeaks> all(group.processes());
  CIUIC_TRY(group.gather(std::as_bytes(std::span(&most, 1)),
                         std::as_writable_bytes(std::span(all))));
  for (const PhasePeaks &other : all)
    for (size_t i = 0; i < runPhases; ++i) {
      most[i].staged = std::max(most[i].staged, other[i].staged);
      most[i].resident = std::max(most[i].resident, other[i].resident);
    }
  return {};
}

} // namespace ciuic::rt
