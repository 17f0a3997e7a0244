//===- Keys.h - Every key of a DeepSpeed file -------------------*- C++ -*-===//
//
// One table of the keys that DeepSpeed 0.19.6 knows, section by section, each
// with what it does. From it come the help of `ciuicc config`, the warnings
// about keys without effect, and the suggestions for misspelt ones.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_CONFIG_KEYS_H
#define CIUIC_FRONTEND_CONFIG_KEYS_H

#include <span>
#include <string>
#include <string_view>

namespace ciuic::config {

enum class KeyType { Bool, Integer, Number, String, List, Object, Any };

struct KeySpec {
  std::string_view name;
  KeyType type;

  /// True: the resolver reads it. False: known, but nothing here acts on it.
  bool acted;

  /// For a key without effect, the value that asks for nothing, as JSON:
  /// usually the default. "off" stands for an object that is not enabled.
  std::string_view inert;

  /// What the key does, as a plain sentence.
  std::string_view what;
};

struct SectionSpec {
  std::string_view path; ///< "zero_optimization.offload_param"; "" at the top.

  /// DeepSpeed refuses an unknown key here.
  bool typed;

  std::span<const KeySpec> keys;

  const KeySpec *find(std::string_view name) const;

  /// The known key that differs from `name` in the fewest letters, or "" when
  /// none is close.
  std::string_view nearest(std::string_view name) const;
};

/// The section at `path`, or null when its keys are not listed.
const SectionSpec *findSection(std::string_view path);

/// What the key at a full path does; "" when it is not listed.
std::string_view whatItDoes(std::string_view path);

/// The candidate nearest to `name` by edit distance, or "" when none is close.
std::string_view nearestName(std::string_view name,
                             std::span<const std::string_view> candidates);

} // namespace ciuic::config

#endif // CIUIC_FRONTEND_CONFIG_KEYS_H
