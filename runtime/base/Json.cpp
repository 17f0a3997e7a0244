//===- Json.cpp - Parsing JSON that is not to be trusted ------------------===//
#include "runtime/base/Json.h"

#include "runtime/base/Quote.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>
#include <unordered_set>
#include <vector>

namespace ciuic::rt {
namespace {

constexpr int maxDepth = 64;

/// Thrown out of the library's parser by Guard, and caught in parse().
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Watches the parser for what the library would silently accept.
template <typename AnyJson> class Guard {
public:
  explicit Guard(size_t maxKeys) : maxKeys(maxKeys) {}

  bool operator()(int depth, typename AnyJson::parse_event_t event,
                  AnyJson &value) {
    using Event = typename AnyJson::parse_event_t;
    if (depth > maxDepth)
      throw Refused(
          fmt::format("values are nested deeper than {} levels", maxDepth));
    if (event == Event::object_start)
      keys.emplace_back();
    else if (event == Event::object_end)
      keys.pop_back();
    else if (event == Event::key)
      addKey(value.template get_ref<const std::string &>());
    return true;
  }

private:
  void addKey(const std::string &key) {
    if (!keys.back().insert(key).second)
      throw Refused(fmt::format("duplicate key {}", quote(key)));
    if (keys.back().size() > maxKeys)
      throw Refused(fmt::format("an object has more than {} keys", maxKeys));
  }

  size_t maxKeys;
  std::vector<std::unordered_set<std::string>> keys;
};

template <typename AnyJson>
Result<AnyJson> parse(std::string_view text, const std::string &what,
                      size_t maxKeys) {
  Guard<AnyJson> guard(maxKeys);
  try {
    return AnyJson::parse(
        text.begin(), text.end(),
        [&](int depth, typename AnyJson::parse_event_t event, AnyJson &value) {
          return guard(depth, event, value);
        });
  } catch (const nlohmann::json::exception &error) {
    // Drops the library's "[json.exception.parse_error.101] ".
    std::string_view message = error.what();
    if (size_t end = message.find("] "); end != message.npos)
      message.remove_prefix(end + 2);
    std::string text(message.substr(0, 300));
    return Status::invalid(fmt::format("{}: not valid JSON: {}", what, text));
  } catch (const Refused &error) {
    return Status::invalid(fmt::format("{}: {}", what, error.what()));
  }
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
