//===- CheckpointHostileTest.cpp - Folders that must be refused -----------===//
#include "runtime/base/Philox.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/checkpoint/Sources.h"

#include <gtest/gtest.h>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace {

class CheckpointHostile : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_OK(sampleWriter(folder.path()).save(sampleState(1)));
    sound = readFile(folder.path("step-1/state.json"));
  }

  /// Opens the checkpoint with the first `from` of its state replaced.
  Status openWith(const std::string &from, const std::string &to) {
    std::string text = sound;
    size_t at = text.find(from);
    if (at == text.npos) {
      ADD_FAILURE() << from << " is not in the state";
      return {};
    }
    folder.write("step-1/state.json", text.replace(at, from.size(), to));
    return statusOf(CheckpointReader::open(folder.path()));
  }

  TemporaryFolder folder;
  std::string sound;
};

constexpr const char *masterFile = "master-00001-of-00001.safetensors";

} // namespace

// `latest` that is missing, empty, dangling, or leads out of the folder.
TEST_F(CheckpointHostile, Latest) {
  auto open = [&] { return CheckpointReader::open(folder.path()); };
  for (const char *name :
       {"", "\n", "..", "step-1/../..", "step-/x", "/etc", "state.json"}) {
    folder.write("latest", name);
    EXPECT_INVALID(open(), "expected step-N");
  }
  folder.write("latest", "step-99\n");
  EXPECT_INVALID(open(), "names \"step-99\", which is no complete");
  folder.write("latest", std::string(1000, 'x'));
  EXPECT_INVALID(open(), "more than the 256 allowed");
  std::filesystem::remove(folder.path("latest"));
  EXPECT_INVALID(open(), "is not a checkpoint");
  EXPECT_INVALID(CheckpointReader::open(folder.path("none")),
                 "is not a checkpoint");
}

// A state that is cut off or not one of ours.
TEST_F(CheckpointHostile, StateFile) {
  folder.write("step-1/state.json", sound.substr(0, sound.size() / 2));
  EXPECT_INVALID(CheckpointReader::open(folder.path()), "not valid JSON");
  folder.write("step-1/state.json", "[]");
  EXPECT_INVALID(CheckpointReader::open(folder.path()),
                 "is not the state of a ciuicc checkpoint");
  EXPECT_INVALID(openWith("ciuicc checkpoint", "other"), "is not the state");
  EXPECT_INVALID(openWith("\"version\": 2", "\"version\": 3"),
                 "is of version 3, expected 1 to 2");
}

// Counters that are no counts.
TEST_F(CheckpointHostile, Counters) {
  EXPECT_INVALID(openWith("\"step\": 1", "\"step\": -1"),
                 "\"step\" is not a non-negative integer");
  EXPECT_INVALID(openWith("\"skipped_steps\": 1", "\"skipped_steps\": 2"),
                 "\"skipped_steps\" is 2, expected at most \"step\"");
  EXPECT_INVALID(openWith("\"step\": 1", "\"step\": 18446744073709551615"),
                 "\"step\" is 18446744073709551615, expected at most");
  EXPECT_INVALID(openWith("\"data_step\": 1", "\"data_step\": 1.5"),
                 "\"data_step\" is not");
  EXPECT_INVALID(openWith("\"seed\": 42", "\"seed\": 18446744073709551616"),
                 "\"seed\" is not");
  EXPECT_INVALID(openWith("\"fingerprint\": \"a model\"", "\"x\": 1"),
                 "\"fingerprint\" is not a string");
  EXPECT_INVALID(openWith("\"scalars\": {}", "\"scalars\": {\"a\": \"b\"}"),
                 "scalar \"a\" is not a number");
}

// Tensors listed wrongly: outside the folder, twice, or unlike the files.
TEST_F(CheckpointHostile, TensorList) {
  std::string file = "\"file\": \"" + std::string(masterFile);
  EXPECT_INVALID(openWith(file, "\"file\": \"../step-1/x"),
                 "tensors[0]: \"../step-1/x\" is not the name of a file");
  EXPECT_INVALID(openWith(file, "\"file\": \"none"), "none: cannot open");
  EXPECT_INVALID(openWith("\"name\": \"a\"", "\"name\": \"c\""),
                 "tensor \"c\" is not in");
  EXPECT_INVALID(openWith("\"name\": \"a\"", "\"name\": \"b\""),
                 "tensor \"b\"");
  EXPECT_INVALID(openWith("\"f32\"", "\"bf16\""),
                 "tensor \"a\" is bf16 [2, 3] here, f32 [2, 3]");
  EXPECT_INVALID(openWith("\"name\": \"a\"", "\"name\": 3"),
                 "tensors[0]: \"name\" is not a string");
}

