//===- SafeTensorsTest.cpp - Round trips ----------------------------------===//
#include "runtime/weights/SafeTensors.h"
#include "test/runtime/TestFiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace {

/// 0, 1, 2, ... as floats: exact in f16 and bf16 up to 256.
std::vector<float> ramp(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(i);
  return values;
}

} // namespace

// Tensors of several dtypes, a scalar and an empty one come back.
TEST(SafeTensors, RoundTrip) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  std::vector<float> values = ramp(6);
  float scalar = 3.5f;
  int64_t count = -7;
  ASSERT_ASSIGN(SafeTensorsWriter writer,
                SafeTensorsWriter::create(path,
                                          {{"half", DType::BF16, {2, 3}},
                                           {"full", DType::F32, {3, 2}},
                                           {"scalar", DType::F32, {}},
                                           {"empty", DType::F32, {0, 4}},
                                           {"count", DType::I64, {1}}},
                                          {{"format", "pt"}}));
  ASSERT_OK(writer.write(0, 0, 6, DType::F32, values.data()));
  ASSERT_OK(writer.write(1, 0, 6, DType::F32, values.data()));
  ASSERT_OK(writer.write(2, 0, 1, DType::F32, &scalar));
  ASSERT_OK(writer.write(4, 0, 1, DType::I64, &count));
  ASSERT_OK(writer.commit());

  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  EXPECT_EQ(reader.tensors().size(), 5u);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(reader.find("none"), nullptr);
  const StoredTensor *half = reader.find("half");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->dtype, DType::BF16);
  EXPECT_EQ(half->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(reader.bytes(*half).size(), 12u);
  for (const char *name : {"half", "full"}) {
    std::vector<float> out(6, -1);
    ASSERT_OK(reader.read(*reader.find(name), 0, 6, DType::F32, out.data()));
    EXPECT_EQ(out, values) << name;
  }
  float readScalar = 0;
  ASSERT_OK(reader.read(*reader.find("scalar"), 0, 1, DType::F32, &readScalar));
  EXPECT_EQ(readScalar, 3.5f);
  int64_t readCount = 0;
  ASSERT_OK(reader.read(*reader.find("count"), 0, 1, DType::I64, &readCount));
  EXPECT_EQ(readCount, -7);
  ASSERT_OK(reader.read(*reader.find("empty"), 0, 0, DType::F32, nullptr));
}

// Every tensor lies at a multiple of its element's size, the data at one of 8.
TEST(SafeTensors, TensorsAreAligned) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  ASSERT_ASSIGN(SafeTensorsWriter writer,
                SafeTensorsWriter::create(path, {{"a", DType::U8, {3}},
                                                 {"b", DType::F32, {1}},
                                                 {"c", DType::BF16, {1}},
                                                 {"d", DType::I64, {1}}}));
  uint64_t zero = 0;
  ASSERT_OK(writer.write(0, 0, 3, DType::U8, &zero));
  ASSERT_OK(writer.write(1, 0, 1, DType::F32, &zero));
  ASSERT_OK(writer.write(2, 0, 1, DType::BF16, &zero));
  ASSERT_OK(writer.write(3, 0, 1, DType::I64, &zero));
  ASSERT_OK(writer.commit());
  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  for (const StoredTensor &tensor : reader.tensors()) {
    auto address = reinterpret_cast<uintptr_t>(reader.bytes(tensor).data());
    EXPECT_EQ(address % byteSize(tensor.dtype), 0u) << tensor.name;
  }
}

