//===- ModelConfig.cpp - A Hugging Face config.json, checked --------------===//
#include "frontend/model/ModelConfig.h"

#include "frontend/model/JsonFields.h"
#include "runtime/base/File.h"
#include "runtime/base/Quote.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>

using namespace ciuic;
using namespace ciuic::model;

namespace {

// Larger than any model in sight, and small enough that the number of all
// parameters, and each product of two sizes, fits an int64_t.
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxLayers = 1 << 12;
constexpr int64_t kMaxHeads = 1 << 12;
constexpr int64_t kMaxHeadDim = 1 << 13;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxPositions = int64_t(1) << 31;
constexpr uint64_t kMaxFileBytes = 16 << 20;

/// What transformers takes where the file says nothing.
struct FamilyDefaults {
  Family family;
  const char *name;
  const char *architecture;
  int64_t kvHeads; ///< 0: as many as heads.
  int64_t positions;
};

constexpr std::array<FamilyDefaults, 3> kFamilies = {{
    {Family::Llama, "llama", "LlamaForCausalLM", 0, 2048},
    {Family::Mistral, "mistral", "MistralForCausalLM", 8, 131072},
    {Family::Qwen2, "qwen2", "Qwen2ForCausalLM", 32, 32768},
}};

/// Values at which a field leaves the mathematics as it is.
enum class Neutral { Null, False, Zero, One };

/// A field that would change the mathematics in a way that is not supported.
struct Refusal {
  const char *key;
  Neutral neutral;
  const char *expected;
};

constexpr Refusal kRefusals[] = {
    {"attention_dropout", Neutral::Zero, "0: dropout is not supported"},
    {"quantization_config", Neutral::Null,
     "null: quantised weights cannot be trained"},
    {"partial_rotary_factor", Neutral::One,
     "1: rotating a part of each head is not supported"},
    {"rope_interleaved", Neutral::False,
     "false: only the rotate-half form is supported"},
    {"is_encoder_decoder", Neutral::False,
     "false: only decoders are supported"},
    {"add_cross_attention", Neutral::False,
     "false: cross-attention is not supported"},
    {"use_qk_norm", Neutral::False,
     "false: norms on queries and keys are not supported"},
    {"qk_layernorm", Neutral::False,
     "false: norms on queries and keys are not supported"},
    {"attn_logit_softcapping", Neutral::Null,
     "null: soft caps are not supported"},
    {"final_logit_softcapping", Neutral::Null,
     "null: soft caps are not supported"},
    {"num_experts", Neutral::Zero, "0: experts are not supported"},
    {"num_local_experts", Neutral::Zero, "0: experts are not supported"},
    {"n_routed_experts", Neutral::Zero, "0: experts are not supported"},
};

bool isNeutral(const rt::Json &value, Neutral neutral) {
  switch (neutral) {
  case Neutral::Null:
    return false;
  case Neutral::False:
    return value.is_boolean() && !value.get<bool>();
  case Neutral::Zero:
    return value.is_number() && value.get<double>() == 0.0;
  case Neutral::One:
    return value.is_number() && value.get<double>() == 1.0;
  }
  return false;
}

void refuse(const JsonFields &fields, const Refusal &refusal) {
  const rt::Json *value = fields.find(refusal.key);
  if (value && !isNeutral(*value, refusal.neutral))
    fields.fail(refusal.key, refusal.expected);
}

/// "rope_scaling" (the older spelling, which wins in transformers) or
/// "rope_parameters", with the type under "rope_type" or "type".
Rope parseRope(const JsonFields &fields, int64_t maxPositions,
               JsonErrors &errors) {
  constexpr double low = 1.0, high = 1e15;
  Rope rope;
  rope.theta = fields.number("rope_theta", low, high, rope.theta);

  const char *key = nullptr;
  for (const char *candidate : {"rope_scaling", "rope_parameters"}) {
    const rt::Json *value = fields.find(candidate);
    if (!value)
      continue;
    if (!value->is_object()) {
      fields.fail(candidate, "an object or null");
      return rope;
    }
    if (!key && !value->empty())
      key = candidate;
  }
  if (!key)
    return rope;

  JsonFields scaling(*fields.find(key), fields.path(key) + ".", errors);
  for (const rt::Json &value : *fields.find(key))
    if (value.is_object()) {
      fields.fail(key, "one set of values for all layers");
      return rope;
    }
  rope.theta = scaling.number("rope_theta", low, high, rope.theta);
  refuse(scaling, {"partial_rotary_factor", Neutral::One,
                   "1: rotating a part of each head is not supported"});

  const char *typeKey = scaling.find("rope_type") ? "rope_type" : "type";
  std::string type = scaling.string(typeKey, "default");
  if (type == "default" || type == "none")
    return rope;
  if (type != "linear" && type != "llama3") {
    scaling.fail(typeKey, "\"default\", \"linear\" or \"llama3\"");
    return rope;
  }
  rope.factor = scaling.number("factor", 1.0, 1e9);
  if (type == "linear") {
    rope.scaling = RopeScaling::Linear;
    return rope;
  }
  rope.scaling = RopeScaling::Llama3;
  rope.lowFreqFactor = scaling.number("low_freq_factor", 1e-9, 1e9);
  rope.highFreqFactor = scaling.number("high_freq_factor", 1e-9, 1e9);
  if (rope.highFreqFactor <= rope.lowFreqFactor)
    scaling.fail("high_freq_factor",
                 fmt::format("more than low_freq_factor, which is {}",
                             rope.lowFreqFactor));
  rope.originalLength = scaling.integer("original_max_position_embeddings", 1,
                                        kMaxPositions, maxPositions);
  // A value outside of the rope's own object wins, as in transformers.
  rope.originalLength = fields.integer("original_max_position_embeddings", 1,
                                       kMaxPositions, rope.originalLength);
  return rope;
}

/// The window of the layers that have one.
std::optional<int64_t> parseWindow(const JsonFields &fields, Family family,
                                   int64_t layers) {
  auto window = [&] {
    return fields.integer("sliding_window", 1, kMaxPositions, 4096);
  };
  if (family == Family::Mistral) { // Missing is not null here.
    if (fields.has("sliding_window") && !fields.find("sliding_window"))
      return std::nullopt;
    return window();
  }
  if (family != Family::Qwen2 || !fields.boolean("use_sliding_window", false))
    return std::nullopt;
  if (fields.has("sliding_window") && !fields.find("sliding_window"))
    return std::nullopt;
  // Layers from this one on have the window, unless each has its type.
  if (!fields.find("layer_types") &&
      fields.integer("max_window_layers", 0, kMaxLayers, 28) >= layers)
    return std::nullopt;
  return window();
}

/// Each layer is of a type that the window accounts for.
void checkLayerTypes(const JsonFields &fields, const ModelConfig &config) {
  const rt::Json *types = fields.find("layer_types");
  if (!types)
    return;
  if (!types->is_array() || types->size() != static_cast<size_t>(config.layers))
    return fields.fail("layer_types", fmt::format("an array of {} layer types",
                                                  config.layers));
  for (size_t i = 0; i < types->size(); ++i) {
    const rt::Json &type = (*types)[i];
    if (type == "full_attention" ||
        (type == "sliding_attention" && config.window))
      continue;
    std::string element = fmt::format("layer_types[{}]", i);
    return fields.failWith(
        element.c_str(),
        fmt::format("found {}, expected \"full_attention\"{}", brief(type),
                    config.window ? " or \"sliding_attention\"" : ""));
  }
}

void parseHeads(const JsonFields &fields, const FamilyDefaults &family,
                ModelConfig &config) {
  config.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  // Null means as many as heads; only a missing field has a default.
  bool isNull =
      fields.has("num_key_value_heads") && !fields.find("num_key_value_heads");
  int64_t fallback =
      isNull || family.kvHeads == 0 ? config.heads : family.kvHeads;
  config.kvHeads =
      fields.integer("num_key_value_heads", 1, kMaxHeads, fallback);
  if (config.heads % config.kvHeads != 0)
    fields.fail("num_key_value_heads",
                fmt::format("a divisor of num_attention_heads, which is {}{}",
                            config.heads,
                            fields.has("num_key_value_heads")
                                ? ""
                                : fmt::format(" (the default of {} is none)",
                                              fallback)));

  if (!fields.find("head_dim") && config.hidden % config.heads != 0)
    fields.fail("head_dim",
                fmt::format("a number, as hidden_size {} is no multiple of "
                            "num_attention_heads {}",
                            config.hidden, config.heads));
  config.headDim =
      fields.integer("head_dim", 2, kMaxHeadDim, config.hidden / config.heads);
  if (config.headDim % 2 != 0 || config.headDim < 2 ||
      config.headDim > kMaxHeadDim)
    fields.failWith("head_dim",
                    fmt::format("is {}, expected an even number from 2 to {}",
                                config.headDim, kMaxHeadDim));
}

/// Biases as the family and the file have them; a field that the family does
/// not read is warned about where it says something else.
void parseBiases(const JsonFields &fields, ModelConfig &config) {
  bool attention = fields.boolean("attention_bias", false);
  bool mlp = fields.boolean("mlp_bias", false);
  if (config.family == Family::Llama) {
    config.qkvBias = config.outputBias = attention;
    config.mlpBias = mlp;
    return;
  }
  config.qkvBias = config.family == Family::Qwen2;
  if (fields.find("attention_bias") && attention != config.qkvBias)
    config.warnings.push_back(
        fmt::format("attention_bias is {}, which model type {} does not read: "
                    "it has {}",
                    attention, name(config.family),
                    config.qkvBias ? "biases on q, k and v" : "no biases"));
  if (mlp)
    config.warnings.push_back(
        fmt::format("mlp_bias is true, which model type {} does not read: it "
                    "has none",
                    name(config.family)));
}

void collectWarnings(const JsonFields &fields, const FamilyDefaults &family,
                     ModelConfig &config) {
  if (int64_t ways = fields.integer("pretraining_tp", 1, 1 << 20, 1); ways > 1)
    config.warnings.push_back(fmt::format(
        "pretraining_tp is {}, taken as 1: it only splits sums", ways));
  if (fields.find("auto_map"))
    config.warnings.push_back(
        fmt::format("auto_map names code of the model's own, which is not "
                    "run: the model is taken as a plain {}",
                    family.name));
  const rt::Json *architectures = fields.find("architectures");
  if (architectures && architectures->is_array() && !architectures->empty() &&
      std::find(architectures->begin(), architectures->end(),
                family.architecture) == architectures->end())
    config.warnings.push_back(fmt::format("architectures names {}, taken as {}",
                                          brief(architectures->front()),
                                          family.architecture));
}

/// `name` as a symbol that is also a fine file name.
std::string plainName(std::string_view name) {
  std::string plain;
  for (char c : name.substr(0, 64)) {
    bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    plain += keep ? c : '_';
  }
  return plain;
}

} // namespace

