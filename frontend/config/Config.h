//===- Config.h - A DeepSpeed file, resolved --------------------*- C++ -*-===//
//
// Reads a ds_config.json as DeepSpeed 0.19.6 does (Hjson, aliases, old keys,
// "auto"), fills it from the command line, the model and the job, and checks
// it. The compiler sees only JobSettings: typed, complete, with no key left to
// interpret. Keys.h lists every key; Hjson.h reads the text.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_CONFIG_CONFIG_H
#define CIUIC_FRONTEND_CONFIG_CONFIG_H

#include "frontend/config/Room.h"
#include "runtime/base/Status.h"
#include "runtime/kernels/scalar/LearningRate.h"
#include "runtime/kernels/scalar/LossScale.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::config {

enum class Precision { Fp32, Bf16, Fp16 };
enum class OptimizerKind { AdamW, Adam, Sgd };
enum class OffloadDevice { None, Cpu, Nvme };

/// "fp32", "bf16", "fp16"; "AdamW", "Adam", "SGD"; "none", "cpu", "nvme".
const char *name(Precision precision);
const char *name(OptimizerKind kind);
const char *name(OffloadDevice device);

//===----------------------------------------------------------------------===//
// What the file means
//===----------------------------------------------------------------------===//

/// trainBatchSize = microBatch * accumulation * worldSize, all positive.
struct BatchSettings {
  int64_t trainBatchSize = 1; ///< Sequences an optimizer step.
  int64_t microBatch = 1;     ///< Sequences a device and micro-step.
  int64_t accumulation = 1;   ///< Micro-steps an optimizer step.
  int64_t worldSize = 1;      ///< Devices, all data-parallel.
};

struct PrecisionSettings {
  /// Type of the forward and backward; masters and moments are fp32.
  Precision compute = Precision::Fp32;

  /// fp16: static or dynamic, with its initial scale. Otherwise static 1.
  rt::LossScaleParams lossScale;

  /// An inf or NaN gradient on any rank skips the step on all of them:
  /// always in fp16, bf16.check_grad_overflow in bf16, never in fp32.
  bool checkOverflow = false;
};

struct OptimizerSettings {
  /// AdamW decays weights apart from the gradient, Adam through it.
  OptimizerKind kind = OptimizerKind::AdamW;
  double lr = 1e-3;
  double beta1 = 0.9;         ///< Adam and AdamW.
  double beta2 = 0.999;       ///< Adam and AdamW.
  double eps = 1e-8;          ///< Adam and AdamW.
  bool biasCorrection = true; ///< Adam and AdamW.
  double momentum = 0.0;      ///< SGD; dampening 0, not Nesterov's.
  double weightDecay = 0.0;
};

struct SchedulerSettings {
  /// Ready for rt::learningRate(); kind Constant without a scheduler.
  rt::LearningRateParams rate;

  /// The schedule's length is the job's: rate.totalSteps is 0 here and must
  /// be set when training starts and its number of steps is known.
  bool totalStepsFromJob = false;
};

struct OffloadSettings {
  OffloadDevice device = OffloadDevice::None;
  bool pinMemory = true;
  double ratio = 1.0;   ///< Share of the optimizer state that moves.
  std::string nvmePath; ///< Folder for files; set with device Nvme.
};

/// How files are read and written.
struct DiskSettings {
  int64_t blockSize = 1 << 20; ///< Bytes of one request.
  int64_t queueDepth = 8;      ///< Requests under way at once.
};

/// All sizes count elements, never bytes.
struct ZeroSettings {
  int stage = 0; ///< 0 whole, 1 optimizer, 2 + gradients, 3 + parameters.
  int64_t reduceBucketSize = 500'000'000;
  int64_t allgatherBucketSize = 500'000'000;
  int64_t prefetchBucketSize = 50'000'000;
  int64_t persistenceThreshold = 100'000; ///< Stage 3: smaller stay whole.
  bool overlapComm = false;               ///< Default true at stage 3.
  OffloadSettings offloadOptimizer;
  OffloadSettings offloadParam; ///< None where the key has no effect.
  DiskSettings disk;
};

struct JobSettings {
  BatchSettings batch;
  PrecisionSettings precision;
  OptimizerSettings optimizer;
  SchedulerSettings scheduler;
  double gradientClipping = 1.0; ///< Largest global norm; 0 is off.
  ZeroSettings zero;
  RoomSettings room;