// Shards of a tensor may be written in any order, and any slice read back in
// any float type.
TEST(SafeTensors, ReshardsElementRanges) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  std::vector<float> values = ramp(100);
  ASSERT_ASSIGN(SafeTensorsWriter writer,
                SafeTensorsWriter::create(path, {{"w", DType::F16, {10, 10}}}));
  for (uint64_t begin : {75, 0, 50, 25})
    ASSERT_OK(writer.write(0, begin, 25, DType::F32, values.data() + begin));
  ASSERT_OK(writer.commit());
  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  const StoredTensor &tensor = *reader.find("w");
  for (uint64_t begin = 0; begin < 100; begin += 33) {
    uint64_t end = std::min<uint64_t>(100, begin + 33);
    std::vector<float> f32(end - begin);
    std::vector<double> f64(end - begin);
    ASSERT_OK(reader.read(tensor, begin, end, DType::F32, f32.data()));
    ASSERT_OK(reader.read(tensor, begin, end, DType::F64, f64.data()));
    for (uint64_t i = begin; i < end; ++i) {
      EXPECT_EQ(f32[i - begin], values[i]);
      EXPECT_EQ(f64[i - begin], values[i]);
    }
  }
  float out;
  EXPECT_INVALID(reader.read(tensor, 99, 101, DType::F32, &out),
                 "has 100 elements, asked for [99, 101)");
  EXPECT_INVALID(reader.read(tensor, 2, 1, DType::F32, &out), "asked for");
}

/// Bytes of mapped files that the process holds, as Linux counts them.
uint64_t residentFileBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "RssFile:") {
      uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

// A file that was read is not held: not even what lies around its pieces,
// which need not begin where pages do.
TEST(SafeTensors, HoldsNoPagesOfWhatWasRead) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  constexpr uint64_t n = uint64_t(8) << 20;
  std::vector<float> values(n, 1.5f);
  ASSERT_ASSIGN(
      SafeTensorsWriter writer,
      SafeTensorsWriter::create(path, {{"w", DType::F32, {int64_t(n)}}}));
  ASSERT_OK(writer.write(0, 0, n, DType::F32, values.data()));
  ASSERT_OK(writer.commit());
  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  uint64_t before = residentFileBytes();
  constexpr uint64_t piece = 20011;
  std::vector<float> out(piece);
  for (uint64_t begin = 0; begin < n; begin += piece) {
    uint64_t end = std::min(n, begin + piece);
    ASSERT_OK(
        reader.read(reader.tensors()[0], begin, end, DType::F32, out.data()));
    ASSERT_EQ(out[0], 1.5f);
  }
  EXPECT_LT(residentFileBytes(), before + (n * sizeof(float)) / 16);
}

// More elements than the conversion buffer holds.
TEST(SafeTensors, ConvertsLargeTensorsInPieces) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  uint64_t n = 3'000'001;
  TensorSource source{{"w", DType::BF16, {int64_t(n)}}, DType::F32, {}};
  uint64_t calls = 0;
  source.fill = [&](uint64_t begin, uint64_t end, void *out) -> Status {
    ++calls;
    for (uint64_t i = begin; i < end; ++i)
      static_cast<float *>(out)[i - begin] = static_cast<float>(i % 251);
    return {};
  };
  ASSERT_ASSIGN(SafeTensorsWriter writer,
                SafeTensorsWriter::create(path, {source}));
  ASSERT_OK(writeFrom(writer, 0, source, /*pieceBytes=*/1 << 20));
  ASSERT_OK(writer.commit());
  EXPECT_EQ(calls, (n * 4 - 1) / (1 << 20) + 1);
  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  std::vector<float> out(n);
  ASSERT_OK(reader.read(*reader.find("w"), 0, n, DType::F32, out.data()));
  for (uint64_t i = 0; i < n; ++i)
    ASSERT_EQ(out[i], static_cast<float>(i % 251)) << i;
}

// An element is written once, and none is forgotten.
TEST(SafeTensors, WriterCountsElements) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  std::vector<float> values = ramp(10);
  ASSERT_ASSIGN(SafeTensorsWriter writer,
                SafeTensorsWriter::create(path, {{"w", DType::F32, {10}}}));
  ASSERT_OK(writer.write(0, 0, 4, DType::F32, values.data()));
  ASSERT_OK(writer.write(0, 6, 4, DType::F32, values.data()));
  EXPECT_INVALID(writer.write(0, 3, 2, DType::F32, values.data()),
                 "partly written before");
  EXPECT_INVALID(writer.write(0, 5, 2, DType::F32, values.data()),
                 "partly written before");
  EXPECT_INVALID(writer.write(0, 9, 2, DType::F32, values.data()),
                 "has 10 elements");
  EXPECT_INVALID(writer.write(0, 4, 1, DType::I32, values.data()),
                 "cannot store i32 elements as f32");
  EXPECT_INVALID(writer.commit(), "element 4 of 10 was never written");
}

