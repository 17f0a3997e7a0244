//===- fill_test.cpp - "auto", and what the command line says -------------===//

#include "test/frontend/config/Resolve.h"

using namespace ciuic;
using namespace ciuic::config;

namespace {

/// Everything that a trainer fills, as its users write it.
const std::string allAuto = R"({
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "fp16": {"enabled": "auto"},
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {
    "lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {
    "warmup_min_lr": "auto", "warmup_max_lr": "auto",
    "warmup_num_steps": "auto", "total_num_steps": "auto"}},
  "zero_optimization": {"stage": 3,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto"}
})";

// Where nobody says anything, "auto" is the trainer's default.
TEST(Fill, AutoIsTheTrainersDefault) {
  Overrides overrides = devices(4);
  overrides.hiddenSize = 64;
  ResolvedConfig config = accepted(allAuto, overrides);
  const JobSettings &settings = config.job;
  EXPECT_EQ(settings.batch.microBatch, 8);
  EXPECT_EQ(settings.batch.accumulation, 1);
  EXPECT_EQ(settings.batch.trainBatchSize, 32);
  EXPECT_EQ(settings.precision.compute, Precision::Fp32);
  EXPECT_EQ(settings.gradientClipping, 1.0);
  EXPECT_EQ(settings.optimizer.lr, 5e-5);
  EXPECT_EQ(settings.optimizer.beta1, 0.9);
  EXPECT_EQ(settings.optimizer.beta2, 0.999);
  EXPECT_EQ(settings.optimizer.eps, 1e-8);
  EXPECT_EQ(settings.optimizer.weightDecay, 0.0);
  EXPECT_EQ(settings.scheduler.rate.warmupMinLr, 0.0);
  EXPECT_EQ(settings.scheduler.rate.warmupMaxLr, 5e-5);
  EXPECT_EQ(settings.scheduler.rate.warmupSteps, 2);
  EXPECT_TRUE(settings.scheduler.totalStepsFromJob);
  EXPECT_EQ(settings.scheduler.rate.totalSteps, 0);
}

// What the command line says fills every one of them.
TEST(Fill, CommandLineFillsAuto) {
  Overrides overrides = devices(2);
  overrides.microBatch = 4;
  overrides.accumulation = 3;
  overrides.maxGradNorm = 0.5;
  overrides.precision = Precision::Bf16;
  overrides.lr = 2e-4;
  overrides.beta1 = 0.8;
  overrides.beta2 = 0.95;
  overrides.eps = 1e-6;
  overrides.weightDecay = 0.1;
  overrides.warmupSteps = 20;
  overrides.totalSteps = 100;
  overrides.hiddenSize = 64;
  JobSettings settings = accepted(allAuto, overrides).job;
  EXPECT_EQ(settings.batch.trainBatchSize, 24);
  EXPECT_EQ(settings.gradientClipping, 0.5);
  EXPECT_EQ(settings.precision.compute, Precision::Bf16);
  EXPECT_EQ(settings.optimizer.lr, 2e-4);
  EXPECT_EQ(settings.optimizer.beta1, 0.8);
  EXPECT_EQ(settings.optimizer.beta2, 0.95);
  EXPECT_EQ(settings.optimizer.eps, 1e-6);
  EXPECT_EQ(settings.optimizer.weightDecay, 0.1);
  EXPECT_EQ(settings.scheduler.rate.warmupMaxLr, 2e-4);
  EXPECT_EQ(settings.scheduler.rate.warmupSteps, 20);
  EXPECT_EQ(settings.scheduler.rate.totalSteps, 100);
  EXPECT_FALSE(settings.scheduler.totalStepsFromJob);
}

