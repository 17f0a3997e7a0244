//===- Parameters.cpp - The tensors of a model, and its limits ------------===//
#include "frontend/model/ModelConfig.h"

#include <fmt/format.h>

using namespace ciuic;
using namespace ciuic::model;

namespace {

/// Lists parameters under names that begin with that of their block.
class Lister {
public:
  Lister(const ModelConfig &config, std::vector<Parameter> &list)
      : config(config), list(list) {}

  void beginBlock(std::string name, std::string prefix) {
    block = std::move(name);
    this->prefix = std::move(prefix);
  }

  void weight(const char *name, int64_t rows, int64_t columns) {
    add(name, ".weight", {rows, columns}, ParameterKind::Weight,
        config.initializerRange, 0.0);
  }
  void norm(const char *name) {
    add(name, ".weight", {config.hidden}, ParameterKind::Norm, 0.0, 1.0);
  }
  void linear(const char *name, int64_t out, int64_t in, bool hasBias) {
    weight(name, out, in);
    if (hasBias)
      add(name, ".bias", {out}, ParameterKind::Bias, 0.0, 0.0);
  }

private:
  void add(const char *name, const char *suffix, std::vector<int64_t> shape,
           ParameterKind kind, double std, double fill) {
    list.push_back(
        {prefix + name + suffix, block, std::move(shape), kind, std, fill});
  }

  const ModelConfig &config;
  std::vector<Parameter> &list;
  std::string block, prefix;
};

} // namespace

std::vector<Parameter> model::parameters(const ModelConfig &config) {
  std::vector<Parameter> list;
  Lister lister(config, list);
  int64_t queries = config.heads * config.headDim;
  int64_t keys = config.kvHeads * config.headDim;

  lister.beginBlock("embed", "model.");
  lister.weight("embed_tokens", config.vocab, config.hidden);
  for (int64_t i = 0; i < config.layers; ++i) {
    lister.beginBlock(fmt::format("layers.{}", i),
                      fmt::format("model.layers.{}.", i));
    lister.norm("input_layernorm");
    lister.linear("self_attn.q_proj", queries, config.hidden, config.qkvBias);
    lister.linear("self_attn.k_proj", keys, config.hidden, config.qkvBias);
    lister.linear("self_attn.v_proj", keys, config.hidden, config.qkvBias);
    lister.linear("self_attn.o_proj", config.hidden, queries,
                  config.outputBias);
    lister.norm("post_attention_layernorm");
    lister.linear("mlp.gate_proj", config.intermediate, config.hidden,
                  config.mlpBias);
    lister.linear("mlp.up_proj", config.intermediate, config.hidden,
                  config.mlpBias);
    lister.linear("mlp.down_proj", config.hidden, config.intermediate,
                  config.mlpBias);
  }
  lister.beginBlock("head", "model.");
  lister.norm("norm");
  lister.beginBlock("head", "");
  if (!config.tied)
    lister.weight("lm_head", config.vocab, config.hidden);
  return list;
}

int64_t model::parameterCount(const ModelConfig &config) {
  int64_t count = 0;
  for (const Parameter &parameter : parameters(config)) {
    int64_t elements = 1;
    for (int64_t dim : parameter.shape)
      elements *= dim;
    count += elements;
  }
  return count;
}

rt::Status model::checkBatch(const ModelConfig &config, int64_t microBatch,
                             int64_t sequence) {
  auto invalid = [&](const std::string &message) {
    return rt::Status::invalid(
        fmt::format("model {}: {}", config.name, message));
  };
  if (microBatch < 1 || sequence < 1)
    return invalid(fmt::format("found {} sequences of {} tokens, expected at "
                               "least 1 of 1",
                               microBatch, sequence));
  if (sequence > config.maxPositions)
    return invalid(
        fmt::format("sequence length {} is above its max_position_embeddings "
                    "{}",
                    sequence, config.maxPositions));
  if (config.window && sequence > *config.window)
    return invalid(
        fmt::format("sequence length {} is above its sliding_window {}: only "
                    "windows that cover the sequence are supported",
                    sequence, *config.window));

  // Forward, backward and recomputation cost less than four forwards; what
  // they count must fit an int64_t. The estimate need not be exact.
  double rows = static_cast<double>(microBatch) * static_cast<double>(sequence);
  double perRow =
      2.0 * static_cast<double>(parameterCount(config)) +
      2.0 * static_cast<double>(config.layers * config.heads * config.headDim) *
          static_cast<double>(sequence) +
      2.0 * static_cast<double>(config.vocab * config.hidden);
  if (4.0 * rows * perRow > 4e18)
    return invalid(fmt::format("{} sequences of {} tokens in one micro-batch "
                               "are more work than can be counted",
                               microBatch, sequence));
  return {};
}
