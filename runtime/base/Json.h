//===- Json.h - Parsing JSON that is not to be trusted ----------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_JSON_H
#define CIUIC_RUNTIME_BASE_JSON_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ciuic::rt {

/// Sorts keys; what readers use, for its lookups do not slow down with size.
using Json = nlohmann::json;
/// Keeps keys in the order of the file; what is written back for people.
using OrderedJson = nlohmann::ordered_json;

/// Parses one JSON value. Refuses, with `what` and the position: syntax
/// errors, text that is not UTF-8, duplicate keys, and nesting deeper than 64
/// levels.
Result<Json> parseJson(std::string_view text, const std::string &what);

/// The same; also refuses objects of more than 10,000 keys, since each lookup
/// walks over all of them.
Result<OrderedJson> parseOrderedJson(std::string_view text,
                                     const std::string &what);

/// The text of `value`, indented by two spaces, with a final newline. Fails
/// for strings that are not UTF-8.
Result<std::string> printJson(const OrderedJson &value);

/// `text` as a JSON string with its quotes; fails if it is not UTF-8.
Result<std::string> printJsonString(std::string_view text);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_JSON_H
