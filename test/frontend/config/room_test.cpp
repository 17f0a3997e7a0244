//===- room_test.cpp - Ways to make room, as text and resolved ------------===//

#include "test/frontend/config/Resolve.h"

using namespace ciuic;
using namespace ciuic::config;

namespace {

RecomputeSpec read(const std::string &text) {
  rt::Result<RecomputeSpec> spec = parseRecompute(text);
  if (spec.ok())
    return *spec;
  ADD_FAILURE() << text << " is refused: " << spec.takeStatus().str();
  return {};
}

// Each form names how many first blocks are whole, and how many next per op.
TEST(Room, RecomputeReadsEveryForm) {
  EXPECT_EQ(read("none"), (RecomputeSpec{0, 0}));
  EXPECT_EQ(read("block"), (RecomputeSpec{kAllBlocks, 0}));
  EXPECT_EQ(read("selective"), (RecomputeSpec{0, kAllBlocks}));
  EXPECT_EQ(read("block:3"), (RecomputeSpec{3, 0}));
  EXPECT_EQ(read("selective:0"), (RecomputeSpec{0, 0}));
  EXPECT_EQ(read("block:3,selective"), (RecomputeSpec{3, kAllBlocks}));
  EXPECT_EQ(read("block:0,selective:12"), (RecomputeSpec{0, 12}));
}

// What is printed reads as the same choice, in its shortest form.
TEST(Room, RecomputePrintsWhatItReads) {
  for (const char *text :
       {"none", "block", "selective", "block:3", "selective:2",
        "block:3,selective", "block:3,selective:1"})
    EXPECT_EQ(printRecompute(read(text)), text);
  EXPECT_EQ(printRecompute(read("block:0,selective:2")), "selective:2");
  EXPECT_EQ(printRecompute(read("block:2,selective:0")), "block:2");
  EXPECT_EQ(printRecompute(read("block:0")), "none");
}

// Anything else is refused, with what was found and expected.
TEST(Room, RecomputeRefusesOtherTexts) {
  for (const char *text :
       {"", "all", "blocks", "block:", "block:-1", "block:+1", "block:1.5",
        "block: 1", "block:1000001", "block:99999999999999999999", "none:1",
        "selective,block", "block,selective", "block:1,", "block:1,block:1",
        "block:1,selective:1,selective:1", "Block"}) {
    rt::Result<RecomputeSpec> spec = parseRecompute(text);
    ASSERT_FALSE(spec.ok()) << text;
    std::string message = spec.takeStatus().str();
    EXPECT_TRUE(has(message, "found \"" + std::string(text) + "\""));
    EXPECT_TRUE(has(message, "expected none, block, selective"));
  }
}

// A number of blocks is none, all or itself.
TEST(Room, BlocksReadAndPrint) {
  for (const char *text : {"none", "all", "1", "976"})
    EXPECT_EQ(printBlocks(*parseBlocks(text)), text);
  EXPECT_EQ(*parseBlocks("0"), 0);
  for (const char *text : {"", "-1", "some", "1,", "1000001", "all:1"})
    EXPECT_TRUE(has(parseBlocks(text).takeStatus().str(), "expected none"));
}

// Without a word nothing is recomputed, kept or sent away.
TEST(Room, NothingIsChosenByDefault) {
  ResolvedConfig config = accepted(job("\"fp16\": {}"));
  EXPECT_FALSE(config.job.room.recompute.any());
  EXPECT_EQ(config.job.room.keepGathered, 1);
  EXPECT_EQ(config.job.room.offloadActivations, 0);
}

// What the command line says is the job's, and has a row that says so.
TEST(Room, CommandLineChooses) {
  Overrides overrides;
  overrides.recompute = RecomputeSpec{2, kAllBlocks};
  overrides.keepGathered = kAllBlocks;
  overrides.offloadActivations = 3;
  ResolvedConfig config = accepted(job("\"fp16\": {}"), overrides);
  EXPECT_EQ(config.job.room.recompute, (RecomputeSpec{2, kAllBlocks}));
  EXPECT_EQ(config.job.room.keepGathered, kAllBlocks);
  EXPECT_EQ(config.job.room.offloadActivations, 3);
  EXPECT_EQ(row(config, "recompute").value, "block:2,selective");
  EXPECT_EQ(row(config, "recompute").origin, "--recompute");
  EXPECT_EQ(row(config, "keep-gathered").value, "all");
  EXPECT_EQ(row(config, "offload-activations").value, "3");
}

// The ratio on the command line fills the file's, at any stage.
TEST(Room, RatioFillsTheFile) {
  Overrides overrides;
  overrides.offloadRatio = 0.3;
  ResolvedConfig config = accepted(
      job("\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": "
          "{\"device\": \"cpu\"}}"),
      overrides);
  EXPECT_EQ(config.job.zero.offloadOptimizer.ratio, 0.3);
}

// It does not contradict the file, and is nothing without an offload.
TEST(Room, RatioIsRefusedWhereItDoesNothing) {
  Overrides overrides;
  overrides.offloadRatio = 0.3;
  EXPECT_TRUE(
      has(refused(job("\"zero_optimization\": {\"stage\": 3, "
                      "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": "
                      "0.5}}"),
                  overrides),
          "the file says 0.5, the command line says --offload-ratio 0.3"));
  EXPECT_TRUE(
      has(refused(job("\"zero_optimization\": {\"stage\": 3}"), overrides),
          "where optimizer states are not offloaded"));
}

} // namespace
