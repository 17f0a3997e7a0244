//===- Resolver.h - From a parsed file to settled values --------*- C++ -*-===//
//
// Shared by the files that resolve one part each: reads a key with its type
// and limits, decides between file, command line, "auto" and default, and
// notes the row for `ciuicc config`. Mistakes are collected, not thrown: the
// user sees all of them at once. Internal to frontend/config.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_CONFIG_RESOLVER_H
#define CIUIC_FRONTEND_CONFIG_RESOLVER_H

#include "frontend/config/Config.h"
#include "frontend/config/Hjson.h"
#include "frontend/config/Keys.h"

#include <fmt/format.h>

#include <initializer_list>
#include <type_traits>

namespace ciuic::config {

/// An object of the file, or its absence.
struct Section {
  std::string path;           ///< "zero_optimization"; "" at the top.
  const Node *node = nullptr; ///< Null when the file has no such section.
  bool typed = false;         ///< DeepSpeed checks its keys and values.

  std::string pathOf(std::string_view key) const {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }
};

/// A value and how it came about.
template <typename T> struct Settled {
  T value{};
  Source source = Source::Default;
  unsigned line = 0;
  std::string origin = "default";

  bool fromFile() const { return source == Source::File; }
};

/// What a key may be, and what stands in where the file does not say.
template <typename T> struct Rule {
  Rule() = default;
  Rule(T fallback, bool (*valid)(T) = nullptr, const char *expected = "")
      : fallback(std::move(fallback)), valid(valid), expected(expected) {}

  T fallback{};
  bool (*valid)(T) = nullptr;
  const char *expected = ""; ///< "a number above 0", for the message.

  std::optional<T> given; ///< From the command line, ...
  std::string option;     ///< ... by this option.

  std::optional<T> automatic; ///< What "auto" becomes, ...
  std::string automaticOrigin = "trainer's default"; ///< ... and from where.
  Source automaticSource = Source::Default;

  bool nullIsAbsent = false; ///< Even in a typed section.
};

/// One error, and where it stands; without a place it comes last.
struct Mistake {
  Position at;
  size_t order = 0; ///< Of finding, for mistakes at one place.
  std::string message;
};

class Resolver {
public:
  Resolver(const std::string &file, const Node &root,
           const Overrides &overrides, bool strict)
      : file(file), root(root), over(overrides), strict(strict) {}

  rt::Result<ResolvedConfig> run();

private:
  //===--------------------------------------------------------------------===//
  // Parts, in the order in which they are resolved
  //===--------------------------------------------------------------------===//

  void resolveBatch();
  void resolvePrecision();
  void checkMasters(const Section &fp16, bool fp16Master, const Section &bf16,
                    bool bf16Master, bool bf16States);
  void resolveOptimizer();
  void refuseWhenTrue(const Section &params, const char *key);
  void resolveAdam(const Section &params, std::string_view type);
  void resolveSgd(const Section &params);
  void resolveScheduler();
  void resolveScheduleLength(const Section &params);
  void resolveGradients();
  void resolveZero();
  void resolveOffload(const Section &zero);
  void resolveDisk();
  OffloadSettings readOffload(const Section &zero, const char *key,
                              const char *oldKey);
  void resolveRoom();
  void resolveRest();
  void crossCheck();

  void settleBatch(Settled<int64_t> &total, Settled<int64_t> &micro,
                   Settled<int64_t> &steps);

  //===--------------------------------------------------------------------===//
  // Reading (Resolver.cpp)
  //===--------------------------------------------------------------------===//

  /// Opens the object `key` of `parent`, checks its keys against the table
  /// and lists those without effect. Null and absent give an empty section.
  Section open(const Section &parent, std::string_view key);
  void checkKeys(const Section &section);
  void noteIdle(const Section &section, const Node::Member &member,
                const KeySpec &spec);

  /// The node under one of `names`, which mean the same key; refuses two of
  /// them together. Explicit null counts as absent where `nullIsAbsent`.
  const Node *lookup(const Section &section,
                     std::initializer_list<std::string_view> names,
                     bool nullIsAbsent);

  /// Settles a key under its first name, without a row in the table.
  template <typename T>
  Settled<T> settle(const Section &section,
                    std::initializer_list<std::string_view> names,
                    const Rule<T> &rule);

  /// Compares what the file says at `node` with what the command line says,
  /// or replaces it.
  template <typename T>
  void override(Settled<T> &settled, const Node &node, const std::string &path,
                const Rule<T> &rule) {
    if (!rule.given || *rule.given == settled.value)
      return;
    if (over.overFile)
      settled = {*rule.given, Source::CommandLine, 0, rule.option};
    else
      error(node, path,
            fmt::format("the file says {}, the command line says {} {}",
                        toText(settled.value), rule.option,
                        toText(*rule.given)));
  }

