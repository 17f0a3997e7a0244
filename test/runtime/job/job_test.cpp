//===- job_test.cpp - States and steps of a small job ---------------------===//
#include "runtime/base/HalfFloat.h"
#include "runtime/base/Philox.h"
#include "runtime/job/Job.h"
#include "runtime/job/RotaryTable.h"
#include "runtime/task/HostMachine.h"
#include "runtime/weights/HuggingFace.h"
#include "test/runtime/job/Bigram.h"
#include "test/runtime/job/JobFixture.h"

#include <algorithm>
#include <cmath>

namespace ciuic::rt::test {
namespace {

constexpr uint64_t tableSize = bigramVocabulary * bigramVocabulary;

class JobTest : public JobFixture {
protected:
  /// A started job and its data.
  struct Run {
    std::unique_ptr<Bigram> tables;
    std::unique_ptr<TokenDataset> dataset;
    std::optional<BatchLoader> loader;
    std::unique_ptr<Job> job;
    uint64_t done = 0;

    std::vector<double> steps(int count) {
      std::vector<double> losses;
      for (int i = 0; i < count; ++i) {
        Status status = job->step(*loader, done++);
        EXPECT_TRUE(status.ok()) << status.str();
        losses.push_back(scalar("report.loss"));
      }
      return losses;
    }
    double scalar(std::string_view name) const {
      auto value = job->scalar(name);
      return value.ok() ? value->value_or(NAN) : NAN;
    }
    std::vector<float> weights() const {
      std::vector<float> values(tableSize);
      EXPECT_TRUE(job->readParameter(0, 0, tableSize, values.data()).ok());
      return values;
    }
  };

  Run start(const BigramShape &shape, int threads = 2) {
    Run run;
    run.tables = std::make_unique<Bigram>(shape);
    auto job = Job::create(run.tables->bundle,
                           {HostMachine::create, {.threads = threads}});
    EXPECT_TRUE(job.ok()) << job.takeStatus().str();
    run.job = std::move(*job);
    EXPECT_TRUE(run.job->initialize(1).ok());
    TokenDataset::Options options;
    options.sequenceLength = bigramSequence;
    options.vocabularySize = bigramVocabulary;
    auto dataset = TokenDataset::open({path("text.txt")}, options);
    EXPECT_TRUE(dataset.ok());
    run.dataset = std::make_unique<TokenDataset>(std::move(*dataset));
    auto loader =
        BatchLoader::create(*run.dataset, Split::Train, run.job->batchLayout());
    EXPECT_TRUE(loader.ok());
    run.loader = *loader;
    return run;
  }

  std::string save(Run &run, const std::string &name) {
    CheckpointWriter writer(path(name));
    run.job->addTo(writer);
    RunState state;
    state.step = run.done;
    state.fingerprint = run.job->fingerprint();
    auto scalars = run.job->scalars();
    EXPECT_TRUE(scalars.ok());
    state.scalars = std::move(*scalars);
    auto saved = writer.save(state);
    EXPECT_TRUE(saved.ok()) << saved.takeStatus().str();
    return path(name);
  }

