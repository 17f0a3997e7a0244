//===- Resolver.cpp - Reading keys, and collecting what is wrong ----------===//

#include "frontend/config/Resolver.h"

#include <charconv>
#include <cmath>
#include <limits>

using namespace ciuic;
using namespace ciuic::config;

//===----------------------------------------------------------------------===//
// Messages and rows
//===----------------------------------------------------------------------===//

std::string Resolver::where(const Position *at, std::string_view path) const {
  std::string prefix =
      at ? fmt::format("{}:{}:{}", file, at->line, at->column) : file;
  return path.empty() ? prefix + ": " : fmt::format("{}: {}: ", prefix, path);
}

void Resolver::error(const Position *at, std::string_view path,
                     std::string_view what) {
  constexpr unsigned last = std::numeric_limits<unsigned>::max();
  errors.push_back({at ? *at : Position{last, last}, errors.size(),
                    where(at, path) + std::string(what)});
}

void Resolver::warn(const Position *at, std::string_view path,
                    std::string_view what) {
  out.warnings.push_back(where(at, path) + std::string(what));
}

void Resolver::note(std::string_view path, std::string_view what) {
  out.notes.push_back(fmt::format("{}: {}", path, what));
}

void Resolver::warnIdle(const Position *at, std::string_view path,
                        std::string_view what) {
  if (strict)
    error(at, path, what);
  else
    warn(at, path, what);
}

void Resolver::addRow(const std::string &path, std::string value, Source source,
                      unsigned line, std::string origin) {
  out.keys.push_back({path, std::move(value), source, line, std::move(origin),
                      std::string(whatItDoes(path)), /*acted=*/true});
}

//===----------------------------------------------------------------------===//
// Sections and keys
//===----------------------------------------------------------------------===//

Section Resolver::open(const Section &parent, std::string_view key) {
  Section section{parent.pathOf(key), nullptr, false};
  if (const SectionSpec *spec = findSection(section.path))
    section.typed = spec->typed;
  const Node *node = parent.node ? parent.node->find(key) : nullptr;
  if (!node || node->isNull())
    return section;
  if (!node->isObject()) {
    error(*node, section.path,
          fmt::format("found {}, expected an object", describe(*node)));
    return section;
  }
  section.node = node;
  checkKeys(section);
  return section;
}

void Resolver::checkKeys(const Section &section) {
  const SectionSpec *spec = findSection(section.path);
  if (!section.node || !spec)
    return;
  for (const Node::Member &member : section.node->members) {
    if (const KeySpec *key = spec->find(member.key)) {
      if (!key->acted)
        noteIdle(section, member, *key);
      continue;
    }
    std::string_view nearest = spec->nearest(member.key);
    std::string what =
        nearest.empty()
            ? std::string("DeepSpeed knows no such key")
            : fmt::format("DeepSpeed knows no such key, the nearest is \"{}\"",
                          nearest);
    std::string path = section.pathOf(member.key);
    if (spec->typed)
      error(&member.at, path, what);
    else
      warnIdle(&member.at, path, what);
  }
}

/// True if `node` asks for nothing: its value is the one that `inert` names.
static bool isInert(const Node &node, std::string_view inert) {
  if (node.isNull() || node.isAuto() || inert == "*")
    return true;
  if (inert == "off") { // Only an object that says so is enabled.
    if (!node.isObject())
      return false;
    const Node *enabled = node.find("enabled");
    if (!enabled)
      enabled = node.find("deepcompile");
    return !enabled || enabled->isAuto() ||
           (enabled->kind == Node::Kind::Bool && !enabled->boolean);
  }
  if (node.kind == Node::Kind::Number) {
    double number = 0;
    auto result =
        std::from_chars(inert.data(), inert.data() + inert.size(), number);
    return result.ec == std::errc() && number == node.number;
  }
  return toJson(node) == inert;
}

