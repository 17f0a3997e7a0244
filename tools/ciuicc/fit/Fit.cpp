//===- Fit.cpp - Whether a job fits, and what would -----------------------===//
#include "tools/ciuicc/fit/Fit.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Pipelines/Phases.h"
#include "tools/ciuicc/Compiler.h"
#include "tools/ciuicc/fit/Evaluate.h"
#include "tools/ciuicc/fit/Knobs.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace llvm;
using namespace ciuic;
using namespace ciuic::fit;
using tool::CompileOptions;
using tool::inUnits;

/// How many jobs are tried: of ordinary size many, of a large one as many as
/// take the same time. Tasks are what planning takes time for.
static constexpr int64_t kTasksOfFit = 600'000, kTasksOfRefusal = 150'000;
static constexpr unsigned kMostOfFit = 48, kMostOfRefusal = 14, kLeast = 5;
static constexpr unsigned kMostNearest = 3;

static Trials makeTrials(Evaluator &evaluator, const CompileOptions &options,
                         const std::vector<Knob> &knobs, int64_t tasks,
                         unsigned most) {
  Trials trials(
      [&](const Choice &choice) {
        return evaluator.evaluate(withChoice(options, knobs, choice));
      },
      most);
  const Outcome *given = trials.of(Choice(knobs.size(), 0));
  if (given && given->tasks > 0)
    trials.limit(std::max<int64_t>(kLeast, tasks / given->tasks));
  return trials;
}

/// "12.3 of 40.0 GB each, host 83.0 of 512 GB".
static std::string whatIsTaken(const Outcome &outcome,
                               const CompileOptions &options) {
  auto memory = [](int64_t bytes, int64_t limit) {
    return inUnits(bytes, "B") +
           (limit ? " of " + inUnits(limit, "B") : std::string());
  };
  if (options.sharedMemory)
    return memory(outcome.device, 0) + " on each device, host " +
           memory(outcome.host, 0) + ", of " +
           inUnits(options.sharedMemory, "B") + " together";
  std::string text = memory(outcome.device, options.deviceMemory) +
                     " on each device, host " +
                     memory(outcome.host, options.hostMemory);
  if (outcome.nvme)
    text += ", files " + memory(outcome.nvme, options.nvmeSpace);
  return text;
}

/// What of the time of a step something costs or saves.
static std::string inPercent(double seconds, double of) {
  double percent = of > 0 ? 100 * seconds / of : 0;
  if (std::abs(percent) < 0.05)
    return "costs no time";
  std::string text = percent > 0 ? "costs " : "saves ";
  raw_string_ostream(text) << format("%.1f %% of a step", std::abs(percent));
  return text;
}

static void note(const std::string &text) {
  errs() << "ciuicc: note: " << text << "\n";
}

static std::string signedUnits(int64_t bytes) {
  return (bytes < 0 ? "-" : "") + inUnits(std::abs(double(bytes)), "B");
}

/// A round in words: what it saves and costs.
static std::string effectOf(const Round &round, double step) {
  std::string text = "saves " +
                     signedUnits(round.before.device - round.after.device) +
                     " of each device";
  if (int64_t more = round.after.host - round.before.host)
    text += ", takes " + signedUnits(more) + " of the host";
  if (int64_t more = round.after.nvme - round.before.nvme)
    text += ", takes " + signedUnits(more) + " of the disk";
  return text + ", " +
         inPercent(round.after.seconds - round.before.seconds, step);
}

/// The IR after `place` of each round, beside those of the phases.
static int dumpRounds(Evaluator &evaluator, const CompileOptions &options,
                      const std::vector<Knob> &knobs, const FitResult &result) {
  if (options.dump.empty())
    return 0;
  if (std::error_code error = sys::fs::create_directories(
          options.dump, /*IgnoreExisting=*/true, sys::fs::all_all)) {
    errs() << "ciuicc: error: cannot make " << options.dump << ": "
           << error.message() << "\n";
    return 3;
  }
  Choice choice(knobs.size(), 0);
  for (size_t number = 0; number < result.rounds.size(); ++number) {
    std::string text = evaluator.placed(withChoice(options, knobs, choice));
    choice[result.rounds[number].knob] = result.rounds[number].to;
    if (text.empty())
      continue;
    SmallString<256> path(options.dump);
    sys::path::append(path,
                      sys::path::stem(dumpName(*findPhase("place"))).str() +
                          ".round-" + std::to_string(number + 1) + ".mlir");
    std::string message;
    auto file = mlir::openOutputFile(path, &message);
    if (!file) {
      errs() << "ciuicc: error: " << message << "\n";
      return 3;
    }
    file->os() << text;
    file->keep();
  }
  return 0;
}

