//===- optimizer_test.cpp - Update rules and schedules --------------------===//

#include "test/frontend/config/Resolve.h"

using namespace ciuic;
using namespace ciuic::config;

namespace {

std::string optimizer(const std::string &type, const std::string &params) {
  return job("\"optimizer\": {\"type\": \"" + type + "\", \"params\": {" +
             params + "}}");
}

std::string scheduler(const std::string &type, const std::string &params) {
  return job("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": "
             "0.0015}}, \"scheduler\": {\"type\": \"" +
             type + "\", \"params\": {" + params + "}}");
}

// Without an optimizer: AdamW with DeepSpeed's defaults, and a note.
TEST(Optimizer, DefaultsToAdamW) {
  ResolvedConfig config = accepted("{train_batch_size: 8}");
  const OptimizerSettings &settings = config.job.optimizer;
  EXPECT_EQ(settings.kind, OptimizerKind::AdamW);
  EXPECT_EQ(settings.lr, 1e-3);
  EXPECT_EQ(settings.beta1, 0.9);
  EXPECT_EQ(settings.beta2, 0.999);
  EXPECT_EQ(settings.eps, 1e-8);
  EXPECT_EQ(settings.weightDecay, 0.0);
  EXPECT_TRUE(settings.biasCorrection);
  EXPECT_TRUE(has(lines(config.notes), "AdamW with lr 0.001"));
  EXPECT_EQ(config.job.scheduler.rate.kind, rt::LearningRateKind::Constant);
  EXPECT_EQ(config.job.scheduler.rate.lr, 1e-3);
}

struct AdamRow {
  const char *type;
  const char *params;
  OptimizerKind kind;
};

// "Adam" decouples the decay too, unless adam_w_mode is false.
TEST(Optimizer, AdamIsAdamWUnlessToldOtherwise) {
  const AdamRow rows[] = {
      {"AdamW", "", OptimizerKind::AdamW},
      {"adamw", "\"adam_w_mode\": false", OptimizerKind::AdamW},
      {"Adam", "", OptimizerKind::AdamW},
      {"Adam", "\"adam_w_mode\": true", OptimizerKind::AdamW},
      {"Adam", "\"adam_w_mode\": false", OptimizerKind::Adam},
      {"ADAM", "\"adam_w_mode\": false, \"torch_adam\": true",
       OptimizerKind::Adam},
  };
  for (const AdamRow &row : rows)
    EXPECT_EQ(accepted(optimizer(row.type, row.params)).job.optimizer.kind,
              row.kind)
        << row.type << " " << row.params;
}

// PyTorch's AdamW decays by .01 when the file is silent; its Adam does not.
TEST(Optimizer, TorchAdamHasItsOwnDecay) {
  auto decay = [](const char *params) {
    return accepted(optimizer("Adam", params)).job.optimizer.weightDecay;
  };
  EXPECT_EQ(decay(""), 0.0);
  EXPECT_EQ(decay("\"torch_adam\": true"), 0.01);
  EXPECT_EQ(decay("\"torch_adam\": true, \"adam_w_mode\": false"), 0.0);
  EXPECT_EQ(decay("\"torch_adam\": true, \"weight_decay\": 0.1"), 0.1);
}

// Every parameter of Adam arrives.
TEST(Optimizer, ReadsAdamsParameters) {
  OptimizerSettings settings =
      accepted(optimizer("Adam",
                         "\"lr\": 3e-5, \"betas\": [0.8, 0.95], \"eps\": "
                         "1e-6, \"weight_decay\": 3e-7, "
                         "\"bias_correction\": false"))
          .job.optimizer;
  EXPECT_EQ(settings.lr, 3e-5);
  EXPECT_EQ(settings.beta1, 0.8);
  EXPECT_EQ(settings.beta2, 0.95);
  EXPECT_EQ(settings.eps, 1e-6);
  EXPECT_EQ(settings.weightDecay, 3e-7);
  EXPECT_FALSE(settings.biasCorrection);
}

struct Wrong {
  const char *params;
  const char *message;
};

// Parameters out of range, of the wrong kind, misspelt or of another rule.
TEST(Optimizer, RefusesWrongParameters) {
  const Wrong rows[] = {
      {"\"lr\": -1", "optimizer.params.lr: found -1"},
      {"\"lr\": \"fast\"", "optimizer.params.lr: found the string \"fast\""},
      {"\"lr\": 1e999", "optimizer.params.lr: found 1e999"},
      {"\"betas\": [0.9]", "expected two numbers from 0 to below 1"},
      {"\"betas\": [0.9, 1.0]", "expected two numbers from 0 to below 1"},
      {"\"betas\": 0.9", "expected two numbers from 0 to below 1"},
      {"\"weight_decay\": -0.1", "optimizer.params.weight_decay"},
      {"\"weightdecay\": 0.1", "the nearest is \"weight_decay\""},
      {"\"max_grad_norm\": 1.0", "use \"gradient_clipping\""},
      {"\"amsgrad\": true", "not supported yet"},
      {"\"momentum\": 0.9", "a parameter of SGD"},
  };
  for (const Wrong &row : rows)
    EXPECT_TRUE(has(refused(optimizer("AdamW", row.params)), row.message))
        << row.params;
}

// Update rules that DeepSpeed has and we do not, and ones nobody has.
TEST(Optimizer, RefusesOtherRules) {
  for (const char *type : {"Lamb", "Lion", "Adagrad", "Muon", "OneBitAdam",
                           "OneBitLamb", "ZeroOneAdam", "MuAdamW"})
    EXPECT_TRUE(has(refused(optimizer(type, "\"freeze_step\": 2")),
                    "which is not supported yet; expected AdamW, Adam or SGD"))
        << type;
  EXPECT_TRUE(has(refused(optimizer("Sofia", "")), "does not bring"));
  EXPECT_TRUE(has(refused(job("\"optimizer\": {\"params\": {}}")),
                  "optimizer.type: missing"));
}

// SGD takes momentum and decay; ZeRO and offload must be asked for by name.
TEST(Optimizer, SgdWithZero) {
  std::string sgd = "\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": "
                    "0.1, \"momentum\": 0.9, \"weight_decay\": 0.01}}";
  OptimizerSettings settings = accepted(job(sgd)).job.optimizer;
  EXPECT_EQ(settings.kind, OptimizerKind::Sgd);
  EXPECT_EQ(settings.momentum, 0.9);
  EXPECT_EQ(settings.weightDecay, 0.01);

  std::string zero = ", \"zero_optimization\": {\"stage\": 2}";
  EXPECT_TRUE(has(refused(job(sgd + zero)), "zero_allow_untested_optimizer"));
  std::string allow = ", \"zero_allow_untested_optimizer\": true";
  accepted(job(sgd + zero + allow));

  std::string offload = ", \"zero_optimization\": {\"stage\": 2, "
                        "\"offload_optimizer\": {\"device\": \"cpu\"}}";
  EXPECT_TRUE(
      has(refused(job(sgd + offload + allow)), "zero_force_ds_cpu_optimizer"));
  accepted(
      job(sgd + offload + allow + ", \"zero_force_ds_cpu_optimizer\": false"));
}

// What SGD may also ask for in PyTorch is refused, not dropped.
TEST(Optimizer, SgdRefusesVariants) {
  for (const char *param :
       {"\"nesterov\": true", "\"dampening\": 0.1", "\"maximize\": true"})
    EXPECT_TRUE(has(refused(optimizer("SGD", param)), "supported yet"))
        << param;
  EXPECT_TRUE(has(refused(optimizer("SGD", "\"betas\": [0.9, 0.999]")),
                  "a parameter of Adam"));
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

// WarmupLR climbs to the optimizer's rate unless the file says how far.
TEST(Scheduler, WarmupClimbsToTheOptimizersRate) {
  rt::LearningRateParams rate =
      accepted(scheduler("WarmupLR", "")).job.scheduler.rate;
  EXPECT_EQ(rate.kind, rt::LearningRateKind::WarmupLR);
  EXPECT_EQ(rate.warmupMinLr, 0.0);
  EXPECT_EQ(rate.warmupMaxLr, 0.0015);
  EXPECT_EQ(rate.warmupSteps, 1000);
  EXPECT_EQ(rate.curve, rt::WarmupCurve::Log);
  EXPECT_EQ(accepted(scheduler("WarmupLR", "\"warmup_max_lr\": 0.5"))
                .job.scheduler.rate.warmupMaxLr,
            0.5);
  EXPECT_EQ(accepted(scheduler("WarmupLR", "\"warmup_max_lr\": null"))
                .job.scheduler.rate.warmupMaxLr,
            0.0015);
}

// WarmupDecayLR climbs to .001 by itself, and needs to know its length.
TEST(Scheduler, DecayNeedsItsLength) {
  rt::LearningRateParams rate =
      accepted(scheduler("WarmupDecayLR", "\"total_num_steps\": 5000"))
          .job.scheduler.rate;
  EXPECT_EQ(rate.kind, rt::LearningRateKind::WarmupDecayLR);
  EXPECT_EQ(rate.warmupMaxLr, 1e-3);
  EXPECT_EQ(rate.totalSteps, 5000);
  EXPECT_TRUE(has(refused(scheduler("WarmupDecayLR", "")),
                  "scheduler.params.total_num_steps: missing"));
}

// WarmupCosineLR multiplies the optimizer's rate.
TEST(Scheduler, CosineReadsItsRatios) {
  rt::LearningRateParams rate =
      accepted(scheduler("WarmupCosineLR",
                         "\"total_num_steps\": 100, \"warmup_num_steps\": 10, "
                         "\"warmup_min_ratio\": 0.2, \"cos_min_ratio\": 0.1, "
                         "\"warmup_type\": \"linear\""))
          .job.scheduler.rate;
  EXPECT_EQ(rate.kind, rt::LearningRateKind::WarmupCosineLR);
  EXPECT_EQ(rate.lr, 0.0015);
  EXPECT_EQ(rate.warmupMinRatio, 0.2);
  EXPECT_EQ(rate.cosMinRatio, 0.1);
  EXPECT_EQ(rate.warmupSteps, 10);
  EXPECT_EQ(rate.totalSteps, 100);
  EXPECT_EQ(rate.curve, rt::WarmupCurve::Linear);
}

// Steps of warm-up are positive and whole.
TEST(Scheduler, RefusesWrongWarmup) {
  for (const char *bad : {"0", "-5", "1.5", "\"ten\"", "true"})
    EXPECT_TRUE(
        has(refused(scheduler("WarmupLR",
                              std::string("\"warmup_num_steps\": ") + bad)),
            "expected a positive whole number"))
        << bad;
}

// An unknown curve is the logarithm, with a warning, as in DeepSpeed.
TEST(Scheduler, UnknownCurveIsLog) {
  ResolvedConfig config =
      accepted(scheduler("WarmupLR", "\"warmup_type\": \"cubic\""));
  EXPECT_EQ(config.job.scheduler.rate.curve, rt::WarmupCurve::Log);
  EXPECT_TRUE(has(lines(config.warnings), "found the string \"cubic\""));
}

// Schedules we do not have, and keys that belong to another one.
TEST(Scheduler, RefusesOtherSchedules) {
  EXPECT_TRUE(has(refused(scheduler("OneCycle", "")), "not supported yet"));
  EXPECT_TRUE(has(refused(scheduler("LRRangeTest", "")), "not supported yet"));
  EXPECT_TRUE(has(refused(scheduler("warmuplr", "")), "expected WarmupLR"));
  EXPECT_TRUE(has(refused(scheduler("WarmupLR", "\"total_num_steps\": 5")),
                  "not a parameter of WarmupLR"));
  EXPECT_TRUE(has(refused(scheduler("WarmupLR", "\"cos_min_ratio\": 0.1")),
                  "not a parameter of WarmupLR"));
}

// A schedule that ends within its warm-up is legal and worth a warning.
TEST(Scheduler, WarnsOfAShortSchedule) {
  EXPECT_TRUE(
      has(lines(accepted(scheduler("WarmupDecayLR", "\"total_num_steps\": 10"))
                    .warnings),
          "10 steps end within its 1000 steps of warm-up"));
}

} // namespace
