//===- train_loop_test.cpp - Runs from data to weights --------------------===//
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/job/ProgressLog.h"
#include "runtime/job/TrainLoop.h"
#include "runtime/task/HostMachine.h"
#include "runtime/weights/HuggingFace.h"
#include "test/runtime/job/JobFixture.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <sys/stat.h>
#include <thread>

namespace ciuic::rt::test {
namespace {

class TrainLoopTest : public JobFixture {
protected:
  TrainOptions options() const {
    TrainOptions options;
    options.makeMachine = HostMachine::create;
    options.bundle = CIUIC_SAMPLE_JOB;
    options.data = {path("text.txt")};
    options.log = path("log.jsonl");
    options.threads = 2;
    options.quiet = true;
    return options;
  }

  TrainResult train(const TrainOptions &options) {
    auto result = runTraining(options);
    if (!result.ok()) {
      ADD_FAILURE() << result.takeStatus().str();
      return {};
    }
    return *result;
  }

  /// The log's records that hold `key`.
  std::vector<Json> records(const std::string &key,
                            const std::string &name = "log.jsonl") const {
    std::vector<Json> all;
    auto text = readTextFile(path(name), 1 << 24);
    EXPECT_TRUE(text.ok());
    for (size_t at = 0; text.ok() && at < text->size();) {
      size_t end = text->find('\n', at);
      auto json = parseJson(text->substr(at, end - at), "log");
      EXPECT_TRUE(json.ok());
      if (json.ok() && json->contains(key))
        all.push_back(*json);
      at = end + 1;
    }
    return all;
  }
};

// A record a step with every field, and the loss falls.
TEST_F(TrainLoopTest, LogsEveryStep) {
  TrainOptions run = options();
  run.steps = 30;
  TrainResult result = train(run);
  EXPECT_EQ(result.steps, 30u);
  auto steps = records("loss");
  ASSERT_EQ(steps.size(), 30u);
  for (const char *key :
       {"step", "epoch", "loss", "lr", "loss_scale", "grad_norm", "skipped",
        "tokens_per_s", "step_ms", "peak_share", "seconds_left"})
    EXPECT_TRUE(steps[7].contains(key)) << key;
  EXPECT_EQ(steps[7]["step"], 8);
  EXPECT_EQ(steps[7]["skipped"], false);
  EXPECT_NEAR(steps[7]["lr"].get<double>(), 0.05, 1e-8);
  EXPECT_LT(steps[29]["loss"].get<double>(),
            0.9 * steps[0]["loss"].get<double>());
}

// A record before the first step and one after the last say what is held for
// tensors: the arenas, and nothing that was allocated in between.
TEST_F(TrainLoopTest, LogsMemory) {
  TrainOptions run = options();
  run.steps = 3;
  train(run);
  auto held = records("tensor_bytes");
  ASSERT_EQ(held.size(), 2u);
  for (const Json &record : held)
    EXPECT_EQ(record["tensor_bytes"].get<uint64_t>(),
              record["ranks"].get<uint64_t>() *
                  (record["device_arena_bytes"].get<uint64_t>() +
                   record["host_arena_bytes"].get<uint64_t>()));
  EXPECT_EQ(held[0]["tensor_allocations"], held[1]["tensor_allocations"]);
  EXPECT_FALSE(held[0].contains("executed"));
  EXPECT_GT(held[1]["executed"]["adam"].get<int>(), 0);
}

// Without --steps a run takes whole epochs.
TEST_F(TrainLoopTest, CountsEpochs) {
  TrainOptions run = options();
  run.epochs = 0.5;
  uint64_t half = train(run).steps;
  run.epochs.reset();
  uint64_t whole = train(run).steps;
  EXPECT_GE(whole, 2 * half - 1);
  EXPECT_LE(whole, 2 * half);
  EXPECT_GT(half, 10u);
}

// Zero epochs, fewer, and what is no number are refused.
TEST_F(TrainLoopTest, RefusesEpochs) {
  TrainOptions run = options();
  for (double epochs : {0.0, -1.0, static_cast<double>(NAN)}) {
    run.epochs = epochs;
    Status status = runTraining(run).takeStatus();
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_NE(status.str().find("expected more than 0"), std::string::npos);
  }
}

// A profile has a line for each task that ran, with its kind, name, runs on
// all ranks and bytes.
TEST_F(TrainLoopTest, WritesAProfile) {
  TrainOptions run = options();
  run.steps = 3;
  run.profile = path("profile.csv");
  train(run);
  auto text = readTextFile(run.profile, 1 << 20);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->find("program,task,kind,name,kernel,stream,runs,mean_us,"
                       "bytes,flops\n"),
            0u);
  // 2 ranks x 3 steps; 8 tokens of 2 rows, 259 x 259 scores, 16 rows of them.
  size_t line = text->find("micro_first,1,embedding,\"logits\",,compute,6,");
  ASSERT_NE(line, std::string::npos) << *text;
  std::string end = ",284964,0\n";
  EXPECT_EQ(
      text->compare(text->find('\n', line) + 1 - end.size(), end.size(), end),
      0)
      << *text;
  EXPECT_EQ(text->find("eval_first"), std::string::npos);
}

// A run of 6 steps, and one of 3 that is resumed: the same losses, and the
// checkpoints that --save-every asks for.
TEST_F(TrainLoopTest, SavesAndResumes) {
  TrainOptions run = options();
  run.steps = 6;
  train(run);
  auto expected = records("loss");
  run.log = path("again.jsonl");
  run.steps = 3;
  run.save = path("checkpoints");
  run.saveEvery = 2;
  train(run);
  struct stat info;
  EXPECT_EQ(stat(path("checkpoints/step-2").c_str(), &info), 0);
  EXPECT_EQ(stat(path("checkpoints/step-3").c_str(), &info), 0);
  run.steps = 6;
  run.resume = path("checkpoints");
  EXPECT_EQ(train(run).steps, 6u);
  auto losses = records("loss", "again.jsonl");
  ASSERT_EQ(losses.size(), 6u);
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(losses[i]["loss"], expected[i]["loss"]) << i;
}

// The held-back share is evaluated at the end and as often as asked.
TEST_F(TrainLoopTest, Validates) {
  TrainOptions run = options();
  run.steps = 5;
  run.validationShare = 0.1;
  run.validateEvery = 2;
  train(run);
  auto evals = records("validation_loss");
  ASSERT_EQ(evals.size(), 3u);
  EXPECT_EQ(evals[2]["step"], 5);
  EXPECT_GT(evals[0]["validation_tokens"].get<double>(), 8);
}

// The exported folder has the model's configuration and weights.
TEST_F(TrainLoopTest, Exports) {
  TrainOptions run = options();
  run.steps = 1;
  run.exportFolder = path("model");
  run.exportDType = DType::BF16;
  train(run);
  auto model = HuggingFaceFolder::open(path("model"));
  ASSERT_TRUE(model.ok()) << model.takeStatus().str();
  ASSERT_NE(model->find("table.weight"), nullptr);
  EXPECT_EQ(model->find("table.weight")->dtype, DType::BF16);
}

// A loss that is not finite ends the run with its own code.
TEST_F(TrainLoopTest, StopsWhereTheLossIsNotFinite) {
  TrainOptions run = options();
  run.bundle = CIUIC_DIVERGING_JOB;
  run.steps = 50;
  auto result = runTraining(run);
  ASSERT_FALSE(result.ok());
  Status status = result.takeStatus();
  EXPECT_EQ(status.code(), Code::Stopped);
  EXPECT_EQ(status.exitCode(), 4);
  EXPECT_NE(status.str().find("not finite"), std::string::npos);
}

/// Both ask a run to end.
class TrainLoopSignalTest : public TrainLoopTest,
                            public testing::WithParamInterface<int> {};

// The run ends after a whole step, which is saved.
TEST_P(TrainLoopSignalTest, Saves) {
  TrainOptions run = options();
  run.steps = 1000000;
  run.save = path("checkpoints");
  std::atomic<bool> over{false};
  std::thread interrupter([&] {
    struct stat info;
    while (!over && (stat(run.log.c_str(), &info) != 0 || info.st_size == 0))
      std::this_thread::yield();
    kill(getpid(), GetParam());
  });
  TrainResult result = train(run);
  over = true;
  interrupter.join();
  EXPECT_TRUE(result.interrupted);
  EXPECT_LT(result.steps, 1000000u);
  struct stat info;
  std::string saved = "checkpoints/step-" + std::to_string(result.steps);
  EXPECT_EQ(stat(path(saved).c_str(), &info), 0) << saved;
}

/// A group of one whose `last` exchange, counted from 1, finds a signal.
class SignallingGroup final : public ProcessGroup {
public:
  SignallingGroup(int last, int signal)
      : alone(makeSingleProcess()), last(last), signal(signal) {}
  uint32_t process() const override { return 0; }
  uint32_t processes() const override { return 1; }
  Status exchange(std::span<const std::span<const std::byte>> send,
                  std::span<const std::span<std::byte>> receive) override {
    if (++exchanges == last)
      raise(signal);
    return alone->exchange(send, receive);
  }
  void abort(const Status &) override {}