// The example of Accelerate's own tests.
TEST(Fill, AcceleratesExample) {
  Overrides overrides;
  overrides.microBatch = 16;
  overrides.lr = 5e-5;
  overrides.weightDecay = 1e-4;
  overrides.warmupSteps = 10;
  overrides.totalSteps = 1000;
  overrides.hiddenSize = 16;
  JobSettings settings = accepted(allAuto, overrides).job;
  EXPECT_EQ(settings.batch.trainBatchSize, 16);
  EXPECT_EQ(settings.gradientClipping, 1.0);
  EXPECT_EQ(settings.optimizer.weightDecay, 1e-4);
  EXPECT_EQ(settings.scheduler.rate.warmupMinLr, 0.0);
  EXPECT_EQ(settings.scheduler.rate.warmupMaxLr, 5e-5);
  EXPECT_EQ(settings.scheduler.rate.warmupSteps, 10);
}

// Buckets follow from the hidden size: h*h, int(0.9*h*h) and 10*h.
TEST(Fill, BucketsFollowTheHiddenSize) {
  Overrides overrides;
  overrides.hiddenSize = 67;
  ZeroSettings zero = accepted(allAuto, overrides).job.zero;
  EXPECT_EQ(zero.reduceBucketSize, 4489);
  EXPECT_EQ(zero.prefetchBucketSize, 4040); // 0.9 * 4489 = 4040.1
  EXPECT_EQ(zero.persistenceThreshold, 670);
}

// Below stage 3 only the reduce bucket is filled, the others are defaults.
TEST(Fill, PrefetchIsFilledAtStageThreeOnly) {
  Overrides overrides;
  overrides.hiddenSize = 64;
  ZeroSettings zero =
      accepted(job("\"zero_optimization\": {\"stage\": 2, "
                   "\"reduce_bucket_size\": \"auto\", "
                   "\"stage3_prefetch_bucket_size\": \"auto\", "
                   "\"stage3_param_persistence_threshold\": \"auto\"}"),
               overrides)
          .job.zero;
  EXPECT_EQ(zero.reduceBucketSize, 4096);
  EXPECT_EQ(zero.prefetchBucketSize, 50000000);
  EXPECT_EQ(zero.persistenceThreshold, 100000);
}

// Without a model the sizes are DeepSpeed's defaults, with a warning each.
TEST(Fill, UnknownHiddenSizeWarns) {
  ResolvedConfig config = accepted(allAuto);
  EXPECT_EQ(config.job.zero.reduceBucketSize, 500000000);
  EXPECT_EQ(config.warnings.size(), 3u) << lines(config.warnings);
  EXPECT_TRUE(has(lines(config.warnings), "hidden size, which is not known"));
}

// A global batch in the file decides what "auto" beside it means.
TEST(Fill, GlobalBatchDecidesTheRest) {
  const char *text = R"({train_batch_size: 128, gradient_accumulation_steps: 4,
                         train_micro_batch_size_per_gpu: "auto"})";
  EXPECT_EQ(accepted(text, devices(8)).job.batch.microBatch, 4);
}

// Steps of the schedule from epochs: 3 epochs of 100 sequences by 8.
TEST(Fill, StepsFollowFromEpochs) {
  Overrides overrides;
  overrides.epochs = 3;
  overrides.sequencesPerEpoch = 100;
  ResolvedConfig config = accepted(allAuto, overrides);
  EXPECT_EQ(config.job.scheduler.rate.totalSteps, 39); // 3 * ceil(100 / 8)
  EXPECT_FALSE(config.job.scheduler.totalStepsFromJob);
  EXPECT_EQ(row(config, "scheduler.params.total_num_steps").source,
            Source::Job);
}

// All values that disagree with the command line, in one message.
TEST(Fill, MismatchesAreCollected) {
  Overrides overrides;
  overrides.lr = 1e-4;
  overrides.microBatch = 4;
  overrides.maxGradNorm = 0.5;
  overrides.beta2 = 0.99;
  overrides.warmupSteps = 5;
  std::string message = refused(R"({
    "train_micro_batch_size_per_gpu": 8,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW",
                  "params": {"lr": 1e-3, "betas": [0.9, 0.999]}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}
  })",
                                overrides);
  for (const char *part :
       {"ds.json:2:39: train_micro_batch_size_per_gpu: the file says 8, the "
        "command line says --micro-batch 4",
        "gradient_clipping: the file says 1, the command line says "
        "--max-grad-norm 0.5",
        "optimizer.params.lr: the file says 0.001, the command line says --lr "
        "0.0001",
        "optimizer.params.betas: the file says 0.999, the command line says "
        "--beta2 0.99",
        "scheduler.params.warmup_num_steps: the file says 10, the command "
        "line says --warmup-steps 5"})
    EXPECT_TRUE(has(message, part));
}

