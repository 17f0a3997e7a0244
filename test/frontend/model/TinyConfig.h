//===- TinyConfig.h - Configurations for tests of the reader ----*- C++ -*-===//
#ifndef CIUIC_TEST_FRONTEND_MODEL_TINYCONFIG_H
#define CIUIC_TEST_FRONTEND_MODEL_TINYCONFIG_H

#include "frontend/model/ModelConfig.h"

#include <nlohmann/json.hpp>

#include <string>

namespace ciuic::model {

/// The fields that every file must have, for a small model.
inline nlohmann::json tinyConfig(const std::string &type = "llama") {
  return {{"model_type", type},       {"vocab_size", 259},
          {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 3},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 128}};
}

/// `tinyConfig(type)` with the fields of `changes` put over it.
inline nlohmann::json tinyConfig(const std::string &type,
                                 const nlohmann::json &changes) {
  nlohmann::json json = tinyConfig(type);
  json.update(changes);
  return json;
}

inline rt::Result<ModelConfig> parse(const nlohmann::json &json) {
  return parseModelConfig(json.dump(), "config.json", "tiny");
}

/// The error of a file that must be refused; "accepted" if it is not.
inline std::string refusal(const nlohmann::json &json) {
  rt::Result<ModelConfig> config = parse(json);
  return config.ok() ? "accepted" : config.takeStatus().str();
}

} // namespace ciuic::model

#endif // CIUIC_TEST_FRONTEND_MODEL_TINYCONFIG_H