  void resume(Run &run, const std::string &from) {
    auto reader = CheckpointReader::open(from);
    ASSERT_TRUE(reader.ok()) << reader.takeStatus().str();
    Status status = run.job->resume(*reader);
    ASSERT_TRUE(status.ok()) << status.str();
    run.done = reader->state().step;
  }
};

// The loss starts at ln(V) and falls.
TEST_F(JobTest, LossFalls) {
  Run run = start({});
  auto losses = run.steps(40);
  EXPECT_NEAR(losses.front(), std::log(259.0), 0.05);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

// One global batch in any layout: the same losses.
TEST_F(JobTest, LayoutDoesNotMatter) {
  auto expected = start({.microBatch = 4}).steps(10);
  for (BigramShape shape :
       {BigramShape{.ranks = 2, .microBatch = 2},
        BigramShape{.ranks = 2, .microBatch = 2, .sharded = true},
        BigramShape{.ranks = 4, .microBatch = 1, .sharded = true},
        BigramShape{
            .ranks = 2, .microBatch = 1, .accumulation = 2, .sharded = true}}) {
    auto losses = start(shape).steps(10);
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
  }
}

// The same bits with one thread and with two, and in a second run.
TEST_F(JobTest, SameBitsOnAnyThreads) {
  BigramShape shape{.ranks = 2, .microBatch = 2, .sharded = true};
  Run one = start(shape, 1), two = start(shape, 2), again = start(shape, 2);
  EXPECT_EQ(one.steps(5), two.steps(5));
  again.steps(5);
  EXPECT_EQ(one.weights(), two.weights());
  EXPECT_EQ(again.weights(), two.weights());
}

// Parameters start as normal(seed, name, element) whatever the layout, padding
// as zero, and a 16-bit parameter is its master rounded.
TEST_F(JobTest, InitialValues) {
  Run whole = start({}),
      chunks =
          start({.ranks = 4, .microBatch = 1, .sharded = true, .half = true});
  std::vector<float> expected(tableSize);
  fillNormal(1, hashName("table.weight"), 0, tableSize, 0, 0.02,
             expected.data());
  EXPECT_EQ(whole.weights(), expected);
  EXPECT_EQ(chunks.weights(), expected);
  const abi::State &param = chunks.tables->states[0];
  auto chunk = static_cast<uint64_t>(param.view.shape[1]);
  for (uint64_t i = 0; i < 4 * chunk; ++i) {
    auto rank = static_cast<uint32_t>(i / chunk);
    uint16_t stored = 1;
    ASSERT_TRUE(chunks.job->devices()
                    .read(param.view, rank, i % chunk, 1, &stored)
                    .ok());
    ASSERT_EQ(stored, i < tableSize ? bf16FromFloat(expected[i]) : 0) << i;
  }
}

// A run that is saved and resumed continues bit for bit.
TEST_F(JobTest, ResumesBitForBit) {
  BigramShape shape{.ranks = 2, .microBatch = 2, .sharded = true, .half = true};
  Run alone = start(shape), first = start(shape), second = start(shape);
  auto expected = alone.steps(6);
  first.steps(3);
  std::string saved = save(first, "checkpoints");
  resume(second, saved);
  EXPECT_EQ(second.steps(3),
            std::vector<double>(expected.begin() + 3, expected.end()));
  EXPECT_EQ(second.weights(), alone.weights());
  EXPECT_EQ(second.scalar("step"), 6);
}

// A checkpoint of four ranks resumes on one whole copy.
TEST_F(JobTest, ResumesInAnotherLayout) {
  Run four = start({.ranks = 4, .microBatch = 1, .sharded = true});
  four.steps(3);
  std::string saved = save(four, "checkpoints");
  Run one = start({.microBatch = 4});
  resume(one, saved);
  EXPECT_EQ(one.weights(), four.weights());
  auto expected = four.steps(3), losses = one.steps(3);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]);
}

// A fixed loss scale is the job's own; one that was found out is resumed.
TEST_F(JobTest, ResumesDynamicLossScaleOnly) {
  for (bool dynamic : {false, true}) {
    Run saver = start({.lossScale = 64, .dynamicScale = true});
    std::string saved = save(saver, dynamic ? "to-dynamic" : "to-fixed");
    Run run = start({.lossScale = 8, .dynamicScale = dynamic});
    resume(run, saved);
    EXPECT_EQ(run.scalar("loss_scale"), dynamic ? 64 : 8);
  }
}

// Another model's checkpoint is refused.
TEST_F(JobTest, RefusesAnotherModelsCheckpoint) {
  Run run = start({});
  std::string saved = save(run, "checkpoints");
  Run other = start({});
  other.tables->members[0].name = "other.weight";
  auto reader = CheckpointReader::open(saved);
  ASSERT_TRUE(reader.ok());
  Status status = other.job->resume(*reader);
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("other.weight"), std::string::npos)
      << status.str();
}

