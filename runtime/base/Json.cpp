//===- Json.cpp - Parsing JSON that is not to be trusted ------------------===//
#include "runtime/base/Json.h"

#include "runtime/base/Quote.h"

#include <fmt/format.h>

#include <limits>
#include <unordered_set>
#include <vector>

namespace ciuic::rt {
namespace {

constexpr int maxDepth = 64;

/// Reads a text for what the library's parser would silently accept. That
/// parser with a callback looks at all of an array after each of its objects:
/// plans have arrays of a million.
template <typename AnyJson> class Guard : public nlohmann::json_sax<AnyJson> {
  using Sax = nlohmann::json_sax<AnyJson>;

public:
  explicit Guard(size_t maxKeys) : maxKeys(maxKeys) {}

  /// What is wrong with the text that was read; empty if nothing is.
  std::string message;

  bool null() override { return enter(); }
  bool boolean(bool) override { return enter(); }
  bool number_integer(typename Sax::number_integer_t) override {
    return enter();
  }
  bool number_unsigned(typename Sax::number_unsigned_t) override {
    return enter();
  }
  bool number_float(typename Sax::number_float_t,
                    const typename Sax::string_t &) override {
    return enter();
  }
  bool string(typename Sax::string_t &) override { return enter(); }
  bool binary(typename Sax::binary_t &) override { return enter(); }
  bool start_object(size_t) override {
    if (!enter())
      return false;
    ++depth;
    keys.emplace_back();
    return true;
  }
  bool key(typename Sax::string_t &name) override {
    if (!enter())
      return false;
    if (!keys.back().insert(name).second)
      return refuse(fmt::format("duplicate key {}", quote(name)));
    if (keys.back().size() > maxKeys)
      return refuse(fmt::format("an object has more than {} keys", maxKeys));
    return true;
  }
  bool end_object() override {
    --depth;
    keys.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    if (!enter())
      return false;
    ++depth;
    return true;
  }
  bool end_array() override {
    --depth;
    return true;
  }
  bool parse_error(size_t, const std::string &,
                   const nlohmann::json::exception &error) override {
    // Drops the library's "[json.exception.parse_error.101] ".
    std::string_view text = error.what();
    if (size_t end = text.find("] "); end != text.npos)
      text.remove_prefix(end + 2);
    return refuse(fmt::format("not valid JSON: {}", text.substr(0, 300)));
  }

private:
  bool refuse(std::string why) {
    message = std::move(why);
    return false;
  }
  bool enter() {
    return depth <= maxDepth ||
           refuse(fmt::format("values are nested deeper than {} levels",
                              maxDepth));
  }

  size_t maxKeys;
  int depth = 0; ///< Objects and arrays that are open.
  std::vector<std::unordered_set<std::string>> keys;
};

template <typename AnyJson>
Result<AnyJson> parse(std::string_view text, const std::string &what,
                      size_t maxKeys) {
  Guard<AnyJson> guard(maxKeys);
  if (!AnyJson::sax_parse(text.begin(), text.end(), &guard))
    return Status::invalid(fmt::format("{}: {}", what, guard.message));
  return AnyJson::parse(text.begin(), text.end(), nullptr,
                        /*allow_exceptions=*/false);
}

} // namespace

Result<Json> parseJson(std::string_view text, const std::string &what) {
  return parse<Json>(text, what, std::numeric_limits<size_t>::max());
}

Result<OrderedJson> parseOrderedJson(std::string_view text,
                                     const std::string &what) {
  return parse<OrderedJson>(text, what, 10000);
}

Result<std::string> printJson(const OrderedJson &value) {
  try {
    return value.dump(2) + "\n";
  } catch (const nlohmann::json::exception &) {
    return Status::invalid("a string to be written as JSON is not UTF-8");
  }
}

Result<std::string> printJsonString(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const nlohmann::json::exception &) {
    return Status::invalid(
        fmt::format("the name {} is not UTF-8", quote(text)));
  }
}

} // namespace ciuic::rt
