//===- processes_test.cpp - One job in several processes ------------------===//
//
// Each "process" is a thread with a group of its own over TCP.
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/tcp/TcpGroup.h"
#include "runtime/job/Job.h"
#include "runtime/task/HostMachine.h"
#include "test/runtime/comm/OwnHost.h"
#include "test/runtime/job/Bigram.h"
#include "test/runtime/job/JobFixture.h"

#include <cmath>
#include <functional>
#include <thread>

namespace ciuic::rt::test {
namespace {

constexpr uint64_t tableSize = bigramVocabulary * bigramVocabulary;

/// A job of one process, with its data.
struct Part {
  Part(const BigramShape &shape, ProcessGroup *group, const std::string &text,
       int threads)
      : tables(shape) {
    JobOptions options{HostMachine::create, {.threads = threads}};
    options.machine.group = group;
    auto made = Job::create(tables.bundle, options);
    if (!made.ok()) {
      status = made.takeStatus();
      return;
    }
    job = std::move(*made);
    status = job->initialize(1);
    TokenDataset::Options data;
    data.sequenceLength = bigramSequence;
    data.vocabularySize = bigramVocabulary;
    auto opened = TokenDataset::open({text}, data);
    EXPECT_TRUE(opened.ok());
    dataset = std::make_unique<TokenDataset>(std::move(*opened));
    loader = *BatchLoader::create(*dataset, Split::Train, job->batchLayout());
  }

  Bigram tables;
  std::unique_ptr<Job> job;
  std::unique_ptr<TokenDataset> dataset;
  std::optional<BatchLoader> loader;
  Status status;
};

/// What a run came to: losses, weights and moments as process 0 sees them.
struct Outcome {
  std::vector<double> losses;
  std::vector<float> weights;
  double evaluation = 0;
  bool operator==(const Outcome &) const = default;
};

Status trainSome(Part &part, Outcome &outcome) {
  for (uint64_t step = 0; step < 4; ++step) {
    CIUIC_TRY(part.job->step(*part.loader, step));
    CIUIC_TRY_ASSIGN(auto loss, part.job->scalar("report.loss"));
    outcome.losses.push_back(loss.value_or(NAN));
  }
  CIUIC_TRY_ASSIGN(EvalResult eval, part.job->evaluate(*part.loader));
  outcome.evaluation = eval.loss;
  return part.job->collectStates([&] {
    outcome.weights.resize(tableSize);
    return part.job->readParameter(0, 0, tableSize, outcome.weights.data());
  });
}

class JobProcessesTest : public JobFixture {
protected:
  using Body = std::function<Status(Part &, ProcessGroup &)>;

  /// Runs `body` in each of `processes`; a failure is told to the others.
  std::vector<Status> runAll(const BigramShape &shape, uint32_t processes,
                             const Body &body, int threads = 1) {
    uint16_t port = freePort();
    std::vector<Status> results(processes);
    std::vector<std::thread> all;
    for (uint32_t p = 0; p < processes; ++p)
      all.emplace_back([&, p] {
        auto group = tcp::joinByTcp({p, processes, ownHost(), port}, {20, 20});
        ASSERT_TRUE(group.ok()) << group.takeStatus().str();
        Part part(shape, group->get(), path("text.txt"), threads);
        results[p] =
            part.status.ok() ? body(part, **group) : std::move(part.status);
        (*group)->abort(results[p]);
      });
    for (std::thread &thread : all)
      thread.join();
    return results;
  }
};

// Losses, weights and an evaluation of any division are those of one process,
// bit for bit, whole states or chunks, with one thread or two.
TEST_F(JobProcessesTest, SameBitsAsOneProcess) {
  for (bool sharded : {false, true})
    for (bool half : {false, true}) {
      BigramShape shape{.ranks = 5,
                        .microBatch = 1,
                        .accumulation = 2,
                        .sharded = sharded,
                        .half = half};
      Part alone(shape, nullptr, path("text.txt"), 2);
      Outcome expected;
      Status status = trainSome(alone, expected);
      ASSERT_TRUE(status.ok()) << status.str();
      for (uint32_t processes : {2u, 3u, 5u}) {
        std::vector<Outcome> outcomes(processes);
        auto results = runAll(
            shape, processes,
            [&](Part &part, ProcessGroup &group) {
              return trainSome(part, outcomes[group.process()]);
            },
            processes == 2 ? 2 : 1);
        for (const Status &result : results)
          EXPECT_TRUE(result.ok()) << result.str();
        EXPECT_EQ(outcomes[0], expected) << processes;
        EXPECT_EQ(outcomes[processes - 1].losses, expected.losses);
        EXPECT_EQ(outcomes[processes - 1].evaluation, expected.evaluation);
      }
    }
}

// A process that fails while the others are in its collectives ends them, with
// its own message and code.
TEST_F(JobProcessesTest, FailureEndsAll) {
  BigramShape shape{.ranks = 4, .microBatch = 1, .sharded = true};
  auto results = runAll(shape, 2, [&](Part &part, ProcessGroup &group) {
    Outcome outcome;
    CIUIC_TRY(trainSome(part, outcome));
    if (group.process() == 1)
      part.tables.bundle.vocabulary = 'n';
    return trainSome(part, outcome);
  });
  EXPECT_EQ(results[1].code(), Code::Invalid);
  EXPECT_NE(results[1].str().find("the vocabulary has 110"), std::string::npos);
  EXPECT_EQ(results[0].code(), Code::Invalid);
  for (const char *says :
       {"process 1 failed: ", "the vocabulary has 110", "running task"})
    EXPECT_NE(results[0].str().find(says), std::string::npos)
        << results[0].str();
}

// A save that fails in process 0 leaves the others to end, not to wait.
TEST_F(JobProcessesTest, FailingCollectorEndsAll) {
  BigramShape shape{.ranks = 2, .microBatch = 1, .sharded = true};
  auto results = runAll(shape, 2, [&](Part &part, ProcessGroup &) {
    return part.job->collectStates([&]() -> Status {
      float value = 0;
      CIUIC_TRY(part.job->readParameter(0, tableSize - 1, tableSize, &value));
      return Status::machine("the disk is full");
    });
  });
  EXPECT_EQ(results[1].code(), Code::Machine);
  EXPECT_NE(results[1].str().find("process 0 failed: the disk is full"),
            std::string::npos)
      << results[1].str();
}

// More processes than ranks are refused.
TEST_F(JobProcessesTest, RefusesTooManyProcesses) {
  BigramShape shape{.ranks = 2, .microBatch = 1};
  auto results =
      runAll(shape, 3, [](Part &, ProcessGroup &) { return Status(); });
  for (const Status &status : results)
    EXPECT_NE(status.str().find("2 ranks, 3 processes"), std::string::npos)
        << status.str();
}

} // namespace
} // namespace ciuic::rt::test
