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

namespace {
/// How many jobs are tried: of ordinary size many, of a large one as many as
/// take the same time, but never too few to be of use. Tasks are what planning
/// takes time for.
struct Effort {
  int64_t tasks;
  unsigned least, most;
};
} // namespace
static constexpr Effort kOfFit = {600'000, 20, 64};
static constexpr Effort kOfRefusal = {150'000, 6, 14};
static constexpr unsigned kMostNearest = 3;

static Trials makeTrials(Evaluator &evaluator, const CompileOptions &options,
                         const std::vector<Knob> &knobs, Effort effort) {
  Trials trials(
      [&](const Choice &choice) {
        return evaluator.evaluate(withChoice(options, knobs, choice));
      },
      effort.most);
  const Outcome *given = trials.of(Choice(knobs.size(), 0));
  if (given && given->tasks > 0)
    trials.limit(std::max<int64_t>(effort.least, effort.tasks / given->tasks));
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

/// In words, what one job saves and costs that another one does not.
static std::string effectOf(const Outcome &with, const Outcome &without,
                            double step) {
  std::string text;
  auto tell = [&](int64_t more, const char *where, bool always = false) {
    if (more != 0 || always)
      text += (more > 0 ? "takes " : "saves ") +
              inUnits(std::abs(static_cast<double>(more)), "B") + where + ", ";
  };
  tell(with.device - without.device, " of each device", /*always=*/true);
  tell(with.host - without.host, " of the host");
  tell(with.nvme - without.nvme, " of the disk");
  return text + inPercent(with.seconds - without.seconds, step);
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
  for (size_t number = 0; number < result.rounds.size(); ++number) {
    std::string text = evaluator.placed(
        withChoice(options, knobs, result.rounds[number].from));
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

/// What refused every job that was tried with this knob; empty if there was
/// none, or one was possible.
static std::string whyImpossible(const Trials &trials, unsigned knob) {
  std::string why;
  for (const auto &[choice, outcome] : trials.all()) {
    if (choice[knob] == 0)
      continue;
    if (outcome.possible)
      return "";
    if (why.empty())
      why = outcome.why.substr(0, outcome.why.find('\n'));
  }
  return why;
}

/// What came of each knob. What one does is told against the same job without
/// it, where that can be planned.
static void tellDecisions(Evaluator &evaluator, const CompileOptions &options,
                          const std::vector<Knob> &knobs,
                          const FitResult &result, const Trials &trials,
                          std::vector<Decision> &decisions) {
  for (unsigned knob = 0; knob < knobs.size(); ++knob) {
    unsigned level = result.choice[knob];
    if (knobs[knob].fixed()) {
      decisions.push_back({false, knobs[knob].name + " left as " +
                                      knobs[knob].fixedBy + " says"});
      continue;
    }
    if (level == 0) {
      const std::string &flags = knobs[knob].levels.back().flags;
      std::string why = whyImpossible(trials, knob);
      bool chosen = knobs[knob].spends || !result.outcome.fits();
      decisions.push_back({false, !why.empty()
                                      ? "not possible: " + flags + ": " + why
                                  : chosen ? "not chosen: " + flags
                                           : "not needed: " + flags});
      continue;
    }
    Choice choice = result.choice;
    choice[knob] = 0;
    auto known = trials.all().find(choice);
    Outcome without =
        known != trials.all().end()
            ? known->second
            : evaluator.evaluate(withChoice(options, knobs, choice));
    std::string text = "chosen: " + knobs[knob].levels[level].flags;
    if (without.possible)
      text += ", " + effectOf(result.outcome, without, result.given.seconds);
    else
      text += ", without which the others are not possible";
    decisions.push_back({true, text});
  }
}

int fit::chooseWhatFits(CompileOptions &options,
                        std::vector<Decision> &decisions) {
  Evaluator evaluator(options);
  if (!evaluator.open())
    return 0;
  if (rt::Status agree = evaluator.checkGiven(); !agree.ok())
    return tool::report(agree);
  std::vector<Knob> knobs = findKnobs(
      {options, evaluator.resolved(), evaluator.firstPhase(),
       evaluator.ownsImport(), evaluator.blocks(), /*proposes=*/false});
  Trials trials = makeTrials(evaluator, options, knobs, kOfFit);
  FitResult result = findFit(laddersOf(knobs), trials);
  if (!result.possible)
    return 0;
  if (int code = dumpRounds(evaluator, options, knobs, result))
    return code;
  tellDecisions(evaluator, options, knobs, result, trials, decisions);
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
    note("--fit: " +
         (result.nothingFits ? "nothing that is free to choose is enough"
                             : "of " + std::to_string(trials.made()) +
                                   " jobs planned none fits, others may") +
         "; the least takes " + taken + (flags.empty() ? "" : ", ") + flags);
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
  Trials trials = makeTrials(evaluator, options, knobs, kOfRefusal);
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
        (!least || tried.second.excess() < least->second.excess()))
      least = &tried;
  }
  note("of " + std::to_string(trials.made()) +
       " jobs planned none fits; the least takes " +
       whatIsTaken(least->second, options) + " " +
       describe(knobs, least->first));
}
