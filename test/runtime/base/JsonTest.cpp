//===- JsonTest.cpp -------------------------------------------------------===//
#include "runtime/base/Json.h"
#include "runtime/base/Quote.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

using namespace ciuic::rt;

// Messages name the source and the position.
TEST(Json, SyntaxErrorHasPosition) {
  EXPECT_INVALID(parseJson("{\"a\": 1,\n \"b\" 2}", "x.json"), "x.json");
  EXPECT_INVALID(parseJson("{\"a\": 1,\n \"b\" 2}", "x.json"), "line 2");
  EXPECT_INVALID(parseJson("", "x.json"), "x.json");
}

// The library would keep the last of two equal keys.
TEST(Json, DuplicateKey) {
  EXPECT_INVALID(parseJson(R"({"a": 1, "b": {"a": 2}, "a": 3})", "x.json"),
                 "duplicate key \"a\"");
  EXPECT_OK(parseJson(R"({"a": {"a": 1}, "b": {"a": 2}})", "x.json"));
}

// A million brackets must neither exhaust memory nor the stack.
TEST(Json, DeepNesting) {
  EXPECT_INVALID(parseJson(std::string(1000000, '['), "x.json"),
                 "nested deeper");
  std::string fine = std::string(50, '[') + std::string(50, ']');
  EXPECT_OK(parseJson(fine, "x.json"));
}

// Objects and arrays count alike, with what is in the innermost.
TEST(Json, DeepestNesting) {
  auto nested = [](int times, const std::string &inner) {
    std::string text = inner;
    for (int i = 0; i < times; ++i)
      text = "{\"a\": [" + text + "]}";
    return text;
  };
  EXPECT_OK(parseJson(nested(32, "1"), "x.json"));
  EXPECT_OK(parseJson(nested(32, "[]"), "x.json"));
  EXPECT_INVALID(parseJson(nested(32, "[1]"), "x.json"), "nested deeper");
  EXPECT_INVALID(parseJson(nested(32, "{\"b\": 1}"), "x.json"),
                 "nested deeper");
}

// Plans have arrays of a million objects: work that grows with the square of
// them would not end.
TEST(Json, LongArrays) {
  std::string text = "[{}";
  for (int i = 1; i < 400000; ++i)
    text += ",{}";
  auto value = parseJson(text + "]", "x.json");
  ASSERT_OK(value);
  EXPECT_EQ(value->size(), 400000u);
}

// Bytes that are not UTF-8 are refused when read and when written.
TEST(Json, InvalidUtf8) {
  EXPECT_INVALID(parseJson("{\"a\xff\": 1}", "x.json"), "not valid JSON");
  EXPECT_INVALID(printJsonString("a\xff"), "is not UTF-8");
}

// Objects whose order is kept are searched key by key: their size is bounded.
TEST(Json, OrderedObjectsAreBounded) {
  std::string text = "{";
  for (int i = 0; i < 10001; ++i)
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_INVALID(parseOrderedJson(text + "}", "x.json"), "10000 keys");
  EXPECT_OK(parseJson(text + "}", "x.json"));
}

// A number too large for any type is an error, not a crash.
TEST(Json, HugeNumber) {
  EXPECT_INVALID(parseJson("[1e99999]", "x.json"), "x.json");
}

// Names from files are shown harmlessly and not at any length.
TEST(Quote, EscapesAndShortens) {
  EXPECT_EQ(quote("a\n\"b\\"), "\"a\\x0a\\\"b\\\\\"");
  EXPECT_EQ(quote(std::string(200, 'x')),
            "\"" + std::string(120, 'x') + "...\"");
}
