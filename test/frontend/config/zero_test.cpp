//===- zero_test.cpp - Stages, sizes, offload, old keys -------------------===//

#include "test/frontend/config/Resolve.h"

using namespace ciuic::config;

namespace {

std::string zero(const std::string &members) {
  return job("\"zero_optimization\": {" + members + "}");
}

// A file without ZeRO is stage 0 with DeepSpeed's sizes.
TEST(Zero, Defaults) {
  ZeroSettings settings = accepted("{train_batch_size: 8}").job.zero;
  EXPECT_EQ(settings.stage, 0);
  EXPECT_EQ(settings.reduceBucketSize, 500000000);
  EXPECT_EQ(settings.allgatherBucketSize, 500000000);
  EXPECT_EQ(settings.prefetchBucketSize, 50000000);
  EXPECT_EQ(settings.persistenceThreshold, 100000);
  EXPECT_EQ(settings.offloadOptimizer.device, OffloadDevice::None);
  EXPECT_EQ(settings.offloadParam.device, OffloadDevice::None);
}

// Communication overlaps by default at stage 3 only; null is the default.
TEST(Zero, OverlapDependsOnTheStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    std::string text = "\"stage\": " + std::to_string(stage);
    EXPECT_EQ(accepted(zero(text)).job.zero.overlapComm, stage == 3);
    EXPECT_EQ(
        accepted(zero(text + ", \"overlap_comm\": null")).job.zero.overlapComm,
        stage == 3);
    EXPECT_TRUE(
        accepted(zero(text + ", \"overlap_comm\": true")).job.zero.overlapComm);
  }
}

// Stages other than 0 to 3.
TEST(Zero, RefusesOtherStages) {
  for (const char *bad : {"4", "-1", "1.5", "[1, 2]", "\"three\"", "true"})
    EXPECT_TRUE(has(refused(zero(std::string("\"stage\": ") + bad)),
                    "expected 0, 1, 2 or 3"))
        << bad;
}

// The oldest form: true is stage 1, false is stage 0.
TEST(Zero, BoolIsAStage) {
  EXPECT_EQ(accepted(job("\"zero_optimization\": true")).job.zero.stage, 1);
  EXPECT_EQ(accepted(job("\"zero_optimization\": false")).job.zero.stage, 0);
}

// --zero-stage fills what is missing or "auto", and agrees or is refused.
TEST(Zero, StageFromTheCommandLine) {
  Overrides overrides;
  overrides.stage = 2;
  EXPECT_EQ(accepted("{train_batch_size: 8}", overrides).job.zero.stage, 2);
  EXPECT_EQ(accepted(zero("\"stage\": \"auto\""), overrides).job.zero.stage, 2);
  EXPECT_EQ(accepted(zero("\"stage\": 2"), overrides).job.zero.stage, 2);
  EXPECT_TRUE(
      has(refused(zero("\"stage\": 3"), overrides),
          "zero_optimization.stage: the file says 3, the command line says "
          "--zero-stage 2"));
  EXPECT_TRUE(has(refused(job("\"zero_optimization\": true"), overrides),
                  "zero_optimization: the file says 1, the command line says "
                  "--zero-stage 2"));
}

// --offload-optimizer likewise, also against the old switch.
TEST(Zero, OptimizerOffloadFromTheCommandLine) {
  Overrides overrides;
  overrides.offloadOptimizer = OffloadDevice::Cpu;
  auto device = [&](const std::string &text) {
    return accepted(text, overrides).job.zero.offloadOptimizer.device;
  };
  EXPECT_EQ(device("{train_batch_size: 8}"), OffloadDevice::Cpu);
  EXPECT_EQ(device(zero("\"stage\": 2")), OffloadDevice::Cpu);
  EXPECT_EQ(device(zero("\"stage\": 2, \"cpu_offload\": true")),
            OffloadDevice::Cpu);
  EXPECT_TRUE(has(
      refused(zero("\"offload_optimizer\": {\"device\": \"none\"}"), overrides),
      "zero_optimization.offload_optimizer.device: the file says \"none\", the "
      "command line says --offload-optimizer \"cpu\""));
  EXPECT_TRUE(has(refused(zero("\"cpu_offload\": false"), overrides),
                  "zero_optimization.cpu_offload: the file says \"none\""));
}