  int exchanges = 0;

private:
  std::unique_ptr<ProcessGroup> alone;
  const int last, signal;
};

// A signal after the last step, when the run waits for the other processes to
// have written what they write, takes nothing from it.
TEST_P(TrainLoopSignalTest, HarmsNothingAtTheEnd) {
  TrainOptions run = options();
  run.steps = 3;
  run.save = path("checkpoints");
  // One exchange a step, and the one at the end.
  SignallingGroup group(4, GetParam());
  run.group = &group;
  TrainResult result = train(run);
  EXPECT_EQ(group.exchanges, 4);
  EXPECT_EQ(result.steps, 3u);
  EXPECT_FALSE(result.interrupted);
  struct stat info;
  EXPECT_EQ(stat(path("checkpoints/step-3").c_str(), &info), 0);
}

INSTANTIATE_TEST_SUITE_P(Signals, TrainLoopSignalTest,
                         testing::Values(SIGINT, SIGTERM));

// Two runs do not save into one folder: each would remove the other's files.
TEST_F(TrainLoopTest, RefusesSharedFolder) {
  TrainOptions run = options();
  run.steps = 1;
  run.save = path("checkpoints");
  {
    ASSERT_TRUE(makeFolder(run.save).ok());
    auto lock = FolderLock::take(run.save);
    ASSERT_TRUE(lock.ok());
    Status status = runTraining(run).takeStatus();
    EXPECT_EQ(status.code(), Code::Invalid);
    EXPECT_NE(status.str().find("another run"), std::string::npos);
  }
  EXPECT_EQ(train(run).steps, 1u);
}

// What is missing is named before anything runs.
TEST_F(TrainLoopTest, RefusesMissingInputs) {
  TrainOptions run = options();
  run.data.clear();
  EXPECT_EQ(runTraining(run).takeStatus().exitCode(), 1);
  run = options();
  run.bundle = path("nowhere");
  EXPECT_NE(runTraining(run).takeStatus().str().find("nowhere"),
            std::string::npos);
  run = options();
  run.resume = path("nowhere");
  EXPECT_EQ(runTraining(run).takeStatus().code(), Code::Invalid);
  run = options();
  run.deviceMemory = 1000;
  EXPECT_NE(runTraining(run).takeStatus().str().find("1000"),
            std::string::npos);
}

// Numbers have 9 digits, and what JSON cannot say is null.
TEST(ProgressLogTest, PrintsRecords) {
  StepRecord record;
  record.step = 3;
  record.loss = 1.0 / 3;
  record.gradNorm = INFINITY;
  std::string line = printRecord(record);
  EXPECT_NE(line.find("\"loss\":0.333333333,"), std::string::npos) << line;
  EXPECT_NE(line.find("\"grad_norm\":null"), std::string::npos) << line;
  EXPECT_TRUE(parseJson(line, "record").ok());
}

// A step that overflowed has no norm.
TEST(ProgressLogTest, PrintsNorms) {
  EXPECT_EQ(printNorm(0.25), "0.25");
  EXPECT_EQ(printNorm(-NAN), "-");
  EXPECT_EQ(printNorm(INFINITY), "-");
}

// Times are told in the two units that matter.
TEST(ProgressLogTest, PrintsDurations) {
  EXPECT_EQ(printDuration(41.2), "41s");
  EXPECT_EQ(printDuration(200), "3m20s");
  EXPECT_EQ(printDuration(7500), "2h05m");
  EXPECT_EQ(printDuration(NAN), "?");
}

} // namespace
} // namespace ciuic::rt::test
