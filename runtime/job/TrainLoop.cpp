//===- TrainLoop.cpp - Training a compiled job from data to weights -------===//
#include "runtime/job/TrainLoop.h"

#include "runtime/base/File.h"
#include "runtime/base/Quote.h"
#include "runtime/job/Fingerprint.h"
#include "runtime/job/Job.h"
#include "runtime/job/PhaseMemory.h"
#include "runtime/job/Profile.h"
#include "runtime/job/ProgressLog.h"
#include "runtime/weights/HuggingFace.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fmt/format.h>

namespace ciuic::rt {
namespace {

using Clock = std::chrono::steady_clock;

/// Skipped steps in a row whose loss is not finite before a run gives up.
constexpr uint64_t mostNotFinite = 20;

/// Among a checkpoint's scalars: sequences of one step.
constexpr const char *batchKey = "data.sequences_per_step";

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// While it lives the first SIGINT and the first SIGTERM (what batch systems
/// send before they kill) only set a flag; a second one acts as before, for a
/// run that hangs.
class InterruptGuard {
public:
  InterruptGuard() {
    interrupted.store(false);
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, &interruptBefore);
    sigaction(SIGTERM, &action, &terminateBefore);
  }
  ~InterruptGuard() {
    sigaction(SIGINT, &interruptBefore, nullptr);
    sigaction(SIGTERM, &terminateBefore, nullptr);
  }
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  bool wasInterrupted() const { return interrupted.load(); }

private:
  static inline std::atomic<bool> interrupted{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
  struct sigaction interruptBefore{};
  struct sigaction terminateBefore{};
};

class Trainer {
public:
  explicit Trainer(const TrainOptions &options)
      : options(options), alone(options.group ? nullptr : makeSingleProcess()),
        group(options.group ? *options.group : *alone) {}

  Result<TrainResult> run() {
    Status status = runAll();
    if (status.ok())
      return result;
    // Nobody waits for this process then.
    group.abort(status);
    return status;
  }

private:
  Status runAll() {
    CIUIC_TRY(open());
    CIUIC_TRY(begin());
    CIUIC_TRY(agree());
    CIUIC_TRY(loop());
    CIUIC_TRY(finish());
    // A failure to write the end of the run is one of all.
    return group.barrier();
  }
  /// A log that cannot be written, on a full disk say, ends the run, but not
  /// before what was trained is saved.
  void keepLogFailure(Status status) {
    if (logFailure.ok())
      logFailure = std::move(status);
  }
  bool isFirst() const { return group.process() == 0; }

  Status open();
  Status begin();
  Status agree();
  Status shareInterrupt(bool here);
  Status loop();
  Status finish();
  Status step();
  Status tell(double seconds);
  Status save();
  Status validate();
  double rateOfPeak() const;
  /// A scalar of the last step, or what stands for it where the job has none.
  Result<double> scalar(std::string_view name, double otherwise) const {
    CIUIC_TRY_ASSIGN(std::optional<double> value, job->scalar(name));
    return value.value_or(otherwise);
  }
  MemoryRecord memoryRecord() const;