// What "auto" means at a stage follows from the stage that is given.
TEST(Zero, AutoFollowsTheGivenStage) {
  Overrides overrides;
  overrides.stage = 3;
  overrides.hiddenSize = 64;
  EXPECT_EQ(accepted(zero("\"stage3_param_persistence_threshold\": \"auto\""),
                     overrides)
                .job.zero.persistenceThreshold,
            640);
}

// Sizes are whole numbers, also when written as floats or in quotes.
TEST(Zero, SizesMayBeIntegralFloats) {
  ZeroSettings settings =
      accepted(zero("\"stage\": 3, \"reduce_bucket_size\": 5e7, "
                    "\"stage3_prefetch_bucket_size\": 1000.0, "
                    "\"stage3_param_persistence_threshold\": \"10\""))
          .job.zero;
  EXPECT_EQ(settings.reduceBucketSize, 50000000);
  EXPECT_EQ(settings.prefetchBucketSize, 1000);
  EXPECT_EQ(settings.persistenceThreshold, 10);
  for (const char *bad : {"0.9", "-1", "1e30", "true", "null", "[1]"})
    EXPECT_TRUE(
        has(refused(zero(std::string("\"reduce_bucket_size\": ") + bad)),
            "zero_optimization.reduce_bucket_size: found"))
        << bad;
}

// Names with and without "stage3_" are one key; both together are refused.
TEST(Zero, ShortNamesAreAliases) {
  ZeroSettings settings =
      accepted(zero("\"stage\": 3, \"prefetch_bucket_size\": 7, "
                    "\"param_persistence_threshold\": 5"))
          .job.zero;
  EXPECT_EQ(settings.prefetchBucketSize, 7);
  EXPECT_EQ(settings.persistenceThreshold, 5);
  EXPECT_TRUE(has(refused(zero("\"prefetch_bucket_size\": 7, "
                               "\"stage3_prefetch_bucket_size\": 7")),
                  "name the same key"));
}

// At stages 1 and 2 ranks start at even elements.
TEST(Zero, AllgatherBucketIsEven) {
  EXPECT_TRUE(
      has(refused(zero("\"stage\": 2, \"allgather_bucket_size\": 1001")),
          "found 1001, expected an even number"));
  accepted(zero("\"stage\": 2, \"allgather_bucket_size\": 1000"));
  accepted(zero("\"stage\": 3, \"allgather_bucket_size\": 1001"));
}

// Optimizer offload: absent, null and {} are off; cpu pins by default.
TEST(Zero, OffloadOptimizer) {
  for (const char *off :
       {"null", "{}", "{\"device\": \"none\"}", "{\"device\": \"auto\"}"})
    EXPECT_EQ(accepted(zero(std::string("\"stage\": 2, "
                                        "\"offload_optimizer\": ") +
                            off))
                  .job.zero.offloadOptimizer.device,
              OffloadDevice::None)
        << off;
  OffloadSettings cpu =
      accepted(zero("\"stage\": 2, \"offload_optimizer\": {\"device\": "
                    "\"cpu\"}"))
          .job.zero.offloadOptimizer;
  EXPECT_EQ(cpu.device, OffloadDevice::Cpu);
  EXPECT_TRUE(cpu.pinMemory);
  EXPECT_EQ(cpu.ratio, 1.0);
}

// Devices that are not there, or nowhere.
TEST(Zero, RefusesOtherDevices) {
  auto offload = [](const char *device) {
    return zero(std::string("\"stage\": 3, \"offload_optimizer\": "
                            "{\"device\": \"") +
                device + "\"}");
  };
  EXPECT_TRUE(has(refused(offload("nvme")),
                  "zero_optimization.offload_optimizer.nvme_path: missing"));
  EXPECT_TRUE(has(refused(offload("gpu")), "expected none, cpu or nvme"));
  EXPECT_TRUE(has(refused(zero("\"offload_optimizer\": \"cpu\"")),
                  "expected an object"));
}

