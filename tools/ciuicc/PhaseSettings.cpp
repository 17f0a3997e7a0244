//===- PhaseSettings.cpp - The passes' options for a resolved job ---------===//
#include "tools/ciuicc/Compiler.h"
#include "tools/ciuicc/MachineRates.h"
#include "llvm/Support/MathExtras.h"

#include <thread>

using namespace ciuic;
using namespace ciuic::tool;

static train::OptimizerKind optimizerKind(config::OptimizerKind kind) {
  switch (kind) {
  case config::OptimizerKind::AdamW:
    return train::OptimizerKind::AdamW;
  case config::OptimizerKind::Adam:
    return train::OptimizerKind::Adam;
  case config::OptimizerKind::Sgd:
    return train::OptimizerKind::Sgd;
  }
  return train::OptimizerKind::AdamW;
}

static train::ComputeType computeType(config::Precision precision) {
  switch (precision) {
  case config::Precision::Fp32:
    return train::ComputeType::F32;
  case config::Precision::Bf16:
    return train::ComputeType::BF16;
  case config::Precision::Fp16:
    return train::ComputeType::F16;
  }
  return train::ComputeType::F32;
}

static void setOptimizer(train::AppendOptimizerPassOptions &to,
                         const config::JobSettings &job) {
  const config::OptimizerSettings &optimizer = job.optimizer;
  const rt::LearningRateParams &rate = job.scheduler.rate;
  to.optimizer = optimizerKind(optimizer.kind);
  to.kind = static_cast<train::ScheduleKind>(rate.kind);
  to.base = rate.lr;
  to.min = rate.warmupMinLr;
  to.max = rate.warmupMaxLr;
  to.warmup = rate.warmupSteps;
  to.total = rate.totalSteps;
  to.logarithmic = rate.curve == rt::WarmupCurve::Log;
  to.warmupRatio = rate.warmupMinRatio;
  to.cosMinRatio = rate.cosMinRatio;
  to.beta1 = optimizer.beta1;
  to.beta2 = optimizer.beta2;
  to.eps = optimizer.eps;
  to.biasCorrection = optimizer.biasCorrection;
  to.momentum = optimizer.momentum;
  to.decay = optimizer.weightDecay;
  to.clip = job.gradientClipping;
  to.accumulation = job.batch.accumulation;
  // In 16 bits the precision phase says whether steps are checked.
  to.checkOverflow = job.precision.compute == config::Precision::Fp32 &&
                     job.precision.checkOverflow;
}

static void setPrecision(train::LowerPrecisionPassOptions &to,
                         const config::PrecisionSettings &precision) {
  const rt::LossScaleParams &scale = precision.lossScale;
  to.computeType = computeType(precision.compute);
  to.lossScale = scale.dynamic ? 0.0 : scale.initialScale;
  if (scale.dynamic)
    to.initialScalePower = std::ilogb(scale.initialScale);
  to.window = scale.window;
  to.hysteresis = scale.hysteresis;
  to.consecutive = scale.consecutiveHysteresis;
  to.min = scale.minScale;
  to.checkOverflow = precision.checkOverflow;
}

std::string tool::architecturesOf(const CompileOptions &options) {
  return options.architectures.empty() ? "sm_80" : options.architectures;
}

sched::ProcessFacts tool::processFactsOf(const CompileOptions &options) {
  sched::ProcessFacts facts;
  facts.processes = options.processes;
  facts.threads = options.machine
                      ? options.machine->cores
                      : std::max(1u, std::thread::hardware_concurrency());
  // A machine that says nothing of processes counts nothing for them.
  for (const machine::Reserve &entry :
       options.machine ? options.machine->reserve : machine::usualProcess())
    if (entry.where == machine::Where::Process ||
        entry.where == machine::Where::Thread)
      facts.reserve.push_back({entry.name, entry.source, entry.bytes,
                               entry.where == machine::Where::Thread});
  return facts;
}

int64_t tool::besideArenas(mlir::ModuleOp module,
                           const CompileOptions &options) {
  if (!options.wholeHost)
    return 0;
  auto phases = sched::findHostPhases(module, processFactsOf(options));
  return sched::highestPhase(phases).bytes() * options.processes;
}

PhaseOptions tool::phaseOptions(const config::JobSettings &job,
                                const CompileOptions &options) {
  PhaseOptions phases;
  phases.differentiate.accumulation = job.batch.accumulation;
  setOptimizer(phases.optimizer, job);
  for (const std::string &pattern : options.noDecay)
    phases.optimizer.noDecay.push_back(pattern);
  setPrecision(phases.precision, job.precision);

  phases.shard.ranks = job.batch.worldSize;
  phases.shard.stage = job.zero.stage;
  phases.shard.persistenceThreshold = job.zero.persistenceThreshold;
  // One bucket is what is reduced, and at stages 1 and 2 gathered, at once.
  phases.shard.maxBucketElements = job.zero.reduceBucketSize;
  if (job.zero.stage == 1 || job.zero.stage == 2)
    phases.shard.maxBucketElements =
        std::min(job.zero.reduceBucketSize, job.zero.allgatherBucketSize);
  if (job.communicationType != job.precision.compute)
    switch (job.communicationType) {
    case config::Precision::Fp32:
      phases.shard.communicationType = "f32";
      break;
    case config::Precision::Bf16:
      phases.shard.communicationType = "bf16";
      break;
    case config::Precision::Fp16:
      phases.shard.communicationType = "f16";
      break;
    }

  const config::OffloadSettings &offload = job.zero.offloadOptimizer;
  phases.offload = offload.device != config::OffloadDevice::None;
  phases.lower.diskPart = options.nvmeBuffer;
  if (offload.device == config::OffloadDevice::Nvme)
    phases.offloadOptimizer.device = "nvme";
  phases.offloadOptimizer.ratio = offload.ratio;
  phases.recomputeBlocks.count = job.room.recompute.whole;
  phases.recomputeOps.count = job.room.recompute.selective;
  phases.keepGathered.count = job.room.keepGathered;
  phases.offloadParameters =
      job.zero.offloadParam.device == config::OffloadDevice::Cpu;
  phases.offloadActivations.blocks = job.room.offloadActivations;
  phases.lower.target = options.target;
  phases.lower.architectures = architecturesOf(options);
  if (options.machine)
    phases.lower.rates = sched::printRates(ratesOf(
        *options.machine, options.target == "cuda", job.batch.worldSize));
  phases.order.prefetch =
      job.zero.prefetchBucketSize == 0 ? 0 : options.prefetch;
  phases.offloadActivations.ahead = phases.order.prefetch;
  phases.allocate.deviceLimit = options.deviceMemory;
  phases.allocate.hostLimit = options.hostMemory;
  phases.allocate.nvmeLimit = options.nvmeSpace;
  phases.allocate.sharedLimit = options.sharedMemory;
  sched::ProcessFacts process = processFactsOf(options);
  phases.allocate.wholeHost = options.wholeHost;
  phases.allocate.processes = process.processes;
  phases.allocate.threads = process.threads;
  for (const sched::ProcessReserve &entry : process.reserve)
    (entry.ofThread ? phases.allocate.threadBytes
                    : phases.allocate.processBytes) += entry.bytes;
  return phases;
}
