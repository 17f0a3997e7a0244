//===- precision_test.cpp - fp16, bf16, loss scale ------------------------===//

#include "test/frontend/config/Resolve.h"

using namespace ciuic::config;

namespace {

PrecisionSettings precision(const std::string &members) {
  return accepted(job(members)).job.precision;
}

std::string fp16(const std::string &members) {
  return job("\"fp16\": {\"enabled\": true, " + members + "}");
}

// Without a section the job computes in fp32, unscaled and unchecked.
TEST(Precision, Fp32IsTheDefault) {
  PrecisionSettings settings = precision("\"fp16\": {}");
  EXPECT_EQ(settings.compute, Precision::Fp32);
  EXPECT_FALSE(settings.lossScale.dynamic);
  EXPECT_EQ(settings.lossScale.initialScale, 1.0);
  EXPECT_FALSE(settings.checkOverflow);
}

// fp16 brings the dynamic scale with DeepSpeed's defaults.
TEST(Precision, Fp16Defaults) {
  PrecisionSettings settings = precision("\"fp16\": {\"enabled\": true}");
  EXPECT_EQ(settings.compute, Precision::Fp16);
  EXPECT_TRUE(settings.checkOverflow);
  EXPECT_TRUE(settings.lossScale.dynamic);
  EXPECT_EQ(settings.lossScale.initialScale, 65536.0);
  EXPECT_EQ(settings.lossScale.window, 1000);
  EXPECT_EQ(settings.lossScale.hysteresis, 2);
  EXPECT_FALSE(settings.lossScale.consecutiveHysteresis);
  EXPECT_EQ(settings.lossScale.minScale, 1.0);
}

// bf16 is never scaled, and checks gradients unless told otherwise.
TEST(Precision, Bf16Defaults) {
  PrecisionSettings settings = precision("\"bf16\": {\"enabled\": true}");
  EXPECT_EQ(settings.compute, Precision::Bf16);
  EXPECT_FALSE(settings.lossScale.dynamic);
  EXPECT_EQ(settings.lossScale.initialScale, 1.0);
  EXPECT_TRUE(settings.checkOverflow);
  EXPECT_FALSE(precision("\"bf16\": {\"enabled\": true, "
                         "\"check_grad_overflow\": false}")
                   .checkOverflow);
}

// Both at once are refused.
TEST(Precision, RefusesBoth) {
  EXPECT_TRUE(has(refused(job("\"fp16\": {\"enabled\": true}, "
                              "\"bf16\": {\"enabled\": true}")),
                  "both enabled"));
}

// The old name of bf16, and that the new one wins.
TEST(Precision, ReadsBfloat16) {
  EXPECT_EQ(precision("\"bfloat16\": {\"enabled\": true}").compute,
            Precision::Bf16);
  ResolvedConfig both = accepted(job("\"bfloat16\": {\"enabled\": true}, "
                                     "\"bf16\": {\"enabled\": false}"));
  EXPECT_EQ(both.job.precision.compute, Precision::Fp32);
  EXPECT_TRUE(has(lines(both.warnings), "bf16 is given too and wins"));
}

// A scale above 0 is static, also as a number in quotes.
TEST(Precision, StaticScale) {
  for (const char *scale : {"128", "128.0", "\"128\""}) {
    PrecisionSettings settings =
        accepted(fp16(std::string("\"loss_scale\": ") + scale)).job.precision;
    EXPECT_FALSE(settings.lossScale.dynamic);
    EXPECT_EQ(settings.lossScale.initialScale, 128.0);
    EXPECT_TRUE(settings.checkOverflow);
  }
}

// Scales that DeepSpeed refuses.
TEST(Precision, RefusesWrongScales) {
  for (const char *bad :
       {"-1", "1e999", "\"nan\"", "\"inf\"", "true", "[1]", "{}", "\"abc\""})
    EXPECT_TRUE(has(refused(fp16(std::string("\"loss_scale\": ") + bad)),
                    "fp16.loss_scale: found"))
        << bad;
}

// Window and floor must be above 0 while the scale moves.
TEST(Precision, DynamicScaleNeedsWindowAndFloor) {
  for (const char *key : {"loss_scale_window", "min_loss_scale"})
    for (const char *bad : {"0", "-1"}) {
      std::string member = std::string("\"") + key + "\": " + bad;
      EXPECT_TRUE(has(refused(fp16(member)), std::string("fp16.") + key))
          << member;
    }
}

// The same values pass where the scale is static or fp16 is off.
TEST(Precision, StaticScaleIgnoresWindowAndFloor) {
  for (const char *key : {"loss_scale_window", "min_loss_scale"})
    for (const char *value : {"0", "-1"}) {
      std::string member = std::string("\"") + key + "\": " + value;
      accepted(fp16("\"loss_scale\": 8, " + member));
      accepted(job("\"fp16\": {\"enabled\": false, " + member + "}"));
    }
}

// Values of the wrong kind never pass, not even where they do not matter.
TEST(Precision, WindowAndFloorAreNumbersAlways) {
  for (const char *key : {"loss_scale_window", "min_loss_scale"})
    for (const char *bad : {"true", "1e999", "\"nan\"", "\"abc\"", "null"})
      EXPECT_TRUE(has(refused(job(std::string("\"fp16\": {\"enabled\": false, "
                                              "\"") +
                                  key + "\": " + bad + "}")),
                      std::string("fp16.") + key))
          << key << " " << bad;
}

// The power of two stays within what fp32 holds.
TEST(Precision, ScalePowerHasLimits) {
  EXPECT_EQ(accepted(fp16("\"initial_scale_power\": 32"))
                .job.precision.lossScale.initialScale,
            4294967296.0);
  for (const char *bad : {"-1", "128", "1.5", "1e300"})
    EXPECT_TRUE(
        has(refused(fp16(std::string("\"initial_scale_power\": ") + bad)),
            "from 0 to 127"));
}

// With hysteresis 0 DeepSpeed would skip every step for ever.
TEST(Precision, RefusesHysteresisZero) {
  EXPECT_TRUE(has(refused(fp16("\"hysteresis\": 0")), "fp16.hysteresis"));
}

// A misspelt key inside a section is refused with the nearest one.
TEST(Precision, NamesTheNearestKey) {
  EXPECT_TRUE(has(refused(fp16("\"loss_scale_windw\": 5")),
                  "fp16.loss_scale_windw: DeepSpeed knows no such key, the "
                  "nearest is \"loss_scale_window\""));
  EXPECT_TRUE(has(refused(job("\"bf16\": {\"enabled\": true, "
                              "\"loss_scale\": 0}")),
                  "bf16.loss_scale"));
}

// 16-bit master weights need ZeRO; with it they are known, not acted on.
TEST(Precision, SixteenBitMasters) {
  std::string masters = "\"bf16\": {\"enabled\": true, "
                        "\"bf16_master_weights_and_grads\": true}";
  EXPECT_TRUE(has(refused(job(masters)), "at stage 0, expected stage 1"));
  ResolvedConfig config =
      accepted(job(masters + ", \"zero_optimization\": {\"stage\": 1}"));
  EXPECT_TRUE(has(lines(config.warnings), "stay fp32"));
  EXPECT_TRUE(has(refused(fp16("\"fp16_master_weights_and_grads\": true")),
                  "at stage 0"));
  EXPECT_TRUE(has(refused(job("\"bf16\": {\"enabled\": true, "
                              "\"bf16_optimizer_states\": true}, "
                              "\"zero_optimization\": {\"stage\": 1}")),
                  "expected bf16_master_weights_and_grads"));
}

// The command line decides where the file does not, and never against it.
TEST(Precision, CommandLine) {
  Overrides overrides;
  overrides.precision = Precision::Bf16;
  EXPECT_EQ(accepted("{train_batch_size: 8}", overrides).job.precision.compute,
            Precision::Bf16);
  EXPECT_EQ(accepted(job("\"fp16\": {\"enabled\": \"auto\"}, "
                         "\"bf16\": {\"enabled\": \"auto\"}"),
                     overrides)
                .job.precision.compute,
            Precision::Bf16);
  EXPECT_TRUE(has(refused(job("\"fp16\": {\"enabled\": true}"), overrides),
                  "fp16.enabled: the file says true, the command line says "
                  "--precision bf16, so false"));
}

} // namespace
