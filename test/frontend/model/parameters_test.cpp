//===- parameters_test.cpp - The tensors that a model has -----------------===//
#include "TinyConfig.h"
#include "runtime/weights/HuggingFace.h"

#include <gtest/gtest.h>

#include <set>

using namespace ciuic;
using namespace ciuic::model;

namespace {

const std::string kModels = CIUIC_SOURCE_DIR "/test/reference/models/";

ModelConfig mustParse(const nlohmann::json &json) {
  rt::Result<ModelConfig> config = parse(json);
  EXPECT_TRUE(config.ok());
  return config.ok() ? *config : ModelConfig();
}

const Parameter *find(const std::vector<Parameter> &list,
                      const std::string &name) {
  for (const Parameter &parameter : list)
    if (parameter.name == name)
      return &parameter;
  return nullptr;
}

// Names and shapes are those of the files that transformers wrote: biases,
// tied heads and heads wider than the model included.
TEST(Parameters, AreThoseOfTransformers) {
  for (std::string model :
       {"tiny-llama", "tiny-qwen2", "tiny-llama3-rope", "tiny-linear-rope"}) {
    rt::Result<ModelConfig> config = readModelConfig(kModels + model);
    ASSERT_TRUE(config.ok()) << model;
    rt::Result<rt::HuggingFaceFolder> folder =
        rt::HuggingFaceFolder::open(kModels + model);
    ASSERT_TRUE(folder.ok()) << folder.takeStatus().str();

    std::set<std::string> names;
    for (const Parameter &parameter : parameters(*config)) {
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
      rt::Status status = folder->expect(parameter.name, parameter.shape);
      EXPECT_TRUE(status.ok()) << model << ": " << status.str();
    }
    std::vector<std::string> stored = folder->names();
    EXPECT_EQ(names, std::set<std::string>(stored.begin(), stored.end()))
        << model;
  }
}

// Weights are drawn with the file's deviation, norms start at 1, biases at 0.
TEST(Parameters, InitialValues) {
  std::vector<Parameter> list =
      parameters(mustParse(tinyConfig("qwen2", {{"initializer_range", 0.5}})));
  const Parameter *weight = find(list, "model.layers.1.mlp.up_proj.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->kind, ParameterKind::Weight);
  EXPECT_EQ(weight->std, 0.5);
  EXPECT_EQ(weight->block, "layers.1");
  const Parameter *bias = find(list, "model.layers.2.self_attn.v_proj.bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(bias->kind, ParameterKind::Bias);
  EXPECT_EQ(bias->std, 0.0);
  EXPECT_EQ(bias->fill, 0.0);
  const Parameter *norm = find(list, "model.norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->kind, ParameterKind::Norm);
  EXPECT_EQ(norm->std, 0.0);
  EXPECT_EQ(norm->fill, 1.0);
  EXPECT_EQ(norm->block, "head");
}

// A deviation of 0 starts weights at 0.
TEST(Parameters, ZeroDeviation) {
  std::vector<Parameter> list =
      parameters(mustParse(tinyConfig("llama", {{"initializer_range", 0}})));
  EXPECT_EQ(list.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(list.front().std, 0.0);
  EXPECT_EQ(list.front().fill, 0.0);
}

// A tied head has no tensor of its own.
TEST(Parameters, TiedHead) {
  ModelConfig config = mustParse(tinyConfig());
  int64_t untied = parameterCount(config);
  EXPECT_NE(find(parameters(config), "lm_head.weight"), nullptr);
  config.tied = true;
  EXPECT_EQ(find(parameters(config), "lm_head.weight"), nullptr);
  EXPECT_EQ(untied - parameterCount(config), 259 * 64);
}

// The largest sizes that are accepted can still be counted: with them a
// layer has 4 (q, k, v, o) * 2^45 + 3 * 2^40 + 2^21 parameters.
TEST(Parameters, LargestModelIsCounted) {
  ModelConfig config =
      mustParse(tinyConfig("llama", {{"vocab_size", 1 << 24},
                                     {"hidden_size", 1 << 20},
                                     {"intermediate_size", 1 << 20},
                                     {"num_hidden_layers", 1 << 12},
                                     {"num_attention_heads", 1 << 12},
                                     {"num_key_value_heads", 1 << 12},
                                     {"head_dim", 1 << 13}}));
  int64_t layer = (int64_t(1) << 47) + 3 * (int64_t(1) << 40) + (1 << 21);
  int64_t rest = 2 * (int64_t(1) << 44) + (1 << 20);
  EXPECT_EQ(parameterCount(config), 4096 * layer + rest);
}

} // namespace
