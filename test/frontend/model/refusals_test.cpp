//===- refusals_test.cpp - What is refused, and in which words ------------===//
#include "TinyConfig.h"

#include <gtest/gtest.h>

#include <random>

using namespace ciuic;
using namespace ciuic::model;
using nlohmann::json;

namespace {

struct Case {
  const char *type;
  json changes;
  const char *message; ///< After "config.json: ".
};

void PrintTo(const Case &c, std::ostream *stream) {
  *stream << c.type << " with " << c.changes;
}

class Refused : public testing::TestWithParam<Case> {};

TEST_P(Refused, NamesFieldFoundAndExpected) {
  const Case &c = GetParam();
  EXPECT_EQ(refusal(tinyConfig(c.type, c.changes)),
            std::string("config.json: ") + c.message);
}

const json kNull = nullptr;

// Fields that change the mathematics and are not supported.
INSTANTIATE_TEST_SUITE_P(
    Mathematics, Refused,
    testing::Values(
        Case{"gpt2", json::object(),
             "model_type: found \"gpt2\", expected \"llama\", "
             "\"mistral\" or \"qwen2\""},
        Case{"llama",
             {{"hidden_act", "gelu"}},
             "hidden_act: found \"gelu\", expected \"silu\""},
        Case{"llama",
             {{"attention_dropout", 0.1}},
             "attention_dropout: found 0.1, expected 0: dropout is not "
             "supported"},
        Case{"llama",
             {{"quantization_config", {{"bits", 4}}}},
             "quantization_config: found an object of 1 fields, expected "
             "null: quantised weights cannot be trained"},
        Case{"llama",
             {{"partial_rotary_factor", 0.5}},
             "partial_rotary_factor: found 0.5, expected 1: rotating a part "
             "of each head is not supported"},
        Case{"llama",
             {{"rope_parameters", {{"partial_rotary_factor", 0.5}}}},
             "rope_parameters.partial_rotary_factor: found 0.5, expected 1: "
             "rotating a part of each head is not supported"},
        Case{"llama",
             {{"rope_interleaved", true}},
             "rope_interleaved: found true, expected false: only the "
             "rotate-half form is supported"},
        Case{"llama",
             {{"num_local_experts", 8}},
             "num_local_experts: found 8, expected 0: experts are not "
             "supported"},
        Case{"llama",
             {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}},
             "rope_scaling.type: found \"dynamic\", expected \"default\", "
             "\"linear\" or \"llama3\""},
        Case{"llama",
             {{"rope_scaling", {{"rope_type", "yarn"}}}},
             "rope_scaling.rope_type: found \"yarn\", expected \"default\", "
             "\"linear\" or \"llama3\""},
        Case{"llama",
             {{"rope_parameters", {{"full_attention", {{"factor", 2}}}}}},
             "rope_parameters: found an object of 1 fields, "
             "expected one set of values for all layers"},
        Case{"qwen2",
             {{"layer_types",
               {"full_attention", "sliding_attention", "full_attention"}}},
             "layer_types[1]: found \"sliding_attention\", expected "
             "\"full_attention\""},
        Case{"qwen2",
             {{"layer_types", {"full_attention"}}},
             "layer_types: found an array of 1 values, expected an array of "
             "3 layer types"}));

// Values of the wrong type or out of range, each under its path.
INSTANTIATE_TEST_SUITE_P(
    Values, Refused,
    testing::Values(
        Case{"llama",
             {{"model_type", 7}},
             "model_type: found 7, expected a "
             "string"},
        Case{"llama",
             {{"hidden_size", kNull}},
             "hidden_size: found null, expected an integer from 1 to 1048576"},
        Case{"llama",
             {{"hidden_size", 0}},
             "hidden_size: found 0, expected an integer from 1 to 1048576"},
        Case{"llama",
             {{"hidden_size", -64}},
             "hidden_size: found -64, expected an integer from 1 to 1048576"},
        Case{"llama",
             {{"hidden_size", 64.0}},
             "hidden_size: found 64.0, expected an integer from 1 to 1048576"},
        Case{"llama",
             {{"hidden_size", "64"}},
             "hidden_size: found \"64\", expected an integer from 1 to "
             "1048576"},
        Case{"llama",
             {{"hidden_size", UINT64_MAX}},
             "hidden_size: found 18446744073709551615, expected an integer "
             "from 1 to 1048576"},
        Case{"llama",
             {{"num_hidden_layers", INT64_MAX}},
             "num_hidden_layers: found 9223372036854775807, expected an "
             "integer from 1 to 4096"},
        Case{"llama",
             {{"num_attention_heads", 0}},
             "num_attention_heads: found 0, expected an integer from 1 to "
             "4096"},
        Case{"llama",
             {{"num_key_value_heads", 3}},
             "num_key_value_heads: found 3, expected a divisor of "
             "num_attention_heads, which is 4"},
        Case{"llama",
             {{"num_key_value_heads", 8}},
             "num_key_value_heads: found 8, expected a divisor of "
             "num_attention_heads, which is 4"},
        Case{"llama",
             {{"hidden_size", 66}},
             "head_dim: found nothing, expected a number, as hidden_size 66 "
             "is no multiple of num_attention_heads 4"},
        Case{"llama",
             {{"head_dim", 15}},
             "head_dim: is 15, expected an even number from 2 to 8192"},
        Case{"llama",
             {{"hidden_size", 4}},
             "head_dim: is 1, expected an even number from 2 to 8192"},
        Case{"llama",
             {{"rms_norm_eps", 0}},
             "rms_norm_eps: found 0, expected a number from 1e-20 to 1"},
        Case{"llama",
             {{"rms_norm_eps", "1e-6"}},
             "rms_norm_eps: found \"1e-6\", expected a number from 1e-20 to "
             "1"},
        Case{"llama",
             {{"initializer_range", -0.02}},
             "initializer_range: found -0.02, expected a number from 0 to "
             "1"},
        Case{"llama",
             {{"tie_word_embeddings", 1}},
             "tie_word_embeddings: found 1, expected true or false"},
        Case{"llama",
             {{"rope_theta", -1}},
             "rope_theta: found -1, expected a number from 1 to 1e+15"},
        Case{"llama",
             {{"rope_scaling", 2}},
             "rope_scaling: found 2, expected an object or null"},
        Case{"llama",
             {{"rope_scaling", {{"type", "linear"}}}},
             "rope_scaling.factor: found nothing, expected a number from 1 "
             "to 1e+09"},
        Case{"llama",
             {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}},
             "rope_scaling.factor: found 0.5, expected a number from 1 to "
             "1e+09"},
        Case{"llama",
             {{"rope_scaling",
               {{"rope_type", "llama3"},
                {"factor", 8},
                {"low_freq_factor", 4},
                {"high_freq_factor", 1}}}},
             "rope_scaling.high_freq_factor: found 1, expected more than "
             "low_freq_factor, which is 4"},
        Case{"mistral",
             {{"sliding_window", 0}},
             "sliding_window: found 0, expected an integer from 1 to "
             "2147483648"}));

