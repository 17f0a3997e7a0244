//===- ProgressLog.h - What a run says about itself -------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_JOB_PROGRESSLOG_H
#define CIUIC_RUNTIME_JOB_PROGRESSLOG_H

#include "runtime/base/Status.h"
#include "runtime/device/host/HostArena.h"
#include "runtime/job/PhaseMemory.h"
#include "runtime/task/Machine.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace ciuic::rt {

/// One step, as told.
struct StepRecord {
  uint64_t step = 0;  ///< From 1.
  uint64_t steps = 0; ///< Of the whole run.
  double epoch = 0;   ///< Passes over the data so far.
  double loss = 0;
  double lr = 0;
  double lossScale = 1;
  double gradNorm = 0;
  bool skipped = false;
  double tokensPerSecond = 0;
  double stepMs = 0;
  double peakShare = 0; ///< Of the machine's measured GEMM rate.
  double secondsLeft = 0;
};

/// What a run holds for tensors, for comparison with its plan.
struct MemoryRecord {
  uint64_t ranks = 1;
  uint64_t deviceArena = 0; ///< Bytes of each rank, as planned.
  uint64_t hostArena = 0;   ///< Bytes of each rank, as planned.
  uint64_t scratch = 0;     ///< Bytes of tasks' scratch, beside the arenas.
  uint64_t deviceUsed =
      0;                ///< Bytes that a rank took of its device; 0: unknown.
  TensorMemory tensors; ///< What the process has allocated.
};

/// The progress line and the JSON lines file.
class ProgressLog {
public:
  /// `path` may be empty: no file. A resumed run appends.
  static Result<std::unique_ptr<ProgressLog>> open(const std::string &path,
                                                   bool append, bool quiet);
  ~ProgressLog();

  /// One record in the file; a line that stays if `keep`, else one that the
  /// next overwrites (on a terminal) or none.
  Status step(const StepRecord &record, bool keep);

  Status validation(uint64_t step, double loss, double tokens);

  /// A record before the first step.
  Status memory(const MemoryRecord &record);

  /// A record after the last step: the memory then, and how many collectives,
  /// copies and updates have run on the ranks of this process (a collective
  /// counts once), and what each part of the run held.
  Status totals(const MemoryRecord &record, const Machine &machine,
                const PhasePeaks &peaks);

  /// Milliseconds of one step by kind of work.
  void breakdown(const TimeTable &seconds, uint64_t steps);

  /// A line by itself.
  void note(const std::string &text);

private:
  ProgressLog() = default;
  Status write(const std::string &line);
  void clear();

  std::string path;
  std::FILE *file = nullptr;
  bool quiet = false;
  bool terminal = false;
  bool pending = false; ///< A line is shown that may be overwritten.
};

/// The record as one JSON object: floats with 9 significant digits, null where
/// not finite.
std::string printRecord(const StepRecord &record);

/// Three digits, or "-" where there is none: a step that overflowed.
std::string printNorm(double norm);

/// "2h05m", "3m20s", "41s".
std::string printDuration(double seconds);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_PROGRESSLOG_H
