//===- model_config_test.cpp - What a config.json is read as --------------===//
#include "TinyConfig.h"

#include <gtest/gtest.h>

using namespace ciuic;
using namespace ciuic::model;

namespace {

const std::string kModels = CIUIC_SOURCE_DIR "/test/reference/models/";

ModelConfig mustParse(const nlohmann::json &json) {
  rt::Result<ModelConfig> config = parse(json);
  EXPECT_TRUE(config.ok());
  return config.ok() ? *config : ModelConfig();
}

ModelConfig mustRead(const std::string &path) {
  rt::Result<ModelConfig> config = readModelConfig(path);
  if (!config.ok()) {
    ADD_FAILURE() << config.takeStatus().str();
    return {};
  }
  return *config;
}

/// A file with the must-have fields alone.
nlohmann::json bare(const std::string &type) {
  nlohmann::json json = tinyConfig(type);
  json.erase("num_key_value_heads");
  json.erase("max_position_embeddings");
  json["num_attention_heads"] = 32;
  json["hidden_size"] = 128;
  return json;
}

// A folder is read through its config.json and gives the model its name.
TEST(ModelConfig, ReadsAFolder) {
  ModelConfig config = mustRead(kModels + "tiny-llama");
  EXPECT_EQ(config.name, "tiny-llama");
  EXPECT_EQ(config.family, Family::Llama);
  EXPECT_EQ(config.vocab, 259);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.intermediate, 96);
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kvHeads, 2);
  EXPECT_EQ(config.headDim, 16);
  EXPECT_EQ(config.maxPositions, 128);
  EXPECT_EQ(config.normEps, 1e-5);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_FALSE(config.tied);
  EXPECT_TRUE(config.warnings.empty());
}

// The text of the file is kept as it is, for an export.
TEST(ModelConfig, KeepsTheText) {
  std::string text = tinyConfig().dump(3);
  rt::Result<ModelConfig> config = parseModelConfig(text, "f", "m");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->text, text);
}

// A name that is no plain word becomes one, and a missing one the type.
TEST(ModelConfig, NamesAreWords) {
  std::string text = tinyConfig().dump();
  EXPECT_EQ(parseModelConfig(text, "f", "my model/7\n")->name, "my_model_7_");
  EXPECT_EQ(parseModelConfig(text, "f", "")->name, "llama");
}

// transformers 5 writes other spellings of the same model.
TEST(ModelConfig, NewerSpellingsMeanTheSame) {
  for (std::string model :
       {"tiny-llama", "tiny-qwen2", "tiny-llama3-rope", "tiny-linear-rope"}) {
    ModelConfig old = mustRead(kModels + model + "/config.json");
    ModelConfig resaved = mustRead(kModels + model + "/config.resaved.json");
    EXPECT_EQ(old.headDim, resaved.headDim) << model;
    EXPECT_EQ(old.kvHeads, resaved.kvHeads) << model;
    EXPECT_EQ(old.tied, resaved.tied) << model;
    EXPECT_EQ(old.window, resaved.window) << model;
    EXPECT_EQ(old.rope.theta, resaved.rope.theta) << model;
    EXPECT_EQ(old.rope.scaling, resaved.rope.scaling) << model;
    EXPECT_EQ(old.rope.factor, resaved.rope.factor) << model;
    EXPECT_EQ(old.rope.originalLength, resaved.rope.originalLength) << model;
  }
}

// Without a number of key heads: Llama has as many as heads, the others what
// transformers takes; null is as many as heads everywhere.
TEST(ModelConfig, DefaultKeyHeads) {
  EXPECT_EQ(mustParse(bare("llama")).kvHeads, 32);
  EXPECT_EQ(mustParse(bare("mistral")).kvHeads, 8);
  EXPECT_EQ(mustParse(bare("qwen2")).kvHeads, 32);
  EXPECT_EQ(mustParse(tinyConfig("mistral", {{"num_key_value_heads", nullptr}}))
                .kvHeads,
            4);
}

// The other defaults, as transformers has them for each type.
TEST(ModelConfig, DefaultsOfTheFamilies) {
  ModelConfig llama = mustParse(bare("llama"));
  EXPECT_EQ(llama.maxPositions, 2048);
  EXPECT_EQ(llama.normEps, 1e-6);
  EXPECT_EQ(llama.initializerRange, 0.02);
  EXPECT_EQ(llama.rope.theta, 10000.0);
  EXPECT_EQ(llama.rope.scaling, RopeScaling::None);
  EXPECT_FALSE(llama.tied);
  EXPECT_FALSE(llama.qkvBias || llama.outputBias || llama.mlpBias);
  EXPECT_FALSE(llama.window.has_value());

  ModelConfig mistral = mustParse(bare("mistral"));
  EXPECT_EQ(mistral.maxPositions, 131072);
  EXPECT_EQ(mistral.window, 4096);
  EXPECT_FALSE(mistral.qkvBias);

  ModelConfig qwen = mustParse(bare("qwen2"));
  EXPECT_EQ(qwen.maxPositions, 32768);
  EXPECT_TRUE(qwen.qkvBias);
  EXPECT_FALSE(qwen.outputBias || qwen.mlpBias);
  EXPECT_FALSE(qwen.window.has_value());
}