// A default of the type that does not divide the heads says that it is one.
TEST(Refusals, DefaultKeyHeadsThatDoNotDivide) {
  json config = tinyConfig("qwen2");
  config.erase("num_key_value_heads");
  EXPECT_EQ(refusal(config),
            "config.json: num_key_value_heads: found nothing, expected a "
            "divisor of num_attention_heads, which is 4 (the default of 32 "
            "is none)");
}

// Files that are no objects, or no JSON, have no fields to speak of.
TEST(Refusals, FilesThatAreNoObjects) {
  auto error = [](const char *text) {
    rt::Result<ModelConfig> config = parseModelConfig(text, "f.json", "m");
    return config.ok() ? "accepted" : config.takeStatus().str();
  };
  EXPECT_EQ(error("[1]"),
            "f.json: found an array of 1 values, expected an object");
  EXPECT_EQ(error("{}"), "f.json: model_type: found nothing, expected "
                         "\"llama\", \"mistral\" or \"qwen2\"");
  EXPECT_NE(error("").find("f.json"), std::string::npos);
  EXPECT_NE(error("{\"model_type\": \"lla").find("f.json"), std::string::npos);
  EXPECT_NE(error("{\"a\": 1, \"a\": 2}").find("f.json"), std::string::npos);
  EXPECT_NE(error("{\"hidden_size\": 1e999}").find("f.json"),
            std::string::npos);
}

// Hostile strings come out quoted and cut.
TEST(Refusals, LongStringsAreCut) {
  json config = tinyConfig();
  config["hidden_act"] = std::string(100000, 'x') + "\n";
  EXPECT_LT(refusal(config).size(), 300u);
}

// A missing file is an error that names it.
TEST(Refusals, MissingFile) {
  rt::Result<ModelConfig> config = readModelConfig("/nowhere/config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.takeStatus().str().find("/nowhere/config.json"),
            std::string::npos);
}

// Whatever happens to a file, it is read or refused, and what is read is in
// range.
TEST(Refusals, DamagedFiles) {
  json config = tinyConfig("llama", {{"rope_scaling",
                                      {{"rope_type", "llama3"},
                                       {"factor", 8.0},
                                       {"low_freq_factor", 1.0},
                                       {"high_freq_factor", 4.0}}},
                                     {"head_dim", 16},
                                     {"tie_word_embeddings", false}});
  const std::string text = config.dump();
  std::mt19937 random(1);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = text;
    for (unsigned change = 0; change < 1 + random() % 3; ++change) {
      size_t at = random() % damaged.size();
      switch (random() % 4) {
      case 0: // Another byte, of those that mean something or any.
        damaged[at] = "0123456789-.eE\"{}[],:"[random() % 22];
        break;
      case 1:
        damaged[at] = static_cast<char>(random());
        break;
      case 2:
        damaged.erase(at, 1 + random() % 8);
        break;
      case 3:
        damaged.insert(at, damaged.substr(at, 1 + random() % 8));
        break;
      }
    }
    rt::Result<ModelConfig> result = parseModelConfig(damaged, "f", "m");
    if (!result.ok()) {
      ++refused;
      EXPECT_EQ(result.takeStatus().str().substr(0, 2), "f:") << damaged;
      continue;
    }
    ++accepted;
    EXPECT_GT(parameterCount(*result), 0) << damaged;
    EXPECT_EQ(result->heads % result->kvHeads, 0) << damaged;
    EXPECT_EQ(result->headDim % 2, 0) << damaged;
    EXPECT_GE(result->rope.factor, 1.0) << damaged;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

} // namespace
