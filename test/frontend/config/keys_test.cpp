//===- keys_test.cpp - Top-level keys, unknown keys, strictness -----------===//

#include "frontend/config/Keys.h"

#include "test/frontend/config/Resolve.h"

#include <set>

using namespace ciuic;
using namespace ciuic::config;

namespace {

// A misspelt top-level key is a warning that names the nearest one.
TEST(Keys, UnknownTopLevelKeyWarns) {
  ResolvedConfig config = accepted(job("\"gradient_cliping\": 0.5"));
  EXPECT_EQ(config.warnings.size(), 1u);
  EXPECT_TRUE(has(lines(config.warnings),
                  "ds.json:1:25: gradient_cliping: DeepSpeed knows no such "
                  "key, the nearest is \"gradient_clipping\""));
  EXPECT_EQ(config.job.gradientClipping, 1.0);
}

// Far from everything, nothing is suggested.
TEST(Keys, NoSuggestionForStrangeKeys) {
  std::string warnings = lines(accepted(job("\"qqqqqqqqqqqq\": 1")).warnings);
  EXPECT_TRUE(has(warnings, "DeepSpeed knows no such key\n"));
}

// Strict: unknown keys and keys without effect are errors.
TEST(Keys, StrictRefusesWhatHasNoEffect) {
  EXPECT_TRUE(
      has(refused(job("\"gradient_cliping\": 0.5"), {}, /*strict=*/true),
          "the nearest is \"gradient_clipping\""));
  std::string profiler = job("\"flops_profiler\": {\"enabled\": true}");
  EXPECT_TRUE(has(lines(accepted(profiler).warnings), "not acted on here"));
  EXPECT_TRUE(has(refused(profiler, {}, /*strict=*/true), "not acted on here"));
}

// A feature that is not enabled asks for nothing.
TEST(Keys, DisabledFeaturesAreSilent) {
  EXPECT_TRUE(accepted(job("\"flops_profiler\": {\"enabled\": false}, "
                           "\"tensorboard\": {}, \"autotuning\": "
                           "{\"enabled\": false}, \"memory_breakdown\": false"))
                  .warnings.empty());
}

// Unknown keys inside a section that DeepSpeed checks are errors.
TEST(Keys, UnknownKeysInSectionsAreRefused) {
  const char *rows[][2] = {
      {"\"zero_optimization\": {\"stag\": 2}", "the nearest is \"stage\""},
      {"\"zero_optimization\": {\"offload_optimizer\": {\"devise\": \"cpu\"}}",
       "the nearest is \"device\""},
      {"\"zero_optimization\": {\"zenflow\": {\"topk\": 1}}", "zenflow.topk"},
      {"\"tensorboard\": {\"job\": \"x\"}", "tensorboard.job"},
      {"\"optimizer\": {\"type\": \"Adam\", \"parms\": {}}",
       "the nearest is \"params\""},
      {"\"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
       "{\"warmup_steps\": 5}}",
       "scheduler.params.warmup_steps"},
  };
  for (const auto &[text, message] : rows)
    EXPECT_TRUE(has(refused(job(text)), message)) << text;
}

// Inside a section that DeepSpeed does not check they are warnings.
TEST(Keys, UnknownKeysInLooseSectionsWarn) {
  EXPECT_TRUE(has(
      lines(accepted(job("\"activation_checkpointing\": "
                         "{\"cpu_checkpoint\": true}"))
                .warnings),
      "activation_checkpointing.cpu_checkpoint: DeepSpeed knows no such key, "
      "the nearest is \"cpu_checkpointing\""));
}

// Clipping: 1 by default, 0 and below are off.
TEST(Keys, GradientClipping) {
  auto clip = [](const char *value) {
    return accepted(job(std::string("\"gradient_clipping\": ") + value))
        .job.gradientClipping;
  };
  EXPECT_EQ(clip("null"), 1.0);
  EXPECT_EQ(clip("0.0"), 0.0);
  EXPECT_EQ(clip("-1"), 0.0);
  EXPECT_EQ(clip("0.25"), 0.25);
  EXPECT_TRUE(has(refused(job("\"gradient_clipping\": \"1.0\"")),
                  "found the string \"1.0\", expected a number"));
}

// Gradients travel in the training type unless the file says otherwise.
TEST(Keys, CommunicationType) {
  std::string bf16 = "\"bf16\": {\"enabled\": true}";
  EXPECT_EQ(accepted(job(bf16)).job.communicationType, Precision::Bf16);
  EXPECT_EQ(accepted(job(bf16 + ", \"communication_data_type\": \"FP32\""))
                .job.communicationType,
            Precision::Fp32);
  EXPECT_TRUE(has(refused(job("\"communication_data_type\": \"int8\"")),
                  "expected fp16, bf16 or fp32"));
}

// Averaging is the only reduction here; other words are refused.
TEST(Keys, ReductionIsTheMean) {
  accepted(job("\"gradient_allreduce_op\": \"MEAN\""));
  EXPECT_TRUE(has(refused(job("\"gradient_allreduce_op\": \"SUM\"")),
                  "not supported yet"));
  EXPECT_TRUE(has(refused(job("\"gradient_allreduce_op\": \"sum\", "
                              "\"zero_optimization\": {\"stage\": 3}")),
                  "refuses at stage 3"));
  EXPECT_TRUE(has(refused(job("\"gradient_allreduce_op\": \"max\"")),
                  "expected mean or sum"));
}

// Accumulation types: DeepSpeed's matrix, of which fp32 is what we do.
TEST(Keys, AccumulationType) {
  std::string bf16 = "\"bf16\": {\"enabled\": true}, ";
  auto type = [](const char *name) {
    return std::string("\"data_types\": {\"grad_accum_dtype\": \"") + name +
           "\"}";
  };
  EXPECT_TRUE(has(refused(job(bf16 + type("fp32"))), "refuses at stage 0"));
  EXPECT_TRUE(has(lines(accepted(job(bf16 + type("bf16"))).warnings),
                  "accumulate in fp32"));
  EXPECT_TRUE(accepted(job(bf16 + type("fp32") +
                           ", \"zero_optimization\": {\"stage\": 2}"))
                  .warnings.empty());
  EXPECT_TRUE(has(refused(job(type("int8"))), "expected fp16, bf16 or fp32"));
}

// How tags are checked has three names.
TEST(Keys, TagValidation) {
  for (const char *good : {"Ignore", "WARN", "fail"})
    accepted(job(std::string("\"checkpoint\": {\"tag_validation\": \"") + good +
                 "\"}"));
  EXPECT_TRUE(has(refused(job("\"checkpoint\": {\"tag_validation\": "
                              "\"maybe\"}")),
                  "expected Ignore, Warn or Fail"));
}

// Features that would change the job are refused, not ignored.
TEST(Keys, RefusesWhatWouldChangeTheJob) {
  EXPECT_TRUE(has(refused(job("\"amp\": {\"enabled\": true}, \"fp16\": "
                              "{\"enabled\": true}")),
                  "refuses with fp16, bf16 or ZeRO"));
  EXPECT_TRUE(
      has(refused(job("\"amp\": {\"enabled\": true}")), "use fp16 or bf16"));
  EXPECT_TRUE(has(refused(job("\"elasticity\": {\"enabled\": true}")),
                  "elasticity.enabled"));
  accepted(job("\"elasticity\": {\"enabled\": false}"));
}

// Reports every so many steps; none unless the file says.
TEST(Keys, StepsPerPrint) {
  EXPECT_EQ(accepted("{train_batch_size: 1}").job.stepsPerPrint, 0);
  EXPECT_EQ(accepted(job("\"steps_per_print\": 1e5")).job.stepsPerPrint,
            100000);
  EXPECT_TRUE(has(refused(job("\"steps_per_print\": 0")), "positive"));
}

// All mistakes are reported, in the order of the file.
TEST(Keys, AllMistakesAtOnce) {
  std::string message =
      refused("{\n\"fp16\": {\"enabled\": 3},\n\"train_batch_size\": -1,\n"
              "\"zero_optimization\": {\"stage\": 9}\n}");
  size_t first = message.find("ds.json:2:"), second = message.find("json:3:"),
         third = message.find("json:4:");
  ASSERT_NE(third, std::string::npos) << message;
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
}

// The root must be an object.
TEST(Keys, RootIsAnObject) {
  EXPECT_TRUE(has(refused("[1]"), "found a list, expected an object"));
}

// A path that is missing, a folder, or not text.
TEST(Keys, FilesThatCannotBeRead) {
  auto fails = [](const std::string &path) {
    auto result = resolve(path, {});
    EXPECT_FALSE(result.ok());
    return result.ok() ? std::string() : result.takeStatus().str();
  };
  EXPECT_TRUE(has(fails("/nowhere/ds.json"), "no such file"));
  EXPECT_TRUE(has(fails(CIUIC_SOURCE_DIR), "not a file"));
  EXPECT_TRUE(has(fails("/proc/self/exe"), "control character"));
}

// No section of the table names a key twice.
TEST(Keys, TableHasNoDuplicates) {
  for (const char *path :
       {"", "fp16", "bf16", "optimizer.params", "scheduler.params",
        "zero_optimization", "zero_optimization.offload_optimizer"}) {
    const SectionSpec *section = findSection(path);
    ASSERT_NE(section, nullptr) << path;
    std::set<std::string_view> names;
    for (const KeySpec &key : section->keys) {
      EXPECT_TRUE(names.insert(key.name).second) << path << "." << key.name;
      EXPECT_FALSE(key.what.empty()) << path << "." << key.name;
    }
  }
}

// The nearest name is the one with the fewest changed letters.
TEST(Keys, NearestName) {
  const std::string_view names[] = {"stage", "overlap_comm", "device"};
  EXPECT_EQ(nearestName("stge", names), "stage");
  EXPECT_EQ(nearestName("overlapcom", names), "overlap_comm");
  EXPECT_EQ(nearestName("zzzzzzzzz", names), "");
  EXPECT_EQ(nearestName(std::string(100000, 'a'), names), "");
}

} // namespace