const char *model::name(Family family) {
  for (const FamilyDefaults &row : kFamilies)
    if (row.family == family)
      return row.name;
  return "unknown";
}

const char *model::name(RopeScaling scaling) {
  switch (scaling) {
  case RopeScaling::None:
    return "none";
  case RopeScaling::Linear:
    return "linear";
  case RopeScaling::Llama3:
    return "llama3";
  }
  return "unknown";
}

rt::Result<ModelConfig> model::parseModelConfig(std::string_view text,
                                                const std::string &file,
                                                const std::string &name) {
  CIUIC_TRY_ASSIGN(rt::Json json, rt::parseJson(text, file));
  if (!json.is_object())
    return rt::Status::invalid(
        fmt::format("{}: found {}, expected an object", file, brief(json)));

  JsonErrors errors{file, {}};
  JsonFields fields(json, "", errors);
  ModelConfig config;
  config.text = text;

  std::string type = fields.string("model_type", "");
  const auto *family =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const FamilyDefaults &row) { return type == row.name; });
  if (family == kFamilies.end()) {
    fields.fail("model_type", "\"llama\", \"mistral\" or \"qwen2\"");
    return std::move(errors.status);
  }
  config.family = family->family;
  config.name = plainName(name.empty() ? type : name);

  for (const Refusal &refusal : kRefusals)
    refuse(fields, refusal);
  std::string activation = fields.string("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    fields.fail("hidden_act", "\"silu\"");

  config.vocab = fields.integer("vocab_size", 1, kMaxVocab);
  config.hidden = fields.integer("hidden_size", 1, kMaxWidth);
  config.intermediate = fields.integer("intermediate_size", 1, kMaxWidth);
  config.layers = fields.integer("num_hidden_layers", 1, kMaxLayers);
  parseHeads(fields, *family, config);
  config.maxPositions = fields.integer("max_position_embeddings", 1,
                                       kMaxPositions, family->positions);
  config.normEps = fields.number("rms_norm_eps", 1e-20, 1.0, 1e-6);
  config.initializerRange = fields.number("initializer_range", 0.0, 1.0, 0.02);
  config.rope = parseRope(fields, config.maxPositions, errors);
  config.tied = fields.boolean("tie_word_embeddings", false);
  parseBiases(fields, config);
  config.window = parseWindow(fields, config.family, config.layers);
  if (config.family != Family::Llama)
    checkLayerTypes(fields, config);
  collectWarnings(fields, *family, config);

  if (!errors.status.ok())
    return std::move(errors.status);
  return config;
}

rt::Result<ModelConfig> model::readModelConfig(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error))
    file /= "config.json";
  CIUIC_TRY_ASSIGN(std::string text,
                   rt::readTextFile(file.string(), kMaxFileBytes));
  fs::path absolute = fs::absolute(file, error).lexically_normal();
  std::string name = file.filename() == "config.json"
                         ? absolute.parent_path().filename().string()
                         : file.stem().string();
  return parseModelConfig(text, file.string(), name);
}
