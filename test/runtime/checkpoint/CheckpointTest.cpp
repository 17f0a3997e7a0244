//===- CheckpointTest.cpp -------------------------------------------------===//
#include "runtime/checkpoint/Checkpoint.h"
#include "test/runtime/TestFiles.h"
#include "test/runtime/checkpoint/Sources.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include <sys/stat.h>

using namespace ciuic::rt;
using namespace ciuic::rt::test;

namespace fs = std::filesystem;

// Counters, scalars and tensors come back, to the last bit.
TEST(Checkpoint, RoundTrip) {
  TemporaryFolder folder;
  RunState state = sampleState(12);
  state.seed = UINT64_MAX;
  state.scalars = {{"loss_scale", 65536},
                   {"learning_rate", 0.1},
                   {"least", 5e-324},
                   {"best_loss", std::numeric_limits<double>::infinity()},
                   {"negative_zero", -0.0},
                   {"last_loss", std::nan("")}};
  CheckpointWriter writer = sampleWriter(folder.path("runs/save"));
  ASSERT_ASSIGN(std::string path, writer.save(state));
  EXPECT_EQ(path, folder.path("runs/save/step-12"));

  for (const std::string &from : {path, folder.path("runs/save")}) {
    ASSERT_ASSIGN(CheckpointReader reader, CheckpointReader::open(from));
    EXPECT_EQ(reader.folder(), path);
    const RunState &found = reader.state();
    EXPECT_EQ(found.step, 12u);
    EXPECT_EQ(found.appliedSteps, state.appliedSteps);
    EXPECT_EQ(found.skippedSteps, state.skippedSteps);
    EXPECT_EQ(found.dataStep, state.dataStep);
    EXPECT_EQ(found.epoch, state.epoch);
    EXPECT_EQ(found.seed, UINT64_MAX);
    EXPECT_EQ(found.fingerprint, state.fingerprint);
    ASSERT_EQ(found.scalars.size(), state.scalars.size());
    for (const auto &[name, value] : state.scalars) {
      double read = found.scalars.at(name);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(read));
      else
        EXPECT_EQ(std::bit_cast<uint64_t>(read), std::bit_cast<uint64_t>(value))
            << name;
    }
    EXPECT_OK(reader.check(sampleExpected(), state.fingerprint));
    std::vector<float> out(6);
    ASSERT_OK(reader.read({"moment1", "b"}, 0, 6, DType::F32, out.data()));
    EXPECT_EQ(out, (std::vector<float>{100, 101, 102, 103, 104, 105}));
  }
}

// Written by eight owners of shards, read by three: ranges need not match.
TEST(Checkpoint, ReshardsElementRanges) {
  TemporaryFolder folder;
  constexpr uint64_t n = 1000, ranks = 8, chunk = n / ranks;
  std::vector<std::vector<float>> shards(ranks, std::vector<float>(chunk));
  for (uint64_t i = 0; i < n; ++i)
    shards[i / chunk][i % chunk] = static_cast<float>(i) * 0.37f;
  TensorSource source;
  source.name = "w";
  source.shape = {n};
  source.fill = [&](uint64_t begin, uint64_t end, void *out) -> Status {
    for (uint64_t i = begin; i < end; ++i)
      static_cast<float *>(out)[i - begin] = shards[i / chunk][i % chunk];
    return {};
  };
  CheckpointWriter writer(folder.path());
  writer.add("master", source);
  ASSERT_OK(writer.save(sampleState(1)));
  ASSERT_ASSIGN(CheckpointReader reader, CheckpointReader::open(folder.path()));
  for (uint64_t rank = 0; rank < 3; ++rank) {
    uint64_t begin = rank * 334, end = std::min(n, begin + 334);
    std::vector<float> out(end - begin);
    ASSERT_OK(reader.read({"master", "w"}, begin, end, DType::F32, out.data()));
    for (uint64_t i = begin; i < end; ++i)
      EXPECT_EQ(out[i - begin], static_cast<float>(i) * 0.37f);
  }
}

// Roles have files of their own, several where one would be too large.
TEST(Checkpoint, SplitsFiles) {
  TemporaryFolder folder;
  CheckpointWriter writer = sampleWriter(folder.path(), /*maxShardBytes=*/24);
  ASSERT_ASSIGN(std::string path, writer.save(sampleState(1)));
  EXPECT_EQ(folder.names("step-1"),
            (std::set<std::string>{"master-00001-of-00002.safetensors",
                                   "master-00002-of-00002.safetensors",
                                   "moment1-00001-of-00001.safetensors",
                                   "state.json"}));
  ASSERT_ASSIGN(CheckpointReader reader, CheckpointReader::open(path));
  EXPECT_OK(reader.check(sampleExpected(), ""));
}