// States in files need a folder, from the file or the command line; how they
// are moved comes from aio.
TEST(Zero, OffloadToFiles) {
  std::string offload = "\"stage\": 1, \"offload_optimizer\": {\"device\": "
                        "\"nvme\", \"nvme_path\": \"/nvme\"}";
  ZeroSettings settings = accepted(zero(offload)).job.zero;
  EXPECT_EQ(settings.offloadOptimizer.device, OffloadDevice::Nvme);
  EXPECT_EQ(settings.offloadOptimizer.nvmePath, "/nvme");
  EXPECT_EQ(settings.disk.blockSize, 1 << 20);
  EXPECT_EQ(settings.disk.queueDepth, 8);

  Overrides over;
  over.offloadOptimizer = OffloadDevice::Nvme;
  over.nvmePath = "/other";
  EXPECT_EQ(
      accepted(zero("\"stage\": 1"), over).job.zero.offloadOptimizer.nvmePath,
      "/other");
  EXPECT_TRUE(has(refused(zero(offload), over), "the command line says "
                                                "--nvme-path \"/other\""));
  over.offloadOptimizer = OffloadDevice::Cpu;
  EXPECT_TRUE(has(refused(zero("\"stage\": 1"), over),
                  "found --nvme-path /other and device cpu, expected nvme"));
}

// Requests of odd sizes are refused where there are files to read, and mean
// nothing elsewhere.
TEST(Zero, DiskRequests) {
  auto job = [](const std::string &device, const std::string &aio) {
    return "{\"train_batch_size\": 8, \"aio\": {" + aio +
           "}, \"zero_optimization\": {\"offload_optimizer\": {\"device\": \"" +
           device + "\", \"nvme_path\": \"/nvme\"}}}";
  };
  DiskSettings disk =
      accepted(job("nvme", "\"block_size\": 262144, \"queue_depth\": 32"))
          .job.zero.disk;
  EXPECT_EQ(disk.blockSize, 262144);
  EXPECT_EQ(disk.queueDepth, 32);
  EXPECT_TRUE(has(refused(job("nvme", "\"block_size\": 1000")),
                  "expected a multiple of 4096 up to 2^30"));
  EXPECT_TRUE(has(refused(job("nvme", "\"queue_depth\": 0")), "1 to 4096"));
  accepted(job("cpu", "\"block_size\": 1000"));
}

// Part of the optimizer's state can move at stage 3 only, and then does.
TEST(Zero, RatioNeedsStageThree) {
  std::string offload =
      ", \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": ";
  EXPECT_TRUE(
      has(refused(zero("\"stage\": 2" + offload + "0.5}")), "at stage 2"));
  ResolvedConfig half = accepted(zero("\"stage\": 3" + offload + "0.5}"));
  EXPECT_EQ(half.job.zero.offloadOptimizer.ratio, 0.5);
  EXPECT_FALSE(has(lines(half.warnings), "ratio"));
  EXPECT_TRUE(has(refused(zero("\"stage\": 3" + offload + "1.5}")),
                  "a number from 0 to 1"));
}

// Parameter offload acts at stage 3 and, as in DeepSpeed, only there; nvme is
// known and does not act.
TEST(Zero, OffloadParam) {
  std::string offload = ", \"offload_param\": {\"device\": \"cpu\"}";
  ResolvedConfig three = accepted(zero("\"stage\": 3" + offload));
  EXPECT_EQ(three.job.zero.offloadParam.device, OffloadDevice::Cpu);
  EXPECT_FALSE(has(lines(three.warnings), "offload_param"));
  ResolvedConfig two = accepted(zero("\"stage\": 2" + offload));
  EXPECT_EQ(two.job.zero.offloadParam.device, OffloadDevice::None);
  EXPECT_TRUE(has(lines(two.warnings), "needs stage 3, found stage 2"));
  EXPECT_TRUE(
      has(refused(zero("\"stage\": 2" + offload), {}, true), "needs stage 3"));
  ResolvedConfig disk =
      accepted(zero("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}"));
  EXPECT_EQ(disk.job.zero.offloadParam.device, OffloadDevice::None);
  EXPECT_TRUE(has(lines(disk.warnings), "not acted on here"));
}