// An exported folder holds the weights and starts another job from them.
TEST_F(JobTest, ExportsAndLoadsWeights) {
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  run.steps(2);
  Status status = run.job->exportFolder(
      path("model"), "{\"model_type\": \"llama\"}", DType::F32);
  ASSERT_TRUE(status.ok()) << status.str();
  Run other = start({.microBatch = 2, .half = true});
  status = other.job->loadWeights(path("model"));
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(other.weights(), run.weights());
}

// What a checkpoint holds is exported without its states being loaded: by a
// job that has other values, into the same bytes. One of another model is
// refused.
TEST_F(JobTest, ExportsACheckpoint) {
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  run.steps(2);
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::string name(rt::name(dtype));
    ASSERT_TRUE(run.job->exportFolder(path(name), "{}", dtype).ok());
    auto reader = CheckpointReader::open(save(run, name + ".saved"));
    ASSERT_TRUE(reader.ok()) << reader.takeStatus().str();
    Run other = start({.microBatch = 2});
    auto before = other.weights();
    Status status = other.job->exportCheckpoint(*reader, path(name + ".again"),
                                                "{}", dtype, 5000000000);
    ASSERT_TRUE(status.ok()) << status.str();
    for (const char *file : {"/model.safetensors", "/config.json"}) {
      auto expected = MappedFile::open(path(name) + file);
      auto found = MappedFile::open(path(name + ".again") + file);
      ASSERT_TRUE(expected.ok() && found.ok()) << file;
      EXPECT_TRUE(std::ranges::equal(expected->bytes(), found->bytes()));
    }
    EXPECT_EQ(other.weights(), before);
    other.tables->members[0].shape[0] = 258;
    EXPECT_EQ(
        other.job
            ->exportCheckpoint(*reader, path("none"), "{}", dtype, 5000000000)
            .code(),
        Code::Invalid);
  }
}

// A folder without the parameter, or with another shape, is refused.
TEST_F(JobTest, RefusesWrongWeights) {
  Run run = start({});
  ASSERT_TRUE(run.job->exportFolder(path("model"), "{}", DType::F16).ok());
  run.tables->members[0].shape[0] = 258;
  Status status = run.job->loadWeights(path("model"));
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find("[258, 259]"), std::string::npos) << status.str();
  EXPECT_EQ(run.job->loadWeights(path("nowhere")).code(), Code::Invalid);
}

// Evaluation gives the mean over labelled tokens and trains nothing.
TEST_F(JobTest, Evaluates) {
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  auto before = run.weights();
  auto result = run.job->evaluate(*run.loader);
  ASSERT_TRUE(result.ok()) << result.takeStatus().str();
  EXPECT_NEAR(result->loss, std::log(259.0), 0.05);
  EXPECT_EQ(result->tokens, static_cast<double>(run.dataset->tokenCount() - 1));
  EXPECT_EQ(run.weights(), before);
}

// No tensor memory comes or goes between two steps, and what is held are the
// arenas.
TEST_F(JobTest, AllocatesArenasOnly) {
  uint64_t before = tensorMemory().bytes;
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  EXPECT_EQ(tensorMemory().bytes - before,
            2 * run.tables->bundle.arenaBytes[0]);
  uint64_t made = tensorMemory().allocations;
  run.steps(3);
  EXPECT_EQ(tensorMemory().allocations, made);
}

