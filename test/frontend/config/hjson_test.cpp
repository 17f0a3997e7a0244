//===- hjson_test.cpp - Reading what people write -------------------------===//

#include "frontend/config/Hjson.h"

#include "test/frontend/config/Resolve.h"

using namespace ciuic;
using namespace ciuic::config;

namespace {

/// The text's value as compact JSON.
std::string parsed(const std::string &text) {
  auto result = parseHjson(text, "ds.json");
  if (result.ok())
    return toJson(*result);
  ADD_FAILURE() << text << "\nis refused: " << result.takeStatus().str();
  return "";
}

std::string failed(const std::string &text) {
  auto result = parseHjson(text, "ds.json");
  if (!result.ok())
    return result.takeStatus().str();
  ADD_FAILURE() << text << "\nis accepted as " << toJson(*result);
  return "";
}

// Plain JSON stays what it is, in the order of the file.
TEST(Hjson, ReadsJson) {
  EXPECT_EQ(
      parsed(R"({"b": [1, -2.5e3, "x\ty"], "a": {"n": null, "t": true}})"),
      R"({"b":[1,-2.5e3,"x\u0009y"],"a":{"n":null,"t":true}})");
}

// All three kinds of comment, everywhere between tokens.
TEST(Hjson, SkipsComments) {
  EXPECT_EQ(parsed("# one\n{ // two\n\"a\": /* three */ 1 # four\n, /* five\n"
                   "six */ \"b\": 2 // seven\n} # eight"),
            R"({"a":1,"b":2})");
}

// Commas may trail or be missing at the end of a line.
TEST(Hjson, CommasAreOptional) {
  EXPECT_EQ(parsed("{\"a\": 1,\n \"b\": [1, 2, 3,],}"),
            R"({"a":1,"b":[1,2,3]})");
  EXPECT_EQ(parsed("{\n a: 1\n b: 2\n c: [\n 1\n 2\n ]\n}"),
            R"({"a":1,"b":2,"c":[1,2]})");
}

// Two commas in a row are a mistake.
TEST(Hjson, RefusesEmptyElements) {
  EXPECT_TRUE(has(failed("{\"a\": 1,, \"b\": 2}"),
                  "ds.json:1:9: found ',', expected a key"));
  EXPECT_TRUE(
      has(failed("[1,,2]"), "ds.json:1:4: found ',', expected a value"));
}

// Keys and strings without quotes; a string takes the rest of its line.
TEST(Hjson, ReadsUnquotedKeysAndStrings) {
  EXPECT_EQ(parsed("{stage: 3, type: AdamW\n lr: 1e-3}"),
            R"({"stage":3,"type":"AdamW","lr":1e-3})");
  EXPECT_EQ(parsed("{a: one, two # three\n}"), R"({"a":"one, two # three"})");
  EXPECT_EQ(parsed("{a: truely\n b: 007\n c: +1\n d: 1.\n e: nan\n}"),
            R"({"a":"truely","b":"007","c":"+1","d":"1.","e":"nan"})");
}

// The outermost braces may be left out.
TEST(Hjson, RootWithoutBraces) {
  EXPECT_EQ(parsed("a: 1\nb: {c: 2}\n"), R"({"a":1,"b":{"c":2}})");
}

// A string of several lines loses the indentation of its quotes.
TEST(Hjson, ReadsMultilineStrings) {
  EXPECT_EQ(parsed("{\n  a:\n    '''\n    one\n      two\n    '''\n}"),
            R"({"a":"one\n  two"})");
}

// Escapes, single quotes and characters beyond the basic plane.
TEST(Hjson, ReadsStrings) {
  EXPECT_EQ(parsed(R"({'a\'b': "\u00e9\ud83d\ude00\/"})"),
            "{\"a'b\":\"\xC3\xA9\xF0\x9F\x98\x80/\"}");
}

// A byte-order mark and Windows line ends are not content.
TEST(Hjson, AcceptsBomAndCarriageReturns) {
  EXPECT_EQ(parsed("\xEF\xBB\xBF{\r\n \"a\": 1\r\n b: x\r\n}\r\n"),
            R"({"a":1,"b":"x"})");
}

// A key that is given twice is refused with its name and both lines.
TEST(Hjson, RefusesDuplicateKeys) {
  EXPECT_TRUE(
      has(failed("{\n\"stage\": 1,\n\"x\": 0,\n\"stage\": 2\n}"),
          "ds.json:4:1: key \"stage\" is given twice, first in line 2"));
  EXPECT_TRUE(has(failed("{a: {b: 1, 'b': 2}}"), "key \"b\" is given twice"));
  EXPECT_EQ(parsed("{a: {b: 1}, b: 2}"), R"({"a":{"b":1},"b":2})");
}

struct Broken {
  const char *text;
  const char *message;
};

// Each mistake is reported where it is.
TEST(Hjson, SaysWhereItBreaks) {
  const Broken rows[] = {
      {"", "ds.json:1:1: the file is empty"},
      {"  \n # only a comment", "ds.json:2:18: the file is empty"},
      {"{\"a\": 1", "ds.json:1:1: this { is never closed"},
      {"{\"a\": [1, 2", "ds.json:1:7: this [ is never closed"},
      {"{\"a\": \"x\n\"}", "ds.json:1:7: this string is never closed"},
      {"{\"a\": '''x", "ds.json:1:7: this ''' string is never closed"},
      {"{ /* a", "ds.json:1:3: this comment is never closed"},
      {"{\"a\" 1}", "ds.json:1:6: found '1' after key \"a\", expected ':'"},
      {"{\"a\": }", "ds.json:1:7: found '}', expected a value"},
      {"{\"a\":", "ds.json:1:6: the file ends here, expected a value"},
      {"{} x", "ds.json:1:4: found 'x' after the end of the value"},
      {"{\"a\": \"\\q\"}", "ds.json:1:8: unknown escape"},
      {"{\"a\": \"\\u12\"}", "ds.json:1:8: \\u without four"},
      {"{\"a\": \"\\ud800x\"}", "ds.json:1:8: half of a surrogate pair"},
      {"{\"a\": \"\xff\"}", "ds.json:1:8: byte 0xff is not UTF-8"},
      {"{\"a\": \"\x01\"}", "ds.json:1:8: control character 0x01"},
  };
  for (const Broken &row : rows)
    EXPECT_TRUE(has(failed(row.text), row.message)) << row.text;
}

// Nesting and size have limits: hostile files end in a message.
TEST(Hjson, HasLimits) {
  EXPECT_TRUE(has(failed(std::string(1000000, '[')), "nest deeper than 64"));
  EXPECT_TRUE(has(failed(std::string(maxHjsonBytes + 1, ' ')), "may hold"));
}

// A long line of commas after a long number takes linear time.
TEST(Hjson, LongLinesAreLinear) {
  std::string text = "{a: " + std::string(1u << 20, '1') + "x" +
                     std::string(1u << 20, ',') + "\n}";
  EXPECT_EQ(parsed(text).size(), text.size() + 2);
}

// A number of any length is kept and judged by whoever wants it.
TEST(Hjson, HugeNumbersAreInfinite) {
  auto result = parseHjson("[1e999, -1e999, 1e-999]", "ds.json");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(std::isinf(result->elements[0].number));
  EXPECT_TRUE(std::isinf(result->elements[1].number));
  EXPECT_EQ(result->elements[2].number, 0.0);
}

// Positions are those of the value, not of its key.
TEST(Hjson, RemembersPositions) {
  auto result = parseHjson("{\n  a: 1\n  b:\n    {c: 2}\n}", "ds.json");
  ASSERT_TRUE(result.ok());
  const Node *c = result->find("b")->find("c");
  EXPECT_EQ(c->at.line, 4u);
  EXPECT_EQ(c->at.column, 9u);
}

// Cut after any byte, a text is read or refused, never more.
TEST(Hjson, EveryPrefixEndsWell) {
  const std::string text = "\xEF\xBB\xBF{a: [1, 'x', \"\\u00e9\", '''\ny\n'''],"
                           " /* c */ b: {c: -1.5e-3, d: z\n}}";
  for (size_t size = 0; size <= text.size(); ++size) {
    auto result = parseHjson(text.substr(0, size), "ds.json");
    EXPECT_EQ(result.ok(), size == text.size()) << size;
  }
}

} // namespace
