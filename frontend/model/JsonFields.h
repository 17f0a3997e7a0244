//===- JsonFields.h - Typed access to the fields of an object ---*- C++ -*-===//
//
// Fields of one JSON object, each with its range. Only the first thing that
// is wrong is kept, as "FILE: path.to.field: found X, expected Y"; afterwards
// every access returns its default, so that a reader may take all fields in a
// row and ask for the status once.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_MODEL_JSONFIELDS_H
#define CIUIC_FRONTEND_MODEL_JSONFIELDS_H

#include "runtime/base/Json.h"

#include <optional>

namespace ciuic::model {

/// What went wrong first, shared by an object and those inside it.
struct JsonErrors {
  std::string file;
  rt::Status status;
};

class JsonFields {
public:
  /// `prefix` is the path of `object` in its file, empty or ending in a dot.
  JsonFields(const rt::Json &object, std::string prefix, JsonErrors &errors)
      : object(object), prefix(std::move(prefix)), errors(errors) {}

  /// Null where the field is missing or null: transformers treats both alike
  /// unless the default says otherwise.
  const rt::Json *find(const char *key) const;

  /// Whether the field is in the file, be it null.
  bool has(const char *key) const { return object.contains(key); }

  /// An integer in [low, high]; a missing one without `fallback` is an error.
  int64_t integer(const char *key, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = std::nullopt) const;

  /// A finite number in [low, high].
  double number(const char *key, double low, double high,
                std::optional<double> fallback = std::nullopt) const;

  bool boolean(const char *key, bool fallback) const;
  std::string string(const char *key, const std::string &fallback) const;

  /// Records "found ..., expected ..." of a field.
  void fail(const char *key, const std::string &expected) const;

  /// Records a message of a field that stands by itself.
  void failWith(const char *key, const std::string &message) const;

  std::string path(const char *key) const { return prefix + key; }

private:
  const rt::Json &object;
  std::string prefix;
  JsonErrors &errors;
};

/// `value` on one line, cut to a readable length.
std::string brief(const rt::Json &value);

} // namespace ciuic::model

#endif // CIUIC_FRONTEND_MODEL_JSONFIELDS_H