// A token or label that the vocabulary has not is refused before any device
// sees it, with its place and value.
TEST_F(JobTest, RefusesTokensOutsideTheVocabulary) {
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  run.tables->bundle.vocabulary = 'n';
  Status status = run.job->step(*run.loader, 0);
  EXPECT_EQ(status.code(), Code::Invalid);
  // The first text begins with 't': token 1 of row 0, after the mark.
  EXPECT_NE(status.str().find("of row 0 is"), std::string::npos)
      << status.str();
  EXPECT_NE(status.str().find("the vocabulary has 110"), std::string::npos);
  EXPECT_NE(status.str().find("micro-step 0 of rank 0"), std::string::npos);
  EXPECT_EQ(run.job->devices().executed(abi::TaskKind::Embedding), 0u);
}

// What a device cannot reach is refused: another's rank, elements after the
// end.
TEST_F(JobTest, RefusesElementsOutsideOfAView) {
  Run run = start({.ranks = 2, .microBatch = 2, .sharded = true});
  const abi::View &view = run.tables->states[0].view;
  float value = 0;
  Machine &machine = run.job->devices();
  EXPECT_EQ(machine.read(view, 2, 0, 1, &value).code(), Code::Invalid);
  auto end = static_cast<uint64_t>(view.shape[1]);
  EXPECT_EQ(machine.read(view, 0, end, 1, &value).code(), Code::Invalid);
  EXPECT_EQ(machine.write(view, 0, end - 1, UINT64_MAX, &value).code(),
            Code::Invalid);
  EXPECT_TRUE(machine.read(view, 0, end - 1, 1, &value).ok());
}

// A bundle for an instruction set that this processor has not is refused.
TEST_F(JobTest, RefusesAnotherMachine) {
  Bigram tables({});
  tables.bundle.isa = "aarch64-sve";
  auto job = Job::create(tables.bundle, {HostMachine::create});
  ASSERT_FALSE(job.ok());
  EXPECT_NE(job.takeStatus().str().find("aarch64-sve"), std::string::npos);
}

// A folder without a library is refused with its path.
TEST_F(JobTest, RefusesMissingLibrary) {
  auto job = Job::load(folder, {HostMachine::create});
  ASSERT_FALSE(job.ok());
  Status status = job.takeStatus();
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find(folder + "/lib/libjob.so"), std::string::npos);
}

/// The sum of a table's elements.
double rotarySum(const abi::Init &init, uint64_t rows) {
  auto columns = static_cast<uint64_t>(init.ints[1]) / 2;
  std::vector<float> values(rows * columns);
  EXPECT_TRUE(fillRotary(init, columns, 0, values.size(), values.data()).ok());
  double sum = 0;
  for (float value : values)
    sum += value;
  return sum;
}

// The published checksum of Llama 3.1's scaled tables (128 features, 4096
// positions, base 10000): both halves of a head share a column here.
TEST(RotaryTableTest, Llama3Checksum) {
  abi::Init cosine{abi::InitKind::Rope, {10000, 8, 1, 4, 8192}, {0, 128, 2}};
  abi::Init sine = cosine;
  sine.ints[0] = 1;
  EXPECT_NEAR(rotarySum(cosine, 4096) + rotarySum(sine, 4096), 91141.76, 0.1);
}

// Linear scaling divides the frequency; a piece of a table is the same piece
// of the whole.
TEST(RotaryTableTest, LinearScalingAndPieces) {
  abi::Init init{abi::InitKind::Rope, {10000, 4, 1, 4, 8192}, {1, 8, 1}};
  std::vector<float> all(40), piece(7);
  ASSERT_TRUE(fillRotary(init, 4, 0, 40, all.data()).ok());
  ASSERT_TRUE(fillRotary(init, 4, 13, 20, piece.data()).ok());
  EXPECT_EQ(std::vector<float>(all.begin() + 13, all.begin() + 20), piece);
  EXPECT_FLOAT_EQ(all[4], std::sin(0.25f));
  EXPECT_EQ(fillRotary(init, 5, 0, 5, all.data()).code(), Code::Invalid);
}

} // namespace
} // namespace ciuic::rt::test
