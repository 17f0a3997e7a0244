//===- JsonFields.cpp - Typed access to the fields of an object -----------===//
#include "frontend/model/JsonFields.h"

#include "runtime/base/Quote.h"

#include <cmath>
#include <fmt/format.h>

using namespace ciuic;
using namespace ciuic::model;

std::string model::brief(const rt::Json &value) {
  if (value.is_string())
    return rt::quote(value.get_ref<const std::string &>());
  if (value.is_object())
    return fmt::format("an object of {} fields", value.size());
  if (value.is_array())
    return fmt::format("an array of {} values", value.size());
  return value.dump();
}

const rt::Json *JsonFields::find(const char *key) const {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void JsonFields::failWith(const char *key, const std::string &message) const {
  if (errors.status.ok())
    errors.status = rt::Status::invalid(
        fmt::format("{}: {}: {}", errors.file, path(key), message));
}

void JsonFields::fail(const char *key, const std::string &expected) const {
  auto it = object.find(key);
  failWith(key,
           fmt::format("found {}, expected {}",
                       it == object.end() ? "nothing" : brief(*it), expected));
}

int64_t JsonFields::integer(const char *key, int64_t low, int64_t high,
                            std::optional<int64_t> fallback) const {
  const rt::Json *value = find(key);
  if (!value && fallback)
    return *fallback;
  // A number that only fits uint64_t is above any `high`.
  bool fits = value && value->is_number_integer() &&
              !(value->is_number_unsigned() &&
                value->get<uint64_t>() > static_cast<uint64_t>(high));
  if (fits) {
    auto number = value->get<int64_t>();
    if (number >= low && number <= high)
      return number;
  }
  fail(key, fmt::format("an integer from {} to {}", low, high));
  return fallback.value_or(low);
}

double JsonFields::number(const char *key, double low, double high,
                          std::optional<double> fallback) const {
  const rt::Json *value = find(key);
  if (!value && fallback)
    return *fallback;
  if (value && value->is_number()) {
    auto number = value->get<double>();
    if (number >= low && number <= high) // Not so for NaN.
      return number;
  }
  fail(key, fmt::format("a number from {:g} to {:g}", low, high));
  return fallback.value_or(low);
}

bool JsonFields::boolean(const char *key, bool fallback) const {
  const rt::Json *value = find(key);
  if (!value)
    return fallback;
  if (value->is_boolean())
    return value->get<bool>();
  fail(key, "true or false");
  return fallback;
}

std::string JsonFields::string(const char *key,
                               const std::string &fallback) const {
  const rt::Json *value = find(key);
  if (!value)
    return fallback;
  if (value->is_string())
    return value->get<std::string>();
  fail(key, "a string");
  return fallback;
}