void Resolver::noteIdle(const Section &section, const Node::Member &member,
                        const KeySpec &spec) {
  const Node &node = member.value;
  std::string path = section.pathOf(member.key);
  size_t errorsBefore = errors.size();

  // DeepSpeed would refuse a wrong type even where we do not act.
  if (section.typed && !node.isNull() && !node.isAuto()) {
    if (spec.type == KeyType::Bool)
      asBool(node, path, true, "true or false");
    else if (spec.type == KeyType::Integer)
      asInteger(node, path, true, "a whole number");
    else if (spec.type == KeyType::Number)
      asNumber(node, path, true, "a number");
    else if (spec.type == KeyType::String)
      asString(node, path, true, "a string");
    else if (spec.type == KeyType::Object && !node.isObject())
      error(node, path,
            fmt::format("found {}, expected an object", describe(node)));
  }
  if (findSection(path) && node.isObject())
    checkKeys({path, &node, findSection(path)->typed});
  if (errors.size() > errorsBefore)
    return;

  // Keys of a section that is without effect as a whole need no row each.
  if (spec.inert.empty())
    return;

  if (!isInert(node, spec.inert))
    warnIdle(
        &member.at, path,
        fmt::format("known to DeepSpeed, not acted on here ({})", spec.what));
  out.keys.push_back({path, toJson(node), Source::File, node.at.line,
                      fmt::format("line {}", node.at.line),
                      std::string(spec.what), /*acted=*/false});
}

const Node *Resolver::lookup(const Section &section,
                             std::initializer_list<std::string_view> names,
                             bool nullIsAbsent) {
  if (!section.node)
    return nullptr;
  const Node *found = nullptr;
  std::string_view foundName;
  for (std::string_view name : names) {
    const Node *node = section.node->find(name);
    if (!node || (node->isNull() && nullIsAbsent))
      continue;
    if (found)
      error(*node, section.pathOf(name),
            fmt::format("\"{}\" and \"{}\" name the same key and are both "
                        "given",
                        foundName, name));
    else
      found = node, foundName = name;
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::optional<double> Resolver::asNumber(const Node &node,
                                         const std::string &path, bool typed,
                                         const char *expected) {
  if (!*expected)
    expected = "a number";
  std::optional<double> value;
  if (node.kind == Node::Kind::Number)
    value = node.number;
  // DeepSpeed's typed sections take a number in quotes, too.
  if (typed && node.isString()) {
    double parsed = 0;
    const char *end = node.text.data() + node.text.size();
    auto result = std::from_chars(node.text.data(), end, parsed);
    if (result.ec == std::errc() && result.ptr == end)
      value = parsed;
  }
  if (value && std::isfinite(*value))
    return value;
  error(node, path,
        fmt::format("found {}, expected {}", describe(node), expected));
  return std::nullopt;
}

std::optional<int64_t> Resolver::asInteger(const Node &node,
                                           const std::string &path, bool typed,
                                           const char *expected) {
  if (!*expected)
    expected = "a whole number";
  // Digits alone are exact; 5e8 and 5.0 go through a double.
  if (node.kind == Node::Kind::Number || (typed && node.isString())) {
    int64_t exact = 0;
    const char *end = node.text.data() + node.text.size();
    auto result = std::from_chars(node.text.data(), end, exact);
    if (result.ec == std::errc() && result.ptr == end)
      return exact;
  }
  std::optional<double> value = asNumber(node, path, typed, expected);
  if (!value)
    return std::nullopt;
  constexpr double limit = 9223372036854775808.0; // 2^63
  if (*value == std::floor(*value) && *value >= -limit && *value < limit)
    return static_cast<int64_t>(*value);
  error(node, path,
        fmt::format("found {}, expected {}", describe(node), expected));
  return std::nullopt;
}

std::optional<bool> Resolver::asBool(const Node &node, const std::string &path,
                                     bool typed, const char *expected) {
  if (node.kind == Node::Kind::Bool)
    return node.boolean;
  if (typed && node.isString()) {
    if (node.text == "true" || node.text == "True")
      return true;
    if (node.text == "false" || node.text == "False")
      return false;
  }
  if (typed && node.kind == Node::Kind::Number &&
      (node.number == 0 || node.number == 1))
    return node.number == 1;
  error(node, path,
        fmt::format("found {}, expected {}", describe(node),
                    *expected ? expected : "true or false"));
  return std::nullopt;
}

std::optional<std::string> Resolver::asString(const Node &node,
                                              const std::string &path,
                                              bool typed,
                                              const char *expected) {
  if (node.isString())
    return node.text;
  error(node, path,
        fmt::format("found {}, expected {}", describe(node),
                    *expected ? expected : "a string"));
  return std::nullopt;
}