// `latest` follows the newest save; older checkpoints stay; saving a step
// again replaces it.
TEST(Checkpoint, Latest) {
  TemporaryFolder folder;
  CheckpointWriter writer = sampleWriter(folder.path());
  for (uint64_t step : {5, 10, 10})
    ASSERT_OK(writer.save(sampleState(step)));
  EXPECT_EQ(folder.names(),
            (std::set<std::string>{"latest", "step-10", "step-5"}));
  EXPECT_EQ(readFile(folder.path("latest")), "step-10\n");
  ASSERT_ASSIGN(CheckpointReader newest, CheckpointReader::open(folder.path()));
  EXPECT_EQ(newest.state().step, 10u);
  ASSERT_ASSIGN(CheckpointReader older,
                CheckpointReader::open(folder.path("step-5")));
  EXPECT_EQ(older.state().step, 5u);
}

// A tensor that cannot be collected: the earlier checkpoint stays whole and
// nothing of the new one is left, even when it would replace the same step.
TEST(Checkpoint, FailedSaveChangesNothing) {
  TemporaryFolder folder;
  ASSERT_OK(sampleWriter(folder.path()).save(sampleState(5)));
  std::string before = readFile(folder.path("step-5/state.json"));
  for (uint64_t step : {5, 6}) {
    CheckpointWriter writer = sampleWriter(folder.path());
    TensorSource broken = rampSource("c", {4}, 0);
    broken.fill = [](uint64_t, uint64_t, void *) {
      return Status::machine("device 3 is lost");
    };
    writer.add("master", broken);
    Status status = statusOf(writer.save(sampleState(step)));
    EXPECT_EQ(status.code(), Code::Machine);
    EXPECT_NE(status.str().find("device 3 is lost"), std::string::npos);
    EXPECT_NE(status.str().find("saving the checkpoint"), std::string::npos);
    EXPECT_EQ(folder.names(), (std::set<std::string>{"latest", "step-5"}));
    EXPECT_EQ(readFile(folder.path("step-5/state.json")), before);
    EXPECT_EQ(readFile(folder.path("latest")), "step-5\n");
  }
}

// What a killed run left is cleared away; were it a link, its target stays.
TEST(Checkpoint, ClearsLeftovers) {
  TemporaryFolder folder;
  folder.write("save/.saving/master-00001-of-00001.safetensors", "half");
  ASSERT_OK(sampleWriter(folder.path("save")).save(sampleState(1)));
  EXPECT_EQ(folder.names("save"), (std::set<std::string>{"latest", "step-1"}));

  folder.write("precious/file", "x");
  fs::create_directory_symlink(folder.path("precious"),
                               folder.path("save/.saving"));
  ASSERT_OK(sampleWriter(folder.path("save")).save(sampleState(2)));
  EXPECT_EQ(folder.names("precious"), std::set<std::string>{"file"});
  EXPECT_EQ(folder.names("save"),
            (std::set<std::string>{"latest", "step-1", "step-2"}));
}

// A place that cannot be written to: the machine's error, with its name.
TEST(Checkpoint, UnwritableRoot) {
  TemporaryFolder folder;
  std::string file = folder.write("file", "precious");
  for (const std::string &root : {file, file + "/below"}) {
    auto saved = sampleWriter(root).save(sampleState(1));
    ASSERT_FALSE(saved.ok());
    Status status = saved.takeStatus();
    EXPECT_EQ(status.code(), Code::Machine);
    EXPECT_NE(status.str().find(root), std::string::npos) << status.str();
  }
  EXPECT_EQ(readFile(file), "precious");
}

// Names of roles become names of files.
TEST(Checkpoint, RefusesRoles) {
  TemporaryFolder folder;
  for (const char *role : {"", "../master", "Master", "a b"}) {
    CheckpointWriter writer(folder.path());
    writer.add(role, rampSource("a", {1}, 0));
    EXPECT_INVALID(writer.save(sampleState(1)), "is not a role");
  }
  CheckpointWriter writer(folder.path());
  writer.add("master", rampSource("a", {1}, 0));
  writer.add("master", rampSource("a", {1}, 0));
  EXPECT_INVALID(writer.save(sampleState(1)), "tensor \"a\" is given twice");
  EXPECT_TRUE(folder.names().empty());
}

// A job that differs: each difference is named.
TEST(Checkpoint, NamesDifferences) {
  TemporaryFolder folder;
  ASSERT_OK(sampleWriter(folder.path()).save(sampleState(1)));
  ASSERT_ASSIGN(CheckpointReader reader, CheckpointReader::open(folder.path()));
  std::vector<ExpectedTensor> expected = sampleExpected();
  expected[0].shape = {3, 2};
  expected[2].key.name = "d";
  Status status = reader.check(expected, "other model");
  EXPECT_EQ(status.code(), Code::Invalid);
  for (const char *text :
       {"master of \"a\" has shape [2, 3], expected [3, 2]",
        "missing: moment1 of \"d\"", "extra: moment1 of \"b\""})
    EXPECT_NE(status.str().find(text), std::string::npos)
        << text << " is not in: " << status.str();
  EXPECT_INVALID(reader.check(sampleExpected(), "other model"),
                 "was made for model \"a model\", this is \"other model\"");
  float out;
  EXPECT_INVALID(reader.read({"moment2", "a"}, 0, 1, DType::F32, &out),
                 "holds no moment2 of tensor \"a\"");
}
