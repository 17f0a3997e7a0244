//===- PhaseMemory.h - What each part of a run holds ------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_PHASEMEMORY_H
#define CIUIC_RUNTIME_JOB_PHASEMEMORY_H

#include "runtime/comm/ProcessGroup.h"

#include <array>
#include <cstdint>

namespace ciuic::rt {

/// The parts of a run, as plans name them.
enum class RunPhase { Start, Step, Checkpoint, Resume, Export };
inline constexpr size_t runPhases = 5;
const char *name(RunPhase phase);

/// The most bytes of a process in a part of its run.
struct PhasePeak {
  uint64_t staged = 0;   ///< In buffers beside the arenas that are counted.
  uint64_t resident = 0; ///< In all of its memory; 0: not known.
};
using PhasePeaks = std::array<PhasePeak, runPhases>;

/// Measures one part of a run after the other.
class PhaseMemory {
public:
  /// The first part begins.
  PhaseMemory() { begin(); }

  /// What ran since the last call was `phase`; the next part begins. What it
  /// has freed goes back to the system, so that the next is not taken for it.
  void end(RunPhase phase);

  const PhasePeaks &peaks() const { return most; }

  /// The highest of all processes, for each of them to call.
  Status share(ProcessGroup &group);

private:
  void begin();

  PhasePeaks most{};
  bool knowsResident = false; ///< The system forgets an earlier peak.
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_PHASEMEMORY_H