/// What came of each knob.
static void tellDecisions(const std::vector<Knob> &knobs,
                          const FitResult &result,
                          std::vector<Decision> &decisions) {
  for (unsigned knob = 0; knob < knobs.size(); ++knob) {
    unsigned level = result.choice[knob];
    if (knobs[knob].fixed()) {
      decisions.push_back({false, knobs[knob].name + " left as " +
                                      knobs[knob].fixedBy + " says"});
      continue;
    }
    // All that was done to this knob, together.
    Round all{knob, 0, level, {}, {}};
    for (const Round &round : result.rounds) {
      if (round.knob != knob)
        continue;
      all.after.device += round.after.device - round.before.device;
      all.after.host += round.after.host - round.before.host;
      all.after.nvme += round.after.nvme - round.before.nvme;
      all.after.seconds += round.after.seconds - round.before.seconds;
    }
    if (level > 0)
      decisions.push_back({true, "chosen: " + knobs[knob].levels[level].flags +
                                     ", " +
                                     effectOf(all, result.given.seconds)});
    else
      decisions.push_back(
          {false, (knobs[knob].spends ? "not chosen: " : "not needed: ") +
                      knobs[knob].levels.back().flags});
  }
}

int fit::chooseWhatFits(CompileOptions &options,
                        std::vector<Decision> &decisions) {
  Evaluator evaluator(options);
  if (!evaluator.open())
    return 0;
  std::vector<Knob> knobs = findKnobs(
      {options, evaluator.resolved(), evaluator.firstPhase(),
       evaluator.ownsImport(), evaluator.blocks(), /*proposes=*/false});
  Trials trials =
      makeTrials(evaluator, options, knobs, kTasksOfFit, kMostOfFit);
  FitResult result = findFit(laddersOf(knobs), trials);
  if (!result.possible)
    return 0;
  if (int code = dumpRounds(evaluator, options, knobs, result))
    return code;
  tellDecisions(knobs, result, decisions);
  std::string taken = whatIsTaken(result.outcome, options);
  std::string flags = describe(knobs, result.choice);
  if (result.given.fits())
    note("--fit: it fits as it is: " + taken);
  else
    note("--fit: as it is it takes " + whatIsTaken(result.given, options));
  if (!result.given.fits())
    for (const Decision &decision : decisions)
      note("--fit: " + decision.text);
  if (!result.outcome.fits())
    note("--fit: nothing that is free to choose is enough; the least takes " +
         taken + (flags.empty() ? "" : ", ") + flags);
  else if (!flags.empty())
    note("--fit: the same as without it " + flags + " (" + taken + ", " +
         inPercent(result.outcome.seconds - result.given.seconds,
                   result.given.seconds) +
         "; " + std::to_string(trials.made()) + " jobs planned)");
  options = withChoice(options, knobs, result.choice);
  // A folder for files is no fault where none are needed.
  if (options.overrides.offloadOptimizer.value_or(
          evaluator.resolved().job.zero.offloadOptimizer.device) !=
      config::OffloadDevice::Nvme)
    options.overrides.nvmePath.reset();
  return 0;
}

void fit::printNearest(const CompileOptions &options) {
  Evaluator evaluator(options);
  if (!evaluator.open())
    return;
  std::vector<Knob> knobs = findKnobs(
      {options, evaluator.resolved(), evaluator.firstPhase(),
       evaluator.ownsImport(), evaluator.blocks(), /*proposes=*/true});
  if (knobs.empty())
    return;
  Trials trials =
      makeTrials(evaluator, options, knobs, kTasksOfRefusal, kMostOfRefusal);
  const Outcome *given = trials.of(Choice(knobs.size(), 0));
  // Refused for something else than its size.
  if (!given || !given->possible || given->fits())
    return;
  for (const Nearest &nearest :
       findNearest(laddersOf(knobs), trials, kMostNearest))
    note("fits " + describe(knobs, nearest.choice) + ": " +
         whatIsTaken(nearest.outcome, options) + ", " +
         inPercent(nearest.outcome.seconds - given->seconds, given->seconds));
  const std::pair<const Choice, Outcome> *least = nullptr;
  for (const auto &tried : trials.all()) {
    if (tried.second.fits())
      return;
    if (tried.second.possible &&
        (!least || tried.second.excess < least->second.excess))
      least = &tried;
  }
  note("of " + std::to_string(trials.made()) +
       " jobs planned none fits; the least takes " +
       whatIsTaken(least->second, options) + " " +
       describe(knobs, least->first));
}
