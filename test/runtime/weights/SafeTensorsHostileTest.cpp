//===- SafeTensorsHostileTest.cpp - Files that must be refused ------------===//
#include "runtime/base/Philox.h"
#include "runtime/weights/SafeTensors.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace {

class SafeTensorsHostile : public testing::Test {
protected:
  /// Opens a file of this header, with its true length before it, and `data`
  /// zero bytes after it.
  Status open(std::string_view header, size_t data = 0) {
    return openWithLength(header.size(), header, data);
  }

  Status openWithLength(uint64_t length, std::string_view header,
                        size_t data = 0) {
    std::string content(8, '\0');
    std::memcpy(content.data(), &length, 8);
    content += header;
    content.append(data, '\0');
    return statusOf(
        SafeTensorsReader::open(folder.write("x.safetensors", content)));
  }

  TemporaryFolder folder;
};

} // namespace

// The frame of the tests below is sound: this one is accepted.
TEST_F(SafeTensorsHostile, SoundFile) {
  EXPECT_OK(
      open(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", 8));
  EXPECT_OK(open("{}"));
}

// Shorter than its own length field.
TEST_F(SafeTensorsHostile, Truncated) {
  EXPECT_INVALID(SafeTensorsReader::open(folder.write("a", "")), "too few");
  EXPECT_INVALID(SafeTensorsReader::open(folder.write("b", "\1\0\0\0")),
                 "too few");
  EXPECT_INVALID(openWithLength(100, "{}"), "header claims 100 bytes");
  EXPECT_INVALID(
      open(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
      "file holds 7 bytes");
}

// Lengths whose sum with the eight bytes before them overflows.
TEST_F(SafeTensorsHostile, HugeHeaderLength) {
  EXPECT_INVALID(openWithLength(UINT64_MAX, "{}"), "more than");
  EXPECT_INVALID(openWithLength(UINT64_MAX - 7, "{}"), "more than");
  EXPECT_INVALID(openWithLength(100'000'001, "{}"), "more than");
}

// Headers that are no JSON object, with the file's name in the message.
TEST_F(SafeTensorsHostile, HeaderIsNoObject) {
  EXPECT_INVALID(open(""), "not valid JSON");
  EXPECT_INVALID(open("{"), "not valid JSON");
  EXPECT_INVALID(open("[]"), "not a JSON object");
  EXPECT_INVALID(open("{\"\xc3\x28\":1}"), "not valid JSON");
  EXPECT_INVALID(open(std::string(100000, '[')), "nested deeper");
  EXPECT_INVALID(open(R"({"w": 3})"), "tensor \"w\" is 3");
  EXPECT_INVALID(open(R"({"w": 3})"), "x.safetensors");
}

// Two tensors of one name: a reader could take either.
TEST_F(SafeTensorsHostile, DuplicateName) {
  EXPECT_INVALID(open(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                      R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                      2),
                 "duplicate key \"w\"");
}

// Element types that do not exist or are not strings.
TEST_F(SafeTensorsHostile, Dtype) {
  EXPECT_INVALID(
      open(R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4),
      "unknown dtype \"F31\"");
  EXPECT_INVALID(open(R"({"w":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})"),
                 "no \"dtype\" string");
  EXPECT_INVALID(open(R"({"w":{"shape":[1],"data_offsets":[0,4]}})"),
                 "no \"dtype\" string");
}

// Shapes with negative, fractional or too large dimensions.
TEST_F(SafeTensorsHostile, Shape) {
  auto withShape = [&](const char *shape) {
    return open(std::string(R"({"w":{"dtype":"F32","shape":)") + shape +
                    R"(,"data_offsets":[0,4]}})",
                4);
  };
  EXPECT_OK(withShape("[1]"));
  EXPECT_INVALID(withShape("[-1]"), "non-negative integers");
  EXPECT_INVALID(withShape("[1.0]"), "non-negative integers");
  EXPECT_INVALID(withShape("[\"1\"]"), "non-negative integers");
  EXPECT_INVALID(withShape("[18446744073709551615]"), "non-negative integers");
  EXPECT_INVALID(withShape("[99999999999999999999]"), "non-negative integers");
  EXPECT_INVALID(withShape("4"), "no \"shape\" array");
  EXPECT_INVALID(withShape("[2]"), "do not fit");
}

// Products that wrap around to the true size: 2^32 * 2^32 is 0 in 64 bits,
// and 2^62 elements of 4 bytes are 0 bytes.
TEST_F(SafeTensorsHostile, ShapeOverflow) {
  EXPECT_INVALID(open(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,0]}})"),
                 "more than 2^63 elements");
  EXPECT_INVALID(open(R"({"w":{"dtype":"F32","shape":[4611686018427387904],)"
                      R"("data_offsets":[0,0]}})"),
                 "do not fit");
}

