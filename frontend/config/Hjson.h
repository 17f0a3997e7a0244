//===- Hjson.h - JSON with a human's liberties, and positions ---*- C++ -*-===//
//
// DeepSpeed reads its configuration as Hjson: comments (#, //, /* */), commas
// left out or trailing, unquoted keys and strings, ''' strings of several
// lines, a root without braces. This reader accepts the same, remembers where
// every value stands, and refuses a key that is given twice.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_FRONTEND_CONFIG_HJSON_H
#define CIUIC_FRONTEND_CONFIG_HJSON_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ciuic::config {

/// 1-based; column counts bytes.
struct Position {
  unsigned line = 1;
  unsigned column = 1;
};

/// A value and where it begins.
struct Node {
  enum class Kind { Null, Bool, Number, String, Array, Object };

  /// A key of an object, where it stands, and its value.
  struct Member;

  Kind kind = Kind::Null;
  Position at;
  bool boolean = false;
  double number = 0;           ///< May be infinite: 1e999.
  std::string text;            ///< A string, or a number as written.
  bool quoted = false;         ///< The string stood in quotes.
  std::vector<Node> elements;  ///< Of an array.
  std::vector<Member> members; ///< Of an object, in the order of the file.

  /// The member called `key`, or null; only for objects.
  const Node *find(std::string_view key) const;

  bool isNull() const { return kind == Kind::Null; }
  bool isObject() const { return kind == Kind::Object; }
  bool isString() const { return kind == Kind::String; }
  /// The string "auto", which Hugging Face's trainer fills.
  bool isAuto() const { return isString() && text == "auto"; }
};

struct Node::Member {
  std::string key;
  Position at;
  Node value;
};

/// "null", "the string \"x\"", "5e8", "an object", for messages.
std::string describe(const Node &node);

/// The value as compact JSON.
std::string toJson(const Node &node);

/// Limits on what is read; hostile input ends in a message.
inline constexpr size_t maxHjsonBytes = 4u << 20;
inline constexpr unsigned maxHjsonDepth = 64;

/// Parses a whole text; `name` stands for the file in messages, which read
/// "NAME:LINE:COLUMN: ...".
rt::Result<Node> parseHjson(std::string_view text, const std::string &name);

} // namespace ciuic::config

#endif // CIUIC_FRONTEND_CONFIG_HJSON_H