  /// Type in which gradients travel; the training type unless the file says.
  Precision communicationType = Precision::Fp32;

  int64_t stepsPerPrint = 0; ///< 0: the file does not say.
  bool wallClockBreakdown = false;
};

//===----------------------------------------------------------------------===//
// What fills "auto", and what is not in the file
//===----------------------------------------------------------------------===//

/// What the user said on the command line, and what model and job say.
/// A given value fills "auto" and a missing key; against a value in the file
/// that differs it is an error. Where nothing is given, "auto" becomes what
/// Hugging Face's trainer would use: lr 5e-5, micro-batch 8, accumulation 1,
/// clipping 1, betas 0.9 and 0.999, eps 1e-8, decay 0, no warm-up, fp32.
struct Overrides {
  int64_t devices = 1;

  // Command line.
  std::optional<int64_t> trainBatchSize;         ///< --batch
  std::optional<int64_t> microBatch;             ///< --micro-batch
  std::optional<int64_t> accumulation;           ///< --accumulation
  std::optional<Precision> precision;            ///< --precision
  std::optional<double> lr;                      ///< --lr
  std::optional<double> beta1;                   ///< --beta1
  std::optional<double> beta2;                   ///< --beta2
  std::optional<double> eps;                     ///< --eps
  std::optional<double> weightDecay;             ///< --weight-decay
  std::optional<double> maxGradNorm;             ///< --max-grad-norm
  std::optional<int64_t> warmupSteps;            ///< --warmup-steps
  std::optional<int64_t> totalSteps;             ///< --steps
  std::optional<double> epochs;                  ///< --epochs
  std::optional<int64_t> stage;                  ///< --zero-stage
  std::optional<OffloadDevice> offloadOptimizer; ///< --offload-optimizer
  std::optional<OffloadDevice> offloadParam;     ///< --offload-param
  std::optional<double> offloadRatio;            ///< --offload-ratio
  std::optional<RecomputeSpec> recompute;        ///< --recompute
  std::optional<int64_t> keepGathered;           ///< --keep-gathered
  std::optional<int64_t> offloadActivations;     ///< --offload-activations
  std::optional<std::string> nvmePath;           ///< --nvme-path

  /// What is given replaces what the file says, rather than contradict it: to
  /// learn what an edited file would do.
  bool overFile = false;

  // Model: sizes of buckets that are "auto" follow from it.
  std::optional<int64_t> hiddenSize;

  // Job: sequences in an epoch of the data; with `epochs` it gives the steps.
  std::optional<int64_t> sequencesPerEpoch;
};

//===----------------------------------------------------------------------===//
// Resolving
//===----------------------------------------------------------------------===//

enum class Source { File, Default, CommandLine, Model, Job, Inferred };

/// One row of `ciuicc config`.
struct ResolvedKey {
  std::string key;   ///< "zero_optimization.stage"
  std::string value; ///< As text, as JSON would print it.
  Source source = Source::Default;
  unsigned line = 0;  ///< 1-based line in the file; 0 where not from it.
  std::string origin; ///< "line 12", "default", "--lr", "hidden size 64".
  std::string what;   ///< A plain sentence about what the key does.
  bool acted = true;  ///< False: known, and without effect here.
};

struct ResolvedConfig {
  JobSettings job;
  std::vector<ResolvedKey> keys;
  /// One message each, with file and line where there is one; no newline.
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

/// Reads and resolves the file at `path`. With `strict`, what would be a
/// warning about a key without effect is an error. An error lists all that is
/// wrong, a line each: "FILE:LINE:COLUMN: KEY: what was found, and expected".
rt::Result<ResolvedConfig> resolve(const std::string &path,
                                   const Overrides &overrides,
                                   bool strict = false);

/// The same for a text in memory; `name` stands for the file in messages.
rt::Result<ResolvedConfig> resolveText(std::string_view text,
                                       const std::string &name,
                                       const Overrides &overrides,
                                       bool strict = false);

/// The table of `ciuicc config`: key, value, origin, what it does, then
/// warnings and notes. Ends in a newline.
std::string printResolved(const ResolvedConfig &config);

} // namespace ciuic::config

#endif // CIUIC_FRONTEND_CONFIG_CONFIG_H
