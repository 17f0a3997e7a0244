//===- print_test.cpp - The table of resolved keys ------------------------===//

#include "test/frontend/config/Resolve.h"

#include <sstream>

using namespace ciuic;
using namespace ciuic::config;

namespace {

// Every row says the value, where it came from and what it does.
TEST(Print, RowsSayWhereValuesComeFrom) {
  Overrides overrides = devices(2);
  overrides.lr = 3e-4;
  overrides.hiddenSize = 64;
  ResolvedConfig config = accepted(R"({
  "train_batch_size": 32,
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}
})",
                                   overrides);
  ResolvedKey stage = row(config, "zero_optimization.stage");
  EXPECT_EQ(stage.value, "2");
  EXPECT_EQ(stage.source, Source::File);
  EXPECT_EQ(stage.line, 4u);
  EXPECT_EQ(stage.origin, "line 4");
  EXPECT_FALSE(stage.what.empty());

  ResolvedKey lr = row(config, "optimizer.params.lr");
  EXPECT_EQ(lr.value, "0.0003");
  EXPECT_EQ(lr.source, Source::CommandLine);
  EXPECT_EQ(lr.origin, "--lr");

  ResolvedKey bucket = row(config, "zero_optimization.reduce_bucket_size");
  EXPECT_EQ(bucket.value, "4096");
  EXPECT_EQ(bucket.source, Source::Model);
  EXPECT_TRUE(has(bucket.origin, "hidden size 64"));

  ResolvedKey micro = row(config, "train_micro_batch_size_per_gpu");
  EXPECT_EQ(micro.value, "16");
  EXPECT_EQ(micro.source, Source::Inferred);
  EXPECT_EQ(micro.origin, "32 / 2 devices");

  ResolvedKey clip = row(config, "gradient_clipping");
  EXPECT_EQ(clip.source, Source::Default);
  EXPECT_EQ(clip.origin, "default");
}

// Every row has a sentence, whatever the file holds.
TEST(Print, EveryRowIsExplained) {
  ResolvedConfig config = accepted(job(
      R"("fp16": {"enabled": true, "auto_cast": false}, "scheduler": {"type":
      "WarmupDecayLR", "params": {"total_num_steps": 5000}},
      "zero_optimization": {"stage": 3, "sub_group_size": 1e9,
      "offload_optimizer": {"device": "cpu", "buffer_count": 4}},
      "wall_clock_breakdown": true, "steps_per_print": 10)"));
  EXPECT_GT(config.keys.size(), 30u);
  for (const ResolvedKey &row : config.keys)
    EXPECT_FALSE(row.what.empty()) << row.key;
}

// No key has two rows.
TEST(Print, RowsAreUnique) {
  ResolvedConfig config = accepted(
      job("\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": "
          "3, \"max_live_parameters\": 5, \"prefetch_bucket_size\": 9}"));
  for (const ResolvedKey &one : config.keys) {
    int count = 0;
    for (const ResolvedKey &other : config.keys)
      count += one.key == other.key;
    EXPECT_EQ(count, 1) << one.key;
  }
}

// The table: columns under their heads, then warnings and notes.
TEST(Print, PrintsATable) {
  ResolvedConfig config =
      accepted(job("\"memory_breakdown\": true, \"wall_clock_breakdown\": "
                   "true"));
  std::string table = printResolved(config);
  std::istringstream text(table);
  std::string line;
  std::getline(text, line);
  size_t value = line.find("value"), from = line.find("from"),
         what = line.find("what it does");
  ASSERT_NE(what, std::string::npos) << line;
  bool found = false;
  while (std::getline(text, line)) {
    if (line.rfind("wall_clock_breakdown", 0) != 0)
      continue;
    found = true;
    EXPECT_EQ(line.substr(value, 4), "true");
    EXPECT_EQ(line.substr(from, 6), "line 1");
    EXPECT_EQ(line.substr(what, 6), "prints");
  }
  EXPECT_TRUE(found) << table;
  // What has no effect comes last.
  EXPECT_GT(table.find("memory_breakdown"), table.find("wall_clock_breakdown"));
  EXPECT_TRUE(has(table, "[not acted on] prints memory in use"));
  EXPECT_TRUE(has(table, "\nwarning: ds.json:1:25: memory_breakdown: "));
  EXPECT_TRUE(has(table, "\nnote: optimizer: "));
}

// A long value is cut, not allowed to push the columns apart.
TEST(Print, CutsLongValues) {
  std::string modules;
  for (int i = 0; i < 100; ++i)
    modules += "\"layer\", ";
  std::string table = printResolved(
      accepted(job("\"compression_training\": {\"m\": [" + modules + "]}")));
  std::istringstream text(table);
  for (std::string line; std::getline(text, line);)
    if (line.rfind("warning: ", 0) != 0 && line.rfind("note: ", 0) != 0)
      EXPECT_LT(line.size(), 280u) << line;
}

} // namespace