  /// Settles a key and adds its row.
  template <typename T>
  T read(const Section &section, std::initializer_list<std::string_view> names,
         const Rule<T> &rule) {
    Settled<T> settled = settle(section, names, rule);
    addRow(section.pathOf(*names.begin()), settled);
    return settled.value;
  }

  /// Reads a node as a T, or records why not.
  std::optional<double> asNumber(const Node &node, const std::string &path,
                                 bool typed, const char *expected);
  std::optional<int64_t> asInteger(const Node &node, const std::string &path,
                                   bool typed, const char *expected);
  std::optional<bool> asBool(const Node &node, const std::string &path,
                             bool typed, const char *expected);
  std::optional<std::string> asString(const Node &node, const std::string &path,
                                      bool typed, const char *expected);

  template <typename T>
  std::optional<T> as(const Node &node, const std::string &path, bool typed,
                      const char *expected) {
    if constexpr (std::is_same_v<T, bool>)
      return asBool(node, path, typed, expected);
    else if constexpr (std::is_same_v<T, int64_t>)
      return asInteger(node, path, typed, expected);
    else if constexpr (std::is_same_v<T, double>)
      return asNumber(node, path, typed, expected);
    else
      return asString(node, path, typed, expected);
  }

  //===--------------------------------------------------------------------===//
  // Writing
  //===--------------------------------------------------------------------===//

  /// "FILE:LINE:COLUMN: PATH: "; without a position when `at` is null.
  std::string where(const Position *at, std::string_view path) const;
  void error(const Position *at, std::string_view path, std::string_view what);
  void error(const Node &node, std::string_view path, std::string_view what) {
    error(&node.at, path, what);
  }
  void warn(const Position *at, std::string_view path, std::string_view what);
  void note(std::string_view path, std::string_view what);

  /// A key without effect: a warning, or an error when strict.
  void warnIdle(const Position *at, std::string_view path,
                std::string_view what);

  template <typename T>
  void addRow(const std::string &path, const Settled<T> &settled) {
    addRow(path, toText(settled.value), settled.source, settled.line,
           settled.origin);
  }
  void addRow(const std::string &path, std::string value, Source source,
              unsigned line, std::string origin);

  static std::string toText(bool value) { return value ? "true" : "false"; }
  static std::string toText(int64_t value) { return fmt::format("{}", value); }
  static std::string toText(double value) { return fmt::format("{}", value); }
  static std::string toText(const std::string &value) {
    return '"' + value + '"';
  }

  const std::string &file;
  const Node &root;
  const Overrides &over;
  const bool strict;

  Section top;
  ResolvedConfig out;
  std::vector<Mistake> errors;
  Settled<double> learningRate;
  bool reduceScatter = true;
  /// The key that asks for 16-bit master weights, or "", and its value.
  std::string mastersKey;
  const Node *masters = nullptr;
};

template <typename T>
Settled<T> Resolver::settle(const Section &section,
                            std::initializer_list<std::string_view> names,
                            const Rule<T> &rule) {
  const std::string path = section.pathOf(*names.begin());
  const Node *node =
      lookup(section, names, rule.nullIsAbsent || !section.typed);

  if (node && !node->isAuto()) {
    Settled<T> settled{rule.fallback, Source::File, node->at.line,
                       fmt::format("line {}", node->at.line)};
    std::optional<T> value = as<T>(*node, path, section.typed, rule.expected);
    if (!value)
      return settled;
    if (rule.valid && !rule.valid(*value)) {
      error(
          *node, path,
          fmt::format("found {}, expected {}", describe(*node), rule.expected));
      return settled;
    }
    settled.value = *value;
    override(settled, *node, path, rule);
    return settled;
  }

  if (rule.given) {
    if (rule.valid && !rule.valid(*rule.given))
      error(nullptr, path,
            fmt::format("found {} {}, expected {}", rule.option,
                        toText(*rule.given), rule.expected));
    return {*rule.given, Source::CommandLine, 0, rule.option};
  }
  if (!node)
    return {rule.fallback, Source::Default, 0, "default"};

  // "auto", and nobody said more.
  if (rule.automatic)
    return {*rule.automatic, rule.automaticSource, node->at.line,
            fmt::format("{}, for \"auto\" in line {}", rule.automaticOrigin,
                        node->at.line)};
  if (!section.typed)
    error(*node, path,
          fmt::format("\"auto\" is not filled for this key, expected {}",
                      *rule.expected ? rule.expected : "a value"));
  return {rule.fallback, Source::Default, node->at.line,
          fmt::format("default, for \"auto\" in line {}", node->at.line)};
}

} // namespace ciuic::config

#endif // CIUIC_FRONTEND_CONFIG_RESOLVER_H