  const TrainOptions &options;
  const std::unique_ptr<ProcessGroup> alone;
  ProcessGroup &group;
  PhaseMemory memory;
  std::unique_ptr<Job> job;
  std::optional<TokenDataset> dataset;
  std::optional<BatchLoader> loader, validation;
  std::unique_ptr<ProgressLog> log;
  Status logFailure;
  std::optional<InterruptGuard> guard;
  std::optional<FolderLock> saveLock;
  std::string configJson;
  uint64_t steps = 0; ///< The number of the last step.
  uint64_t done = 0, skipped = 0, savedAt = 0;
  std::optional<uint64_t> validatedAt;
  bool skipping = false;  ///< The last step was skipped.
  uint64_t notFinite = 0; ///< Losses in a row.
  uint64_t untold = 0;    ///< Steps since the last breakdown.
  double peak = 0;
  double meanStep = 0; ///< Seconds, for the time left.
  TrainResult result;
};

Status Trainer::open() {
  if (options.data.empty())
    return Status::invalid("no data: name text files, folders or token files");
  if (!(options.validationShare >= 0 && options.validationShare < 1))
    return Status::invalid("the validation share is " +
                           std::to_string(options.validationShare) +
                           ", expected 0 or more and less than 1");
  MachineOptions machine;
  machine.threads = options.threads;
  machine.timing = options.wallClockBreakdown;
  machine.deviceMemory = options.deviceMemory;
  machine.profile = !options.profile.empty();
  machine.collectiveTimeout = options.collectiveTimeout;
  machine.cuda = options.cuda;
  machine.disk = options.disk;
  machine.folder = options.bundle;
  machine.group = &group;
  CIUIC_TRY_ASSIGN(job, Job::load(options.bundle,
                                  {options.makeMachine, std::move(machine)}));
  const abi::Bundle &bundle = job->bundle();
  // What an export needs is read first: not after hours of training.
  if (!options.exportFolder.empty() && isFirst()) {
    CIUIC_TRY_ASSIGN(configJson,
                     readTextFile(options.bundle + "/config.json", 16 << 20));
    CIUIC_TRY(checkExportFolder(options.exportFolder));
  }
  TokenDataset::Options dataOptions;
  dataOptions.sequenceLength = bundle.sequence;
  dataOptions.vocabularySize = bundle.vocabulary;
  dataOptions.seed = options.seed;
  dataOptions.shuffle = options.shuffle;
  dataOptions.validationShare = options.validationShare;
  CIUIC_TRY_ASSIGN(dataset, TokenDataset::open(options.data, dataOptions));
  CIUIC_TRY_ASSIGN(
      loader, BatchLoader::create(*dataset, Split::Train, job->batchLayout()));
  if (options.validationShare > 0) {
    BatchLayout layout = job->batchLayout();
    layout.accumulation = 1;
    CIUIC_TRY_ASSIGN(validation,
                     BatchLoader::create(*dataset, Split::Validation, layout));
    if (!job->devices().has("eval_first"))
      return Status::invalid("the compiled job has no evaluation step");
  }
  if (options.epochs && !(*options.epochs > 0))
    return Status::invalid("the epochs are " + std::to_string(*options.epochs) +
                           ", expected more than 0");
  if (options.steps)
    steps = *options.steps;
  else if (double wanted =
               std::ceil(options.epochs.value_or(1.0) *
                         static_cast<double>(loader->stepsPerEpoch()));
           wanted < 0x1p53)
    steps = static_cast<uint64_t>(wanted);
  else
    return Status::invalid("the epochs are " + std::to_string(wanted) +
                           " steps, expected fewer than 2^53");
  // So does a folder that cannot be made. Two runs that save into one would
  // remove each other's files.
  if (!options.save.empty() && isFirst()) {
    CIUIC_TRY(makeFolder(options.save));
    CIUIC_TRY_ASSIGN(saveLock, FolderLock::take(options.save));
  }
  CIUIC_TRY_ASSIGN(log, ProgressLog::open(isFirst() ? options.log : "",
                                          !options.resume.empty(),
                                          options.quiet || !isFirst()));
  std::string warning = dataset->counts().warning();
  if (!warning.empty())
    log->note("warning: " + warning);
  return {};
}

Status Trainer::begin() {
  CIUIC_TRY(job->initialize(options.seed));
  if (!options.resume.empty()) {
    memory.end(RunPhase::Start);
    CIUIC_TRY_ASSIGN(CheckpointReader reader,
                     CheckpointReader::open(options.resume));
    CIUIC_TRY(job->resume(reader).during(
        [&] { return "resuming from " + reader.folder(); }));
    const RunState &state = reader.state();
    if (state.seed != options.seed)
      log->note(fmt::format("warning: the run was started with seed {}, the "
                            "data is now drawn with {}",
                            state.seed, options.seed));
    // The place in the data is a number of batches.
    auto batch = state.scalars.find(batchKey);
    if (batch != state.scalars.end() &&
        batch->second != static_cast<double>(loader->sequencesPerStep()))
      log->note(fmt::format("warning: the run was saved with {:g} sequences a "
                            "step, now there are {}: the data does not go on "
                            "where it was",
                            batch->second, loader->sequencesPerStep()));
    done = state.step;
    skipped = state.skippedSteps;
    savedAt = done;
    log->note(
        fmt::format("resumed after step {} from {}", done, reader.folder()));
    memory.end(RunPhase::Resume);
  } else if (!options.weights.empty()) {
    CIUIC_TRY(job->loadWeights(options.weights));
  }
  const abi::Bundle &bundle = job->bundle();
  abi::DType compute = abi::DType::F32;
  for (uint32_t i = 0; i < bundle.stateCount; ++i)
    if (bundle.states[i].role == abi::Role::Parameter &&
        bundle.states[i].bucket >= 0)
      compute = bundle.states[i].view.dtype;
  if (bundle.gemmFlops > 0 && isFirst())
    peak = job->devices().measureProducts(compute);
  if (done >= steps)
    log->note(
        fmt::format("nothing to train: {} of {} steps are done", done, steps));
  memory.end(RunPhase::Start);
  // From the first record on, to the end: what was trained is saved.
  guard.emplace();
  return log->memory(memoryRecord());
}

/// What makes one training run of several processes: told by its name.
Status Trainer::agree() {
  if (group.processes() == 1)
    return {};
  auto asText = [](bool given) { return given ? "yes" : "no"; };
  const std::vector<std::pair<const char *, std::string>> mine = {
      {"the compiled program", programFingerprint(job->bundle())},
      {"the seed", std::to_string(options.seed)},
      {"the number of steps", std::to_string(steps)},
      {"the step it begins after", std::to_string(done)},
      {"the tokens of the data", std::to_string(dataset->tokenCount())},
      {"the sequences of an epoch",
       std::to_string(loader->sequencesPerEpoch())},
      {"the data is shuffled", asText(options.shuffle)},
      {"the validation share", fmt::format("{:.17g}", options.validationShare)},
      {"the steps between validations", std::to_string(options.validateEvery)},
      {"checkpoints are saved", asText(!options.save.empty())},
      {"the steps between checkpoints", std::to_string(options.saveEvery)},
      {"weights are given", asText(!options.weights.empty())},
      {"it is exported", asText(!options.exportFolder.empty())}};
  std::string text;
  for (const auto &[name, value] : mine)
    text += value + "\n";
  CIUIC_TRY(group.broadcastText(text, 0));
  size_t at = 0;
  for (const auto &[name, value] : mine) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string first = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
    if (first != value)
      return Status::invalid(
          fmt::format("processes of one run differ in {}: it is {} in process "
                      "0, {} in process {}",
                      name, first, value, group.process()));
  }
  return {};
}

/// A signal to one process ends the run of all after the same step.
Status Trainer::shareInterrupt(bool here) {
  auto mine = std::byte(here ? 1 : 0);
  std::vector<std::byte> all(group.processes());
  CIUIC_TRY(group.gather(std::span(&mine, 1), all));
  for (std::byte one : all)
    result.interrupted |= one != std::byte(0);
  return {};
}

MemoryRecord Trainer::memoryRecord() const {
  const abi::Bundle &bundle = job->bundle();
  auto arena = [&](abi::Arena which) {
    return static_cast<uint64_t>(bundle.arenaBytes[static_cast<int>(which)]);
  };
  return {job->devices().localRanks(),      arena(abi::Arena::Device),
          arena(abi::Arena::Host),          job->devices().scratchBytes(),
          job->devices().deviceBytesUsed(), tensorMemory()};
}

/// The rate of matrix products in the mean step, as a share of the peak.
double Trainer::rateOfPeak() const {
  const abi::Bundle &bundle = job->bundle();
  if (peak <= 0 || meanStep <= 0)
    return 0;
  double flops = bundle.gemmFlops * static_cast<double>(bundle.accumulation) *
                 job->devices().localRanks();
  return flops / meanStep / peak;
}

Status Trainer::tell(double seconds) {
  // The mean forgets slowly; the first step is its own mean.
  meanStep = meanStep == 0 ? seconds : 0.9 * meanStep + 0.1 * seconds;
  StepRecord record;
  record.step = done;
  record.steps = steps;
  record.epoch =
      static_cast<double>(done) / static_cast<double>(loader->stepsPerEpoch());
  record.loss = result.loss;
  record.skipped = skipping;
  CIUIC_TRY_ASSIGN(record.lr, scalar("report.lr", 0));
  CIUIC_TRY_ASSIGN(record.gradNorm, scalar("report.grad_norm", 0));
  CIUIC_TRY_ASSIGN(record.lossScale, scalar("loss_scale", 1));
  const abi::Bundle &bundle = job->bundle();
  double tokens = static_cast<double>(loader->sequencesPerStep()) *
                  static_cast<double>(bundle.sequence);
  record.tokensPerSecond = tokens / seconds;
  record.stepMs = 1e3 * seconds;
  record.peakShare = rateOfPeak();
  record.secondsLeft = meanStep * static_cast<double>(steps - done);
  bool keep =
      done == steps || options.logEvery <= 1 || done % options.logEvery == 0;
  keepLogFailure(log->step(record, keep));
  ++untold;
  if (options.wallClockBreakdown && keep) {
    log->breakdown(job->devices().takeTimes(), untold);
    untold = 0;
  }
  return {};
}

Status Trainer::save() {
  memory.end(RunPhase::Step);
  RunState state;
  state.step = done;
  state.skippedSteps = skipped;
  state.appliedSteps = done - skipped;
  state.dataStep = done;
  state.epoch = loader->position(done).epoch;
  state.seed = options.seed;
  state.fingerprint = job->fingerprint();
  CIUIC_TRY_ASSIGN(state.scalars, job->scalars());
  state.scalars[batchKey] = static_cast<double>(loader->sequencesPerStep());
  CIUIC_TRY(job->collectStates([&]() -> Status {
    CheckpointWriter writer(options.save);
    job->addTo(writer);
    CIUIC_TRY_ASSIGN(std::string folder, writer.save(state));
    log->note("saved " + folder);
    return {};
  }));
  memory.end(RunPhase::Checkpoint);
  savedAt = done;
  return {};
}

Status Trainer::validate() {
  CIUIC_TRY_ASSIGN(EvalResult eval, job->evaluate(*validation));
  validatedAt = done;
  keepLogFailure(log->validation(done, eval.loss, eval.tokens));
  return {};
}

Status Trainer::step() {
  Clock::time_point begin = Clock::now();
  CIUIC_TRY(job->step(*loader, done).during([&] {
    return "running step " + std::to_string(done + 1);
  }));
  double seconds = secondsSince(begin);
  ++done;
  CIUIC_TRY_ASSIGN(double skip, scalar("report.skip", 0));
  skipping = skip != 0;
  skipped += skipping ? 1 : 0;
  CIUIC_TRY_ASSIGN(result.loss, scalar("report.loss", 0));
  CIUIC_TRY(tell(seconds));
  CIUIC_TRY(shareInterrupt(guard->wasInterrupted() || !logFailure.ok()));
  CIUIC_TRY_ASSIGN(double stopped, scalar("report.stopped", 0));
  if (stopped != 0)
    return Status(Code::Stopped,
                  "step " + std::to_string(done) +
                      " overflowed with the loss scale at its minimum: "
                      "training cannot go on");
  // A skipped step has changed nothing, and the next batch may be better: but
  // not for ever.
  notFinite = std::isfinite(result.loss) ? 0 : notFinite + 1;
  if (notFinite > 0 && (!skipping || notFinite >= mostNotFinite))
    return Status(Code::Stopped, "the loss of step " + std::to_string(done) +
                                     " is not finite: training cannot go on");
  if (options.validateEvery > 0 && validation &&
      done % options.validateEvery == 0)
    CIUIC_TRY(validate());
  if (!options.save.empty() && options.saveEvery > 0 &&
      done % options.saveEvery == 0)
    CIUIC_TRY(save());
  return {};
}

Status Trainer::loop() {
  while (done < steps && !result.interrupted)
    CIUIC_TRY(step());
  if (result.interrupted)
    log->note(fmt::format("interrupted after step {}", done));
  return {};
}

Status Trainer::finish() {
  if (validation && !result.interrupted && validatedAt != done)
    CIUIC_TRY(validate());
  if (!options.save.empty() && savedAt != done)
    CIUIC_TRY(save().during([&] {
      return logFailure.ok() ? "ending the run"
                             : "ending the run, for " + logFailure.str();
    }));
  // What was trained is safe now.
  CIUIC_TRY(std::move(logFailure));
  memory.end(RunPhase::Step);
  if (!options.exportFolder.empty()) {
    CIUIC_TRY(job->exportFolder(options.exportFolder, configJson,
                                options.exportDType, options.exportShardBytes));
    log->note("exported " + options.exportFolder);
    memory.end(RunPhase::Export);
  }
  if (!options.profile.empty() && isFirst())
    CIUIC_TRY(writeOutputFile(
        options.profile,
        printProfile(job->bundle(), job->devices().taskTimes())));
  result.steps = done;
  result.skipped = skipped;
  CIUIC_TRY(memory.share(group));
  return log->totals(memoryRecord(), job->devices(), memory.peaks());
}

} // namespace

Result<TrainResult> runTraining(const TrainOptions &options) {
  return Trainer(options).run();
}

} // namespace ciuic::rt
