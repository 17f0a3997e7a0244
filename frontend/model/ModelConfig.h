//===- ModelConfig.h - A Hugging Face config.json, checked ------*- C++ -*-===//
//
// Reads the config.json of a Llama-like model (`llama`, `mistral`, `qwen2`) as
// transformers does: its names, its defaults, its older and newer spellings.
// What changes the mathematics and is not supported is refused by name; fields
// that mean nothing to such a model are ignored. ImportModel.h makes IR of the
// result; whoever stores weights takes their names and shapes from
// parameters().
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_MODEL_MODELCONFIG_H
#define CIUIC_FRONTEND_MODEL_MODELCONFIG_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::model {

enum class Family { Llama, Mistral, Qwen2 };
enum class RopeScaling { None, Linear, Llama3 };

/// "llama", "mistral", "qwen2"; "none", "linear", "llama3".
const char *name(Family family);
const char *name(RopeScaling scaling);

/// How rotary frequencies follow from `theta`; the formulas are those of
/// `#train.rope`.
struct Rope {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::None;
  double factor = 1.0;         ///< Linear and llama3: 1 or more.
  double lowFreqFactor = 1.0;  ///< llama3.
  double highFreqFactor = 4.0; ///< llama3: above lowFreqFactor.
  int64_t originalLength = 0;  ///< llama3: positions before scaling.
};

/// A model whose every field is in range: products of sizes fit an int64_t.
struct ModelConfig {
  std::string name; ///< For people: of the folder, or the model type.
  Family family = Family::Llama;
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0; ///< Divides heads.
  int64_t headDim = 0; ///< Even; heads * headDim need not be hidden.
  int64_t maxPositions = 0;
  double normEps = 1e-6;
  double initializerRange = 0.02;
  Rope rope;
  bool tied = false;       ///< The head is the embedding's table.
  bool qkvBias = false;    ///< On q_proj, k_proj and v_proj.
  bool outputBias = false; ///< On o_proj.
  bool mlpBias = false;    ///< On gate_proj, up_proj and down_proj.

  /// Some layer attends to this many positions only, itself included: longer
  /// sequences are refused (checkBatch).
  std::optional<int64_t> window;

  std::string text; ///< The file as it was read, for an export.

  /// What was found and has no effect here: one message each, no newline.
  std::vector<std::string> warnings;
};

/// Reads `path`: a config.json, or a folder that holds one. The name of the
/// model is that of the folder.
rt::Result<ModelConfig> readModelConfig(const std::string &path);

/// The same for a text in memory; `file` stands for it in messages.
rt::Result<ModelConfig> parseModelConfig(std::string_view text,
                                         const std::string &file,
                                         const std::string &name);

/// Whether sequences of `sequence` tokens, `microBatch` at a time, fit the
/// model's positions and window, and all counts of work fit an int64_t.
rt::Status checkBatch(const ModelConfig &config, int64_t microBatch,
                      int64_t sequence);

//===----------------------------------------------------------------------===//
// The tensors of the model
//===----------------------------------------------------------------------===//

/// What a parameter is, as far as weight decay asks.
enum class ParameterKind { Weight, Norm, Bias };

/// A tensor as transformers names, shapes and initialises it.
struct Parameter {
  std::string name;           ///< "model.layers.0.mlp.up_proj.weight"
  std::string block;          ///< "embed", "layers.0", "head"
  std::vector<int64_t> shape; ///< One or two dimensions.
  ParameterKind kind = ParameterKind::Weight;
  double std = 0.0;  ///< Of a normal initial value, when positive.
  double fill = 0.0; ///< The constant initial value otherwise.
};

/// All parameters, each once (a tied head has none), in the order of use.
std::vector<Parameter> parameters(const ModelConfig &config);

/// The elements of all of them.
int64_t parameterCount(const ModelConfig &config);

} // namespace ciuic::model

#endif // CIUIC_FRONTEND_MODEL_MODELCONFIG_H
