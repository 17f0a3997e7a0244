//===- Hjson.cpp - JSON with a human's liberties, and positions -----------===//
//
// Recursive descent over bytes. Errors travel as a bool and one message: the
// first mistake ends the reading.
//
//===----------------------------------------------------------------------===//

#include "frontend/config/Hjson.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

using namespace ciuic;
using namespace ciuic::config;

const Node *Node::find(std::string_view key) const {
  for (const Member &member : members)
    if (member.key == key)
      return &member.value;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// `text` in quotes, with what JSON wants escaped escaped.
static std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

/// `text`, or its beginning when it is too long for a message.
static std::string shorten(const std::string &text) {
  constexpr size_t shown = 60;
  if (text.size() <= shown)
    return text;
  size_t end = shown; // Never cut a UTF-8 sequence in two.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

std::string config::describe(const Node &node) {
  switch (node.kind) {
  case Node::Kind::Null:
    return "null";
  case Node::Kind::Bool:
    return node.boolean ? "true" : "false";
  case Node::Kind::Number:
    return shorten(node.text);
  case Node::Kind::String:
    // Hjson reads unquoted text to the end of its line: say so, or the comma
    // in it looks like our mistake.
    return (node.quoted ? "the string "
                        : "unquoted text up to the line's end ") +
           quote(shorten(node.text));
  case Node::Kind::Array:
    return "a list";
  case Node::Kind::Object:
    return "an object";
  }
  return "nothing";
}

std::string config::toJson(const Node &node) {
  switch (node.kind) {
  case Node::Kind::String:
    return quote(node.text);
  case Node::Kind::Array: {
    std::string out = "[";
    for (const Node &element : node.elements)
      out += (out.size() > 1 ? "," : "") + toJson(element);
    return out + "]";
  }
  case Node::Kind::Object: {
    std::string out = "{";
    for (const Node::Member &member : node.members)
      out += (out.size() > 1 ? "," : "") + quote(member.key) + ":" +
             toJson(member.value);
    return out + "}";
  }
  case Node::Kind::Number:
    return node.text;
  default:
    return describe(node);
  }
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isPunctuator(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

/// True if all of `text` is a number by JSON's grammar: no leading zeros or
/// plus sign, digits on both sides of the point.
bool isNumber(std::string_view text) {
  size_t i = 0;
  auto digits = [&] {
    size_t first = i;
    while (i < text.size() && isDigit(text[i]))
      ++i;
    return i > first;
  };
  if (i < text.size() && text[i] == '-')
    ++i;
  size_t whole = i;
  if (!digits() || (text[whole] == '0' && i > whole + 1))
    return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits())
      return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-'))
      ++i;
    if (!digits())
      return false;
  }
  return i == text.size();
}

class Parser {
public:
  Parser(std::string_view text, const std::string &name)
      : text(text), name(name) {}

  rt::Result<Node> parse() {
    if (text.size() > maxHjsonBytes)
      return rt::Status::invalid(
          fmt::format("{}: holds {} bytes, a configuration may hold {}", name,
                      text.size(), maxHjsonBytes));
    if (text.substr(0, 3) == "\xEF\xBB\xBF") { // A byte-order mark.
      text.remove_prefix(3);
    }
    Node root;
    if (!checkBytes() || !parseRoot(root))
      return rt::Status::invalid(message);
    return root;
  }

private:
  //===--------------------------------------------------------------------===//
  // Positions and errors
  //===--------------------------------------------------------------------===//

  bool atEnd() const { return cursor >= text.size(); }
  char peek(size_t ahead = 0) const {
    return cursor + ahead < text.size() ? text[cursor + ahead] : '\0';
  }
  bool startsWith(std::string_view what) const {
    return text.substr(cursor, what.size()) == what;
  }
  void advance() {
    if (text[cursor++] == '\n') {
      ++position.line;
      position.column = 1;
    } else {
      ++position.column;
    }
  }
  void advance(size_t count) {
    while (count-- > 0 && !atEnd())
      advance();
  }

  bool fail(Position at, const std::string &what) {
    message = fmt::format("{}:{}:{}: {}", name, at.line, at.column, what);
    return false;
  }
  std::string found() const {
    if (atEnd())
      return "the end of the file";
    if (peek() == '\n')
      return "the end of the line";
    // A whole UTF-8 sequence, so that the message stays valid text.
    size_t size = 1;
    while ((static_cast<unsigned char>(peek(size)) & 0xC0) == 0x80)
      ++size;
    return fmt::format("'{}'", text.substr(cursor, size));
  }

  /// The whole text is UTF-8 without control characters: later code may copy
  /// any byte into a message.
  bool checkBytes() {
    Position at;
    for (size_t i = 0; i < text.size();) {
      auto c = static_cast<unsigned char>(text[i]);
      if (c < 0x20 && c != '\n' && c != '\r' && c != '\t')
        return fail(at, fmt::format("control character 0x{:02x} in the text, "
                                    "expected JSON or Hjson",
                                    c));
      size_t size = c < 0x80                ? 1
                    : c >= 0xC2 && c < 0xE0 ? 2
                    : c >= 0xE0 && c < 0xF0 ? 3
                    : c >= 0xF0 && c < 0xF5 ? 4
                                            : 0;
      bool good = size != 0 && i + size <= text.size();
      for (size_t k = 1; good && k < size; ++k)
        good = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
      if (!good)
        return fail(at, fmt::format("byte 0x{:02x} is not UTF-8", c));
      i += size;
      if (c == '\n') {
        ++at.line;
        at.column = 1;
      } else {
        at.column += size;
      }
    }
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Structure
  //===--------------------------------------------------------------------===//

  /// Skips white space and comments.
  bool skip() {
    while (!atEnd()) {
      if (isSpace(peek()) || peek() == '\n') {
        advance();
      } else if (peek() == '#' || startsWith("//")) {
        while (!atEnd() && peek() != '\n')
          advance();
      } else if (startsWith("/*")) {
        Position at = position;
        advance(2);
        while (!atEnd() && !startsWith("*/"))
          advance();
        if (atEnd())
          return fail(at, "this comment is never closed, expected */");
        advance(2);
      } else {
        return true;
      }
    }
    return true;
  }

  bool parseRoot(Node &root) {
    if (!skip())
      return false;
    root.at = position;
    if (atEnd())
      return fail(position, "the file is empty, expected a JSON object");
    if (peek() == '{' || peek() == '[') {
      if (!parseValue(root, 0))
        return false;
    } else { // Hjson: members without braces around them.
      root.kind = Node::Kind::Object;
      if (!parseMembers(root, 0, /*braced=*/false))
        return false;
    }
    if (!skip())
      return false;
    if (!atEnd())
      return fail(position,
                  fmt::format("found {} after the end of the value", found()));
    return true;
  }

  /// After an element: an optional comma. Two in a row are an error.
  bool skipComma() {
    if (!skip())
      return false;
    if (peek() != ',')
      return true;
    advance();
    return skip();
  }

  bool parseMembers(Node &object, unsigned depth, bool braced) {
    Position open = object.at;
    std::map<std::string, Position, std::less<>> seen;
    if (!skip())
      return false;
    while (true) {
      if (atEnd())
        return !braced || fail(open, "this { is never closed, expected } "
                                     "before the end of the file");
      if (braced && peek() == '}') {
        advance();
        return true;
      }
      Node::Member member;
      if (!parseKey(member))
        return false;
      auto [before, isNew] = seen.try_emplace(member.key, member.at);
      if (!isNew)
        return fail(member.at,
                    fmt::format("key {} is given twice, first in line {}",
                                quote(shorten(member.key)),
                                before->second.line));
      if (!skip())
        return false;
      if (peek() != ':')
        return fail(position, fmt::format("found {} after key {}, expected ':'",
                                          found(), quote(shorten(member.key))));
      advance();
      if (!skip() || !parseValue(member.value, depth))
        return false;
      object.members.push_back(std::move(member));
      if (!skipComma())
        return false;
    }
  }

  bool parseKey(Node::Member &member) {
    member.at = position;
    if (peek() == '"' || peek() == '\'')
      return parseQuoted(member.key);
    while (!atEnd() && !isSpace(peek()) && peek() != '\n' &&
           !isPunctuator(peek()) && peek() != '"' && peek() != '\'')
      member.key += peek(), advance();
    if (member.key.empty())
      return fail(position, fmt::format("found {}, expected a key", found()));
    return true;
  }

  bool parseValue(Node &node, unsigned depth) {
    node.at = position;
    if (atEnd())
      return fail(position, "the file ends here, expected a value");
    if (peek() == '{' || peek() == '[') {
      if (depth >= maxHjsonDepth)
        return fail(position,
                    fmt::format("values nest deeper than {}", maxHjsonDepth));
      bool object = peek() == '{';
      node.kind = object ? Node::Kind::Object : Node::Kind::Array;
      advance();
      return object ? parseMembers(node, depth + 1, /*braced=*/true)
                    : parseElements(node, depth + 1);
    }
    if (startsWith("'''")) {
      node.kind = Node::Kind::String;
      node.quoted = true;
      return parseMultiline(node.text);
    }
    if (peek() == '"' || peek() == '\'') {
      node.kind = Node::Kind::String;
      node.quoted = true;
      return parseQuoted(node.text);
    }
    if (isPunctuator(peek()))
      return fail(position, fmt::format("found {}, expected a value", found()));
    return parseUnquoted(node);
  }

  bool parseElements(Node &array, unsigned depth) {
    if (!skip())
      return false;
    while (true) {
      if (atEnd())
        return fail(array.at, "this [ is never closed, expected ] before the "
                              "end of the file");
      if (peek() == ']') {
        advance();
        return true;
      }
      Node element;
      if (!parseValue(element, depth))
        return false;
      array.elements.push_back(std::move(element));
      if (!skipComma())
        return false;
    }
  }

  //===--------------------------------------------------------------------===//
  // Scalars
  //===--------------------------------------------------------------------===//

  /// true, false, null or a number if one ends before a comma, bracket,
  /// comment or the line's end; else all of the line, comma included, is a
  /// string: that is Hjson's rule, and the reason why a template placeholder
  /// arrives here as text.
  bool parseUnquoted(Node &node) {
    size_t begin = cursor, end = cursor; // `end`: after the last non-space.
    bool mayBeWord = true; // Until the text holds more than one word could.
    while (true) {
      bool lineEnds = atEnd() || peek() == '\n';
      bool wordEnds = lineEnds || peek() == ',' || peek() == '}' ||
                      peek() == ']' || peek() == '#' || startsWith("//") ||
                      startsWith("/*");
      if (wordEnds && mayBeWord) {
        if (readWord(text.substr(begin, end - begin), node))
          return true;
        mayBeWord = false;
      }
      if (lineEnds) {
        node.kind = Node::Kind::String;
        node.text = text.substr(begin, end - begin);
        return true;
      }
      if (!isSpace(peek()))
        end = cursor + 1;
      advance();
    }
  }

  bool readWord(std::string_view word, Node &node) {
    if (word == "true" || word == "false") {
      node.kind = Node::Kind::Bool;
      node.boolean = word == "true";
      return true;
    }
    if (word == "null") {
      node.kind = Node::Kind::Null;
      return true;
    }
    if (!isNumber(word))
      return false;
    node.kind = Node::Kind::Number;
    node.text = word;
    // Out of range becomes infinite or zero, as strtod says; the reader of
    // the value refuses infinities. Locales do not matter to from_chars.
    auto result =
        std::from_chars(word.data(), word.data() + word.size(), node.number);
    if (result.ec == std::errc::result_out_of_range)
      node.number = std::strtod(node.text.c_str(), nullptr);
    return true;
  }

  bool parseQuoted(std::string &out) {
    Position open = position;
    char quoteMark = peek();
    advance();
    while (true) {
      if (atEnd() || peek() == '\n')
        return fail(open, fmt::format("this string is never closed, expected "
                                      "{} before the end of the line",
                                      quoteMark));
      char c = peek();
      if (c == quoteMark) {
        advance();
        return true;
      }
      if (c != '\\') {
        out += c;
        advance();
        continue;
      }
      Position escape = position;
      advance();
      char kind = peek();
      if (kind == 'u') {
        if (!parseUnicode(escape, out))
          return false;
        continue;
      }
      constexpr std::string_view names = "\"'\\/bfnrt";
      constexpr std::string_view values = "\"'\\/\b\f\n\r\t";
      size_t which = atEnd() ? names.npos : names.find(kind);
      if (which == names.npos)
        return fail(escape, "unknown escape in a string, expected one of "
                            "\\\" \\' \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
      out += values[which];
      advance();
    }
  }

  /// Four hexadecimal digits after \u; two such units for a high character.
  bool parseUnicode(Position escape, std::string &out) {
    auto unit = [&]() -> std::optional<uint32_t> {
      uint32_t value = 0;
      if (text.size() - cursor < 5)
        return std::nullopt;
      const char *first = text.data() + cursor + 1;
      auto result = std::from_chars(first, first + 4, value, 16);
      if (result.ec != std::errc() || result.ptr != first + 4)
        return std::nullopt;
      advance(5);
      return value;
    };
    std::optional<uint32_t> code = unit();
    if (code && *code >= 0xD800 && *code < 0xDC00 && startsWith("\\u")) {
      advance();
      std::optional<uint32_t> low = unit();
      if (!low || *low < 0xDC00 || *low > 0xDFFF)
        return fail(escape, "half of a surrogate pair in a string");
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    if (!code)
      return fail(escape, "\\u without four hexadecimal digits");
    if (*code >= 0xD800 && *code < 0xE000)
      return fail(escape, "half of a surrogate pair in a string");
    appendUtf8(*code, out);
    return true;
  }

  static void appendUtf8(uint32_t code, std::string &out) {
    auto tail = [&](unsigned shift) {
      out += static_cast<char>(0x80 | ((code >> shift) & 0x3F));
    };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  /// ''' to ''': lines as they stand, less the indentation of the opening
  /// quotes, the line break after them and the one before the closing ones.
  bool parseMultiline(std::string &out) {
    Position open = position;
    size_t indent = open.column - 1;
    advance(3);
    auto skipIndent = [&] {
      for (size_t i = 0; i < indent && isSpace(peek()); ++i)
        advance();
    };
    while (isSpace(peek()))
      advance();
    if (peek() == '\n') {
      advance();
      skipIndent();
    }
    while (!startsWith("'''")) {
      if (atEnd())
        return fail(open, "this ''' string is never closed");
      char c = peek();
      advance();
      if (c != '\r')
        out += c;
      if (c == '\n')
        skipIndent();
    }
    advance(3);
    if (!out.empty() && out.back() == '\n')
      out.pop_back();
    return true;
  }

  std::string_view text;
  std::string name;
  size_t cursor = 0;
  Position position;
  std::string message;
};

} // namespace

rt::Result<Node> config::parseHjson(std::string_view text,
                                    const std::string &name) {
  return Parser(text, name).parse();
}
