//===- batch_test.cpp - The three batch sizes -----------------------------===//

#include "test/frontend/config/Resolve.h"

#include <optional>

using namespace ciuic::config;

namespace {

using Size = std::optional<int64_t>;

/// A file with those of the three that are given.
std::string batch(Size total, Size micro, Size steps) {
  std::string text = "{";
  auto add = [&](const char *key, Size value) {
    if (value)
      text += std::string(text.size() > 1 ? ", " : "") + "\"" + key +
              "\": " + std::to_string(*value);
  };
  add("train_batch_size", total);
  add("train_micro_batch_size_per_gpu", micro);
  add("gradient_accumulation_steps", steps);
  return text + "}";
}

const Size none = std::nullopt;

struct Row {
  Size total, micro, steps;
  int64_t devices, wantTotal, wantMicro, wantSteps;
};

// What is missing of the three follows from the others.
TEST(Batch, InfersWhatIsMissing) {
  const Row rows[] = {
      {32, 16, 1, 2, 32, 16, 1},      {32, 8, 2, 2, 32, 8, 2},
      {32, 16, none, 2, 32, 16, 1},   {32, 8, none, 2, 32, 8, 2},
      {32, none, 2, 2, 32, 8, 2},     {none, 8, 2, 2, 32, 8, 2},
      {none, 16, none, 2, 32, 16, 1}, {32, none, none, 2, 32, 16, 1},
      {64, none, none, 1, 64, 64, 1},
  };
  for (const Row &row : rows) {
    std::string text = batch(row.total, row.micro, row.steps);
    SCOPED_TRACE(text);
    BatchSettings result = accepted(text, devices(row.devices)).job.batch;
    EXPECT_EQ(result.trainBatchSize, row.wantTotal);
    EXPECT_EQ(result.microBatch, row.wantMicro);
    EXPECT_EQ(result.accumulation, row.wantSteps);
    EXPECT_EQ(result.worldSize, row.devices);
  }
}

struct Refusal {
  Size total, micro, steps;
  std::vector<std::string> numbers; ///< Parts of the message.
};

// What does not divide is refused with the numbers that do not.
TEST(Batch, NamesTheNumbersThatDoNotDivide) {
  const Refusal rows[] = {
      {33, 17, 2, {"found 33", "68", "_per_gpu 17", "_steps 2", "2 devices"}},
      {33, 17, none, {"33 sequences", "_per_gpu 17", "multiple of 34"}},
      {33, none, 2, {"33 sequences", "_steps 2", "multiple of 4"}},
      {33, none, none, {"33 sequences", "2 devices", "multiple of 2"}},
      {32, 18, 1, {"found 32", "36", "_per_gpu 18", "2 devices"}},
      {32, 18, none, {"32 sequences", "_per_gpu 18", "multiple of 36"}},
  };
  for (const Refusal &row : rows) {
    std::string text = batch(row.total, row.micro, row.steps);
    SCOPED_TRACE(text);
    std::string message = refused(text, devices(2));
    EXPECT_TRUE(has(message, "ds.json:1:"));
    for (const std::string &number : row.numbers)
      EXPECT_TRUE(has(message, number));
  }
}

// Without a global or a micro-batch nothing can be inferred.
TEST(Batch, NeedsOneOfTwo) {
  for (Size steps : {none, Size(1), Size(2)})
    EXPECT_TRUE(has(refused(batch(none, none, steps), devices(2)),
                    "either train_batch_size or "
                    "train_micro_batch_size_per_gpu needs to be given"));
}

// Zero, negative, fractional and non-numeric sizes.
TEST(Batch, SizesArePositiveWholeNumbers) {
  for (const char *bad : {"0", "-4", "2.5", "true", "\"8\"", "[8]", "1e30"}) {
    std::string text = std::string("{\"train_batch_size\": ") + bad + "}";
    EXPECT_TRUE(has(refused(text), "expected a positive whole number"));
  }
}

// An integral float is a whole number.
TEST(Batch, IntegralFloatsAreSizes) {
  EXPECT_EQ(accepted("{train_batch_size: 3.2e1}").job.batch.trainBatchSize, 32);
}

// Products beyond 63 bits are refused, not wrapped.
TEST(Batch, HugeSizesDoNotWrap) {
  std::string huge = "{\"train_micro_batch_size_per_gpu\": "
                     "4611686018427387904, \"gradient_accumulation_steps\": 4}";
  EXPECT_TRUE(has(refused(huge), "beyond 63 bits"));
  std::string total = "{\"train_batch_size\": 8, "
                      "\"train_micro_batch_size_per_gpu\": "
                      "4611686018427387904}";
  EXPECT_TRUE(has(refused(total, devices(8)), "more than 63 bits"));
}

// Fewer than one device is refused before anything divides by it.
TEST(Batch, NeedsADevice) {
  EXPECT_TRUE(has(refused(batch(8, none, none), devices(0)), "--devices 0"));
  EXPECT_TRUE(has(refused(batch(8, none, none), devices(-1)), "--devices -1"));
}

// The job of the introduction: 128 sequences, 4 micro-steps, 8 devices.
TEST(Batch, TheIntroductionsJob) {
  ResolvedConfig config = accepted(
      R"({"train_batch_size":128,"gradient_accumulation_steps":4,"fp16":{"enabled":true},"zero_optimization":{"stage":3,"offload_optimizer":{"device":"cpu","pin_memory":true}},"wall_clock_breakdown":true})",
      devices(8));
  EXPECT_EQ(config.job.batch.microBatch, 4);
  EXPECT_EQ(config.job.batch.accumulation, 4);
  EXPECT_EQ(config.job.precision.compute, Precision::Fp16);
  EXPECT_TRUE(config.job.precision.lossScale.dynamic);
  EXPECT_EQ(config.job.precision.lossScale.initialScale, 65536.0);
  EXPECT_EQ(config.job.zero.stage, 3);
  EXPECT_EQ(config.job.zero.offloadOptimizer.device, OffloadDevice::Cpu);
  EXPECT_TRUE(config.job.zero.overlapComm);
  EXPECT_TRUE(config.job.wallClockBreakdown);
  EXPECT_EQ(config.job.gradientClipping, 1.0);
  EXPECT_EQ(config.job.optimizer.lr, 1e-3);
  EXPECT_TRUE(config.warnings.empty()) << lines(config.warnings);
}

} // namespace
