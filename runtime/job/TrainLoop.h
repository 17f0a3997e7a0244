//===- TrainLoop.h - Training a job from data to weights --------*- C++ -*-===//
//
// What `ciuicc train` does once there is a bundle: opens the data, starts or
// resumes the job, runs steps, tells how they go, saves and exports.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_JOB_TRAINLOOP_H
#define CIUIC_RUNTIME_JOB_TRAINLOOP_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/comm/ProcessGroup.h"
#include "runtime/task/Machine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ciuic::rt {

struct TrainOptions {
  /// What the bundle runs on.
  MachineFactory makeMachine;

  /// The processes that train together; null: this one alone. All are given
  /// the same options; process 0 alone writes and tells.
  ProcessGroup *group = nullptr;

  /// The bundle's folder: `lib/libjob.so`, and `config.json` (the model's, for
  /// an export).
  std::string bundle;

  /// Text files, folders of them, or token files.
  std::vector<std::string> data;

  /// A Hugging Face folder to start from; empty: the symbolic initialisers.
  std::string weights;

  /// How long: steps win over epochs; neither is one epoch. Both count from
  /// the start of the run, resumed or not.
  std::optional<uint64_t> steps;
  std::optional<double> epochs;

  std::string save;         ///< Folder of checkpoints; empty: none.
  uint64_t saveEvery = 0;   ///< Steps; 0: at the end only.
  std::string resume;       ///< A checkpoint, or a folder of them.
  std::string exportFolder; ///< Hugging Face folder; empty: none.
  DType exportDType = DType::F32;
  uint64_t exportShardBytes = 5000000000; ///< Of one weights file.

  uint64_t logEvery = 1; ///< Steps between progress lines that stay.
  std::string log;       ///< JSON lines, one a step; appended when resuming.
  uint64_t seed = 0;
  bool shuffle = true; ///< Else each epoch takes the data in its order.

  double validationShare = 0; ///< Of the sequences; in [0, 1).
  uint64_t validateEvery = 0; ///< Steps; 0: at the end only.

  std::string profile; ///< File for the time of each task; empty: none.

  bool wallClockBreakdown = false;
  int threads = 0;           ///< 0: one for each processor.
  uint64_t deviceMemory = 0; ///< Bytes of each device; 0: no limit.
  /// Seconds after which a collective that does not complete is given up.
  double collectiveTimeout = 1800;
  CudaFlags cuda;
  DiskFlags disk;
  bool quiet = false; ///< No progress on standard output.
};

/// What a run came to.
struct TrainResult {
  uint64_t steps = 0; ///< Of the whole training, skipped ones included.
  uint64_t skipped = 0;
  double loss = 0; ///< Of the last step.
  bool interrupted = false;
};

/// Trains. SIGINT or SIGTERM, to any process, ends the run after the step that
/// is under way, as if it had been the last one; before the first record of the
/// log it ends the process, and after the last step nothing is left to end.
/// Where one process fails all
/// do, with a message that names it. Code::Stopped where training cannot go on:
/// the loss is not finite, or the loss scale overflowed at its minimum.
Result<TrainResult> runTraining(const TrainOptions &options);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_JOB_TRAINLOOP_H