// head_dim follows from the widths unless the file says otherwise.
TEST(ModelConfig, HeadDimIsGivenOrDivided) {
  EXPECT_EQ(mustParse(tinyConfig()).headDim, 16);
  EXPECT_EQ(mustParse(tinyConfig("llama", {{"head_dim", 32}})).headDim, 32);
  EXPECT_EQ(mustParse(tinyConfig("llama", {{"head_dim", nullptr}})).headDim,
            16);
}

// The inner theta wins over the outer one, rope_type over type, and
// rope_scaling over rope_parameters, as in transformers.
TEST(ModelConfig, PrecedenceOfRopeFields) {
  Rope rope = mustParse(tinyConfig("llama", {{"rope_theta", 5000.0},
                                             {"rope_parameters",
                                              {{"rope_theta", 7000.0},
                                               {"rope_type", "linear"},
                                               {"type", "yarn"},
                                               {"factor", 2}}}}))
                  .rope;
  EXPECT_EQ(rope.theta, 7000.0);
  EXPECT_EQ(rope.scaling, RopeScaling::Linear);
  EXPECT_EQ(rope.factor, 2.0);

  rope = mustParse(
             tinyConfig("llama",
                        {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}},
                         {"rope_parameters",
                          {{"rope_type", "linear"}, {"factor", 2}}}}))
             .rope;
  EXPECT_EQ(rope.factor, 4.0);
}

// llama3 scaling takes its original length from the file's outer field, its
// own, or the model's positions.
TEST(ModelConfig, OriginalLengthOfLlama3) {
  nlohmann::json scaling = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 1},
                            {"high_freq_factor", 4}};
  nlohmann::json json = tinyConfig("llama", {{"rope_scaling", scaling}});
  EXPECT_EQ(mustParse(json).rope.originalLength, 128);
  json["rope_scaling"]["original_max_position_embeddings"] = 64;
  EXPECT_EQ(mustParse(json).rope.originalLength, 64);
  json["original_max_position_embeddings"] = 32;
  EXPECT_EQ(mustParse(json).rope.originalLength, 32);
}

// A window counts only where some layer has it.
TEST(ModelConfig, WindowsOfQwen2) {
  nlohmann::json on = {{"use_sliding_window", true},
                       {"sliding_window", 32},
                       {"max_window_layers", 2}};
  EXPECT_EQ(mustParse(tinyConfig("qwen2", on)).window, 32);
  on["max_window_layers"] = 3; // The model has three layers.
  EXPECT_FALSE(mustParse(tinyConfig("qwen2", on)).window.has_value());
  on["max_window_layers"] = 0;
  on["use_sliding_window"] = false;
  EXPECT_FALSE(mustParse(tinyConfig("qwen2", on)).window.has_value());
}

// Mistral's window is on unless it is null.
TEST(ModelConfig, WindowsOfMistral) {
  EXPECT_EQ(mustParse(tinyConfig("mistral", {{"sliding_window", 64}})).window,
            64);
  EXPECT_FALSE(mustParse(tinyConfig("mistral", {{"sliding_window", nullptr}}))
                   .window.has_value());
}

// Fields without effect are told, not refused.
TEST(ModelConfig, WarnsOfFieldsWithoutEffect) {
  EXPECT_EQ(
      mustParse(tinyConfig("llama", {{"pretraining_tp", 2}})).warnings.size(),
      1u);
  EXPECT_EQ(mustParse(tinyConfig("mistral", {{"attention_bias", true}}))
                .warnings.size(),
            1u);
  EXPECT_EQ(mustParse(tinyConfig("qwen2", {{"attention_bias", false}}))
                .warnings.size(),
            1u);
  EXPECT_EQ(
      mustParse(tinyConfig("llama", {{"architectures", {"MyForCausalLM"}}}))
          .warnings.size(),
      1u);
}

// What such a model does not know is passed over.
TEST(ModelConfig, IgnoresUnknownFields) {
  EXPECT_TRUE(mustParse(tinyConfig("llama", {{"transformers_version", "9"},
                                             {"use_cache", true},
                                             {"anything", {1, 2, 3}}}))
                  .warnings.empty());
}

// Sequences must fit positions and window; at the limit they do.
TEST(CheckBatch, PositionsAndWindow) {
  ModelConfig config =
      mustParse(tinyConfig("mistral", {{"sliding_window", 64}}));
  EXPECT_TRUE(checkBatch(config, 1, 64).ok());
  EXPECT_EQ(checkBatch(config, 1, 65).str(),
            "model tiny: sequence length 65 is above its sliding_window 64: "
            "only windows that cover the sequence are supported");
  config.window.reset();
  EXPECT_TRUE(checkBatch(config, 1, 128).ok());
  EXPECT_EQ(checkBatch(config, 1, 129).str(),
            "model tiny: sequence length 129 is above its "
            "max_position_embeddings 128");
}

// Nothing overflows: batches of no or of absurd size are refused.
TEST(CheckBatch, Sizes) {
  ModelConfig config = mustParse(tinyConfig());
  EXPECT_FALSE(checkBatch(config, 0, 128).ok());
  EXPECT_FALSE(checkBatch(config, 1, 0).ok());
  EXPECT_FALSE(checkBatch(config, -1, 128).ok());
  EXPECT_FALSE(checkBatch(config, int64_t(1) << 62, 128).ok());
}

} // namespace