// The same tensor of the same role twice, with everything else in order.
TEST_F(CheckpointHostile, TensorTwice) {
  std::string entry = "{\"role\": \"master\", \"name\": \"b\", \"dtype\": "
                      "\"f32\", \"shape\": [6], \"file\": \"" +
                      std::string(masterFile) + "\"}";
  EXPECT_INVALID(openWith("\"tensors\": [", "\"tensors\": [" + entry + ","),
                 "listed twice");
}

// A shard that was cut off.
TEST_F(CheckpointHostile, TruncatedShard) {
  std::string file = folder.path("step-1/" + std::string(masterFile));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_INVALID(CheckpointReader::open(folder.path()), masterFile);
}

// Bytes of the state changed at random: it is read or refused.
TEST_F(CheckpointHostile, RandomChanges) {
  constexpr std::string_view bytes = "0123456789-.,:[]{}\"abfx/\0\xff";
  int refused = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    std::string text = sound;
    PhiloxCounter words = philox(1, 2, i);
    for (uint32_t k = 0; k < 1 + words[3] % 3; ++k)
      text[words[k] % text.size()] = bytes[(words[k] >> 16) % bytes.size()];
    folder.write("step-1/state.json", text);
    auto reader = CheckpointReader::open(folder.path());
    if (reader.ok())
      continue;
    ++refused;
    EXPECT_EQ(reader.takeStatus().code(), Code::Invalid);
  }
  EXPECT_GT(refused, 50);
  EXPECT_LT(refused, 300) << "a changed seed is no error";
}

// The list of files that is missing or malformed, leads out of the folder or
// leaves a file out.
TEST_F(CheckpointHostile, Files) {
  EXPECT_INVALID(openWith("\"files\"", "\"fires\""),
                 "\"files\" is not an array");
  EXPECT_INVALID(openWith("\"bytes\": ", "\"bytes\": -"),
                 "files[0]: \"bytes\" is not a non-negative integer");
  EXPECT_INVALID(openWith("\"xxh3\": ", "\"xxh4\": "),
                 "files[0]: \"xxh3\" is not a string");
  std::string entry = std::string("\"name\": \"") + masterFile;
  EXPECT_INVALID(openWith(entry, "\"name\": \"../" + std::string(masterFile)),
                 "is not the name of a file");
  EXPECT_INVALID(openWith(entry, "\"name\": \"another"),
                 "has no entry in \"files\"");
}

// A byte that changed, and a file that was cut, are noticed by their checksum.
TEST_F(CheckpointHostile, DamagedFile) {
  auto reader = CheckpointReader::open(folder.path());
  ASSERT_TRUE(reader.ok());
  ASSERT_OK(reader->verify());
  std::string file = std::string("step-1/") + masterFile;
  std::string content = readFile(folder.path(file));
  content.back() = static_cast<char>(content.back() ^ 1);
  folder.write(file, content);
  EXPECT_INVALID(reader->verify(), masterFile);
  EXPECT_INVALID(reader->verify(), "is damaged");
  // Of two processes one notices.
  EXPECT_NE(reader->verify(0, 2).ok(), reader->verify(1, 2).ok());
}

// A checkpoint of the first version has no checksums and is still read.
TEST_F(CheckpointHostile, OldVersion) {
  size_t begin = sound.find("\"files\""), end = sound.find("\"tensors\"");
  ASSERT_NE(begin, sound.npos);
  sound.erase(begin, end - begin);
  ASSERT_OK(openWith("\"version\": 2", "\"version\": 1"));
  auto reader = CheckpointReader::open(folder.path());
  ASSERT_TRUE(reader.ok());
  ASSERT_OK(reader->verify());
  EXPECT_EQ(reader->state().step, 1u);
}
