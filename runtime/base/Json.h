//===- Json.h - Parsing JSON that is not to be trusted ----------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_JSON_H
#define CIUIC_RUNTIME_BASE_JSON_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ciuic::rt {

/// Keeps keys in the order of the file.
using Json = nlohmann::ordered_json;

/// Parses one JSON value. Refuses, with `what` and the position: syntax
/// errors, text that is not UTF-8, duplicate keys, and nesting deeper than 64
/// levels.
Result<Json> parseJson(std::string_view text, const std::string &what);

/// The text of `value`, indented by two spaces (0: one line), with a final
/// newline where indented.
Result<std::string> printJson(const Json &value, int indent);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_JSON_H