// The command line's parameter offload fills a missing key, acts at every
// stage and contradicts no key.
TEST(Zero, OffloadParamOnCommandLine) {
  Overrides cpu, none;
  cpu.offloadParam = OffloadDevice::Cpu;
  none.offloadParam = OffloadDevice::None;
  for (const char *stage : {"\"stage\": 0", "\"stage\": 3"}) {
    ResolvedConfig config = accepted(zero(stage), cpu);
    EXPECT_EQ(config.job.zero.offloadParam.device, OffloadDevice::Cpu);
    EXPECT_FALSE(has(lines(config.warnings), "offload_param"));
  }
  std::string file = "\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}";
  EXPECT_TRUE(has(refused(zero(file), none), "--offload-param \"none\""));
  EXPECT_EQ(accepted(zero(file), cpu).job.zero.offloadParam.device,
            OffloadDevice::Cpu);
}

// The old switches, and that they exclude what replaced them.
TEST(Zero, OldKeys) {
  EXPECT_EQ(accepted(zero("\"stage\": 2, \"cpu_offload\": true"))
                .job.zero.offloadOptimizer.device,
            OffloadDevice::Cpu);
  EXPECT_EQ(accepted(zero("\"stage\": 2, \"cpu_offload\": false"))
                .job.zero.offloadOptimizer.device,
            OffloadDevice::None);
  EXPECT_EQ(accepted(zero("\"stage\": 3, \"cpu_offload_param\": true"))
                .job.zero.offloadParam.device,
            OffloadDevice::Cpu);
  EXPECT_TRUE(has(refused(zero("\"cpu_offload\": true, \"offload_optimizer\": "
                               "{\"device\": \"cpu\"}")),
                  "an old form of offload_optimizer"));
  EXPECT_TRUE(has(refused(zero("\"stage3_gather_fp16_weights_on_model_save\": "
                               "true, "
                               "\"stage3_gather_16bit_weights_on_model_save\": "
                               "true")),
                  "stage3_gather_fp16_weights_on_model_save"));
}

// Keys we know and do not act on: silent at their default, else a warning.
TEST(Zero, IdleKeysWarnWhenTheyAskForSomething) {
  EXPECT_TRUE(accepted(zero("\"contiguous_gradients\": true, "
                            "\"sub_group_size\": 1e9, "
                            "\"round_robin_gradients\": false"))
                  .warnings.empty());
  EXPECT_TRUE(
      has(lines(accepted(zero("\"round_robin_gradients\": true")).warnings),
          "zero_optimization.round_robin_gradients: known to DeepSpeed, not "
          "acted on here"));
}

// A wrong type is refused even where nothing here acts on the key.
TEST(Zero, IdleKeysHaveTypes) {
  EXPECT_TRUE(has(refused(zero("\"round_robin_gradients\": \"maybe\"")),
                  "expected true or false"));
  EXPECT_TRUE(
      has(refused(zero("\"sub_group_size\": 1.5")), "expected a whole number"));
}

// Dividing before the reduction is refused where ZeRO scatters.
TEST(Zero, PrescaleNeedsNoScatter) {
  std::string prescale = ", \"prescale_gradients\": true";
  std::string stage2 = "\"zero_optimization\": {\"stage\": 2";
  EXPECT_TRUE(has(refused(job(stage2 + "}" + prescale)), "refuses at stage 2"));
  accepted(job(stage2 + ", \"reduce_scatter\": false}" + prescale));
  accepted(job("\"prescale_gradients\": true"));
  EXPECT_TRUE(
      has(refused(job(stage2 + "}, \"gradient_predivide_factor\": 2.0")),
          "gradient_predivide_factor"));
}

} // namespace