// A value that both give alike is no mismatch.
TEST(Fill, EqualValuesAgree) {
  Overrides overrides;
  overrides.lr = 3e-4;
  EXPECT_EQ(accepted(job("\"optimizer\": {\"type\": \"AdamW\", \"params\": "
                         "{\"lr\": 0.0003}}"),
                     overrides)
                .job.optimizer.lr,
            3e-4);
}

// To learn what another file would do, the command line goes before the file.
TEST(Fill, CommandLineReplacesTheFile) {
  Overrides overrides;
  overrides.microBatch = 4;
  overrides.stage = 3;
  overrides.overFile = true;
  ResolvedConfig config = accepted(R"({
    "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 1}
  })",
                                   overrides);
  EXPECT_EQ(config.job.batch.trainBatchSize, 4);
  EXPECT_EQ(config.job.zero.stage, 3);
  EXPECT_EQ(row(config, "zero_optimization.stage").source, Source::CommandLine);
  EXPECT_EQ(row(config, "train_micro_batch_size_per_gpu").origin,
            "--micro-batch");
}

// The command line also fills what the file leaves out.
TEST(Fill, CommandLineFillsMissingKeys) {
  Overrides overrides;
  overrides.microBatch = 2;
  overrides.lr = 7e-4;
  JobSettings settings = accepted("{}", overrides).job;
  EXPECT_EQ(settings.batch.microBatch, 2);
  EXPECT_EQ(settings.optimizer.lr, 7e-4);
}

// Values of the command line have the same limits as those of the file.
TEST(Fill, CommandLineHasLimits) {
  Overrides overrides;
  overrides.microBatch = 0;
  overrides.lr = -1;
  std::string message = refused("{}", overrides);
  EXPECT_TRUE(has(message, "--micro-batch 0, expected a positive"));
  EXPECT_TRUE(has(message, "--lr -1, expected a number, 0 or above"));
}

// "auto" in a checked section that nobody fills is the default.
TEST(Fill, OtherAutosOfSectionsAreDefaults) {
  ResolvedConfig config =
      accepted(job("\"zero_optimization\": {\"stage\": \"auto\", "
                   "\"stage3_max_live_parameters\": \"auto\"}, "
                   "\"fp16\": {\"enabled\": true, "
                   "\"loss_scale_window\": \"auto\"}"));
  EXPECT_EQ(config.job.zero.stage, 0);
  EXPECT_EQ(config.job.precision.lossScale.window, 1000);
  EXPECT_TRUE(has(row(config, "fp16.loss_scale_window").origin,
                  "default, for \"auto\" in line 1"));
  EXPECT_TRUE(config.warnings.empty()) << lines(config.warnings);
}

// "auto" at the top level that nobody fills is an error.
TEST(Fill, OtherAutosOfTheTopAreRefused) {
  EXPECT_TRUE(has(refused(job("\"steps_per_print\": \"auto\"")),
                  "steps_per_print: \"auto\" is not filled"));
}

// --steps shorter than a schedule of the file is a note: a run may end early.
TEST(Fill, StepsMayDifferFromTheSchedule) {
  Overrides overrides;
  overrides.totalSteps = 20;
  ResolvedConfig config =
      accepted(job("\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
                   "{\"warmup_num_steps\": 10, \"total_num_steps\": 1000}}"),
               overrides);
  EXPECT_EQ(config.job.scheduler.rate.totalSteps, 1000);
  EXPECT_TRUE(has(lines(config.notes), "has 1000 steps, the job takes 20"));
}

} // namespace