// A zero dimension beside huge ones makes an empty tensor, not an overflow.
TEST_F(SafeTensorsHostile, EmptyTensorOfHugeShape) {
  EXPECT_OK(open(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296,0],)"
                 R"("data_offsets":[0,0]}})"));
}

// Offsets that are reversed, negative, or of the wrong form.
TEST_F(SafeTensorsHostile, Offsets) {
  auto withOffsets = [&](const char *offsets) {
    return open(std::string(R"({"w":{"dtype":"F32","shape":[1],)"
                            R"("data_offsets":)") +
                    offsets + "}}",
                4);
  };
  EXPECT_OK(withOffsets("[0,4]"));
  EXPECT_INVALID(withOffsets("[4,0]"), "data_offsets [4, 0]");
  EXPECT_INVALID(withOffsets("[-4,0]"), "no \"data_offsets\"");
  EXPECT_INVALID(withOffsets("[0]"), "no \"data_offsets\"");
  EXPECT_INVALID(withOffsets("[0,4,8]"), "no \"data_offsets\"");
  EXPECT_INVALID(withOffsets("\"0,4\""), "no \"data_offsets\"");
  EXPECT_INVALID(withOffsets("[1,5]"), "file holds 4 bytes");
  EXPECT_INVALID(withOffsets("[18446744073709551612,18446744073709551615]"),
                 "no \"data_offsets\"");
}

// Ranges that overlap, that leave a gap, and data that nobody claims.
TEST_F(SafeTensorsHostile, Coverage) {
  auto two = [&](const char *a, const char *b, size_t data) {
    return open(std::string(R"({"a":{"dtype":"U8","shape":[4],)"
                            R"("data_offsets":)") +
                    a + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" +
                    b + "}}",
                data);
  };
  EXPECT_OK(two("[4,8]", "[0,4]", 8));
  EXPECT_INVALID(two("[0,4]", "[3,7]", 7), "overlap");
  EXPECT_INVALID(two("[0,4]", "[0,4]", 4), "overlap");
  EXPECT_INVALID(two("[0,4]", "[5,9]", 9), "leave a gap");
  EXPECT_INVALID(two("[1,5]", "[5,9]", 9), "leave a gap");
  EXPECT_INVALID(two("[0,4]", "[4,8]", 9), "its tensors need 8");
}

// Metadata is a flat table of strings.
TEST_F(SafeTensorsHostile, Metadata) {
  EXPECT_OK(open(R"({"__metadata__":{"format":"pt"}})"));
  EXPECT_INVALID(open(R"({"__metadata__":3})"), "is not an object");
  EXPECT_INVALID(open(R"({"__metadata__":{"a":[]}})"), "is not a string");
}

// Bytes changed at random: each file is read or refused, and what is accepted
// can be read to its last byte.
TEST_F(SafeTensorsHostile, RandomChanges) {
  std::string header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";
  uint64_t length = header.size();
  std::string sound(reinterpret_cast<const char *>(&length), 8);
  sound += header + std::string(16, '\1');
  constexpr std::string_view bytes = "0123456789-.,:[]{}\"abFUI\0\xff";
  int accepted = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    std::string text = sound;
    PhiloxCounter words = philox(1, 2, i);
    for (uint32_t k = 0; k < 1 + words[3] % 3; ++k)
      text[words[k] % text.size()] = bytes[(words[k] >> 16) % bytes.size()];
    auto reader = SafeTensorsReader::open(folder.write("x", text));
    if (!reader.ok()) {
      EXPECT_EQ(reader.takeStatus().code(), Code::Invalid);
      continue;
    }
    ++accepted;
    for (const StoredTensor &tensor : reader->tensors()) {
      std::vector<std::byte> out(tensor.elements * byteSize(tensor.dtype));
      EXPECT_OK(
          reader->read(tensor, 0, tensor.elements, tensor.dtype, out.data()));
    }
  }
  // Changed data and changed names are no errors.
  EXPECT_GT(accepted, 10);
  EXPECT_LT(accepted, 400);
}