// Without a commit there is no file, and what was there stays.
TEST(SafeTensors, AbandonedWriterLeavesNothing) {
  TemporaryFolder folder;
  std::string path = folder.write("x.safetensors", "old");
  {
    EXPECT_OK(SafeTensorsWriter::create(path, {{"w", DType::F32, {1000}}}));
  }
  EXPECT_EQ(readFile(path), "old");
  EXPECT_EQ(folder.names(), std::set<std::string>{"x.safetensors"});
}

// Names that a header cannot hold.
TEST(SafeTensors, WriterRefusesNames) {
  TemporaryFolder folder;
  std::string path = folder.path("x.safetensors");
  auto create = [&](std::vector<TensorSpec> specs) {
    return SafeTensorsWriter::create(path, std::move(specs));
  };
  EXPECT_INVALID(create({{"w", DType::F32, {1}}, {"w", DType::F32, {2}}}),
                 "tensor \"w\" is given twice");
  EXPECT_INVALID(create({{"__metadata__", DType::F32, {1}}}), "is reserved");
  EXPECT_INVALID(create({{"a\xff", DType::F32, {1}}}), "is not UTF-8");
  EXPECT_INVALID(create({{"w", DType::F32, {-1}}}), "negative dimension");
  EXPECT_INVALID(create({{"w", DType::F32, {INT64_MAX}}}), "does not fit");
  EXPECT_TRUE(folder.names().empty());
}

// A file as the format's own library writes it.
TEST(SafeTensors, ReadsForeignFile) {
  std::string path =
      std::string(CIUIC_CORPUS_DIR) + "/assets/jfk-codes.safetensors";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is absent";
  ASSERT_ASSIGN(SafeTensorsReader reader, SafeTensorsReader::open(path));
  ASSERT_EQ(reader.tensors().size(), 1u);
  const StoredTensor &codes = reader.tensors()[0];
  EXPECT_EQ(codes.name, "codes");
  EXPECT_EQ(codes.dtype, DType::I64);
  EXPECT_EQ(codes.shape, (std::vector<int64_t>{1, 2, 828}));
  std::vector<int64_t> out(10);
  ASSERT_OK(reader.read(codes, 0, 10, DType::I64, out.data()));
  for (int64_t code : out)
    EXPECT_TRUE(code >= 0 && code < 65536) << code;
  float value;
  EXPECT_INVALID(reader.read(codes, 0, 1, DType::F32, &value),
                 "cannot convert i64");
}

// Files written by the format's Python library, with tensors of several
// dtypes, open, and every tensor can be read.
TEST(SafeTensors, ReadsReferenceFiles) {
  std::string folder = std::string(CIUIC_SOURCE_DIR) + "/test/reference";
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors")
      continue;
    ++files;
    ASSERT_ASSIGN(SafeTensorsReader reader,
                  SafeTensorsReader::open(entry.path().string()));
    EXPECT_FALSE(reader.tensors().empty());
    for (const StoredTensor &tensor : reader.tensors()) {
      std::vector<std::byte> out(tensor.elements * byteSize(tensor.dtype));
      EXPECT_OK(
          reader.read(tensor, 0, tensor.elements, tensor.dtype, out.data()));
    }
  }
  EXPECT_GT(files, 0);
}

// In order, and never over the limit unless one tensor alone is.
TEST(SafeTensors, PlansShards) {
  std::vector<uint64_t> bytes = {40, 60, 1, 0, 250, 100};
  EXPECT_EQ(planShards(bytes, 100), (std::vector<size_t>{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(shardName("model", 1, 12), "model-00002-of-00012.safetensors");
}
