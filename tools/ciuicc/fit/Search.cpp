//===- Search.cpp - Which settings make a job fit -------------------------===//
#include "tools/ciuicc/fit/Search.h"
#include "tools/ciuicc/fit/Estimate.h"

#include <cmath>
#include <tuple>

using namespace ciuic::fit;

/// Estimates of time differ by less than this part without meaning it.
static constexpr double kSameTime = 1e-3;

/// With fewer trials than this ladders are measured at their ends alone, and no
/// more of them than it takes to find what fits.
static constexpr unsigned kPlenty = 24;

/// Choices in a row that promised more than they held; then others are looked
/// at, from which estimates become better.
static constexpr unsigned kDisappointments = 3;

/// Of what ladders do to a kind of memory, the part by which it must be too
/// little at its least to say that no choice is enough.
static constexpr int64_t kSure = 32;

/// What already fits is made faster by so many trials.
static constexpr unsigned kForTime = 8;

const Outcome *Trials::of(const Choice &choice) {
  if (auto found = outcomes.find(choice); found != outcomes.end())
    return &found->second;
  if (used >= most)
    return nullptr;
  ++used;
  return &outcomes.emplace(choice, evaluate(choice)).first->second;
}

namespace {
/// A choice that is not known, and what it is estimated to take.
struct Promise {
  Choice choice;
  Outcome outcome;
};

class Fitting {
public:
  Fitting(const std::vector<Ladder> &ladders, Trials &trials)
      : ladders(ladders), trials(trials) {}
  FitResult run();

private:
  bool isFree(unsigned knob) const {
    return !ladders[knob].fixed && !ladders[knob].spends;
  }
  /// How many choices there are.
  double allChoices() const {
    double count = 1;
    for (unsigned knob = 0; knob < ladders.size(); ++knob)
      count *= isFree(knob) ? ladders[knob].levels : 1;
    return count;
  }
  /// Levels to try of a ladder, ascending.
  std::vector<unsigned> stepsOf(unsigned knob) const;
  static Choice with(Choice choice, unsigned knob, unsigned level) {
    choice[knob] = level;
    return choice;
  }
  int64_t timeOf(const Outcome &outcome) const;
  bool isBetter(const Outcome &a, const Outcome &b) const;
  void accept(const Choice &choice, const Outcome &outcome);
  const Outcome *consider(const Choice &choice);

  void measureLadders();
  unsigned findLastPossible(unsigned knob);
  std::optional<Promise> findPromising() const;
  bool tryCorners();
  bool descend(Choice at, Limit limit);
  Choice findCorner(Limit limit) const;
  Choice findUntried() const;
  bool makeRoom();
  void makeFaster();
  void takeBack();
  void spend();

  const std::vector<Ladder> &ladders;
  Trials &trials;
  std::vector<Choice> choices; ///< That are worth an estimate.
  std::vector<unsigned> last;  ///< Levels that the given job can have alone.
  std::array<bool, kLimits> cornered = {};
  FitResult result;
};
} // namespace

std::vector<unsigned> Fitting::stepsOf(unsigned knob) const {
  std::vector<unsigned> steps = ladders[knob].probes;
  for (unsigned level : {0u, last[knob]})
    if (auto at = std::lower_bound(steps.begin(), steps.end(), level);
        at == steps.end() || *at != level)
      steps.insert(at, level);
  return steps;
}

/// In units below which times do not differ.
int64_t Fitting::timeOf(const Outcome &outcome) const {
  double unit = kSameTime * result.given.seconds;
  return unit > 0 ? std::llround(outcome.seconds / unit) : 0;
}

bool Fitting::isBetter(const Outcome &a, const Outcome &b) const {
  if (a.excess() != b.excess())
    return a.excess() < b.excess();
  return a.excess() == 0 && a.seconds < b.seconds * (1 - kSameTime);
}

void Fitting::accept(const Choice &choice, const Outcome &outcome) {
  result.rounds.push_back({result.choice, choice, result.outcome, outcome});
  result.choice = choice;
  result.outcome = outcome;
}

/// Evaluates a choice and keeps it if it is better than what was found; null
/// when no more can be tried.
const Outcome *Fitting::consider(const Choice &choice) {
  const Outcome *outcome = trials.of(choice);
  if (outcome && outcome->possible && isBetter(*outcome, result.outcome))
    accept(choice, *outcome);
  return outcome;
}

/// The highest level at which the given job is possible, by halves.
unsigned Fitting::findLastPossible(unsigned knob) {
  unsigned low = 0, high = ladders[knob].probes.back() + 1;
  while (low + 1 < high) {
    unsigned middle =
        high > ladders[knob].probes.back() ? high - 1 : low + (high - low) / 2;
    const Outcome *outcome =
        trials.of(with(Choice(ladders.size(), 0), knob, middle));
    if (!outcome)
      break;
    (outcome->possible ? low : high) = middle;
  }
  return low;
}

/// What each ladder does alone: at its end, then at its other probes.
void Fitting::measureLadders() {
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    if (!isFree(knob) || ladders[knob].probes.empty())
      continue;
    last[knob] = findLastPossible(knob);
    if (trials.left() >= kPlenty)
      continue;
    if (auto promise = findPromising(); promise && promise->outcome.fits())
      (void)consider(promise->choice);
    if (result.outcome.fits())
      return;
  }
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    for (unsigned level : stepsOf(knob))
      if (level < last[knob] && trials.left() >= kPlenty)
        (void)trials.of(with(Choice(ladders.size(), 0), knob, level));
  // One round: to the best of them.
  const Choice *best = nullptr;
  const Outcome *bestOutcome = &result.outcome;
  for (const auto &[choice, outcome] : trials.all())
    if (outcome.possible && isBetter(outcome, *bestOutcome)) {
      best = &choice;
      bestOutcome = &outcome;
    }
  if (best)
    (void)consider(Choice(*best));
}

/// What is estimated to fit in the least time, else to need the least; none if
/// nothing is estimated to be better than what was found.
std::optional<Promise> Fitting::findPromising() const {
  Estimate estimate(ladders, trials);
  std::optional<Promise> best;
  std::tuple<int64_t, int64_t, size_t, Choice> bestRank;
  auto look = [&](const Choice &choice) {
    if (trials.known(choice))
      return;
    auto outcome = estimate.of(choice);
    if (!outcome || !isBetter(*outcome, result.outcome))
      return;
    size_t moved = choice.size() - std::count(choice.begin(), choice.end(), 0u);
    std::tuple rank(outcome->excess(), timeOf(*outcome), moved, choice);
    if (!best || rank < bestRank) {
      best = {choice, *outcome};
      bestRank = rank;
    }
  };
  for (const Choice &choice : choices)
    look(choice);
  // Where choices were left out of the list, those near to what was found.
  if (choices.size() == allChoices())
    return best;
  for (unsigned i = 0; i < ladders.size(); ++i)
    for (unsigned j = 0; j < i; ++j)
      for (unsigned a = 0; isFree(i) && isFree(j) && a < ladders[i].levels; ++a)
        for (unsigned b = 0; b < ladders[j].levels; ++b)
          look(with(with(result.choice, i, a), j, b));
  return best;
}

/// Each ladder where it is estimated to need least of one kind of memory; of
/// equal levels the highest, as it may do something together with others.
Choice Fitting::findCorner(Limit limit) const {
  Estimate estimate(ladders, trials);
  Choice corner = result.choice;
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    if (!isFree(knob))
      continue;
    std::optional<int64_t> least;
    for (unsigned level : stepsOf(knob)) {
      auto outcome = estimate.of(with(result.choice, knob, level));
      if (outcome && (!least || outcome->beyond[limit] <= *least)) {
        least = outcome->beyond[limit];
        corner[knob] = level;
      }
    }
  }
  return corner;
}

/// From a corner ladder by ladder to less of one kind of memory, until no probe
/// of any helps. If that is still too much, nothing is enough. False when no
/// more can be tried.
bool Fitting::descend(Choice at, Limit limit) {
  const Outcome *here = consider(at);
  // A corner that is not possible may be without one of its ladders.
  for (unsigned knob = 0; here && !here->possible && knob < at.size(); ++knob)
    if (at[knob])
      if (here = consider(with(at, knob, 0)); here && here->possible)
        at[knob] = 0;
  if (!here)
    return false;
  if (!here->possible)
    return true;
  bool moved = true, sure = true;
  while (moved && here->beyond[limit] > 0) {
    moved = false;
    sure = true;
    for (unsigned knob = 0; knob < ladders.size(); ++knob) {
      if (!isFree(knob))
        continue;
      for (unsigned level : stepsOf(knob)) {
        Choice next = with(at, knob, level);
        const Outcome *outcome = consider(next);
        if (!outcome)
          return false;
        if (outcome->possible && outcome->beyond[limit] < here->beyond[limit]) {
          at = next;
          here = outcome;
          moved = true;
        }
        // Impossible here, not alone: less may be possible elsewhere.
        sure &= outcome->possible || level > last[knob];
      }
    }
  }
  // Packing may lose a little in one job and not in another.
  int64_t most = 0;
  for (const auto &[choice, outcome] : trials.all())
    if (outcome.possible)
      most = std::max(most, outcome.beyond[limit] - here->beyond[limit]);
  result.nothingFits = sure && here->beyond[limit] > most / kSure;
  return true;
}

/// All that makes room at once, for each kind of memory that was found to be
/// too little; each once. False if there was none left.
bool Fitting::tryCorners() {
  bool any = false;
  for (unsigned limit = 0; limit < kLimits; ++limit) {
    bool lacks = std::any_of(
        trials.all().begin(), trials.all().end(),
        [&](const auto &known) { return known.second.beyond[limit] > 0; });
    if (!lacks || cornered[limit] || result.outcome.fits() ||
        result.nothingFits)
      continue;
    any = cornered[limit] = true;
    if (!descend(findCorner(Limit(limit)), Limit(limit)))
      return false;
  }
  return any;
}

/// What was not tried, although it promises nothing: first what is one probe
/// away from what was found, then what is estimated to need least; of equals
/// what is nearest, at the greatest heights. Empty if all is known.
Choice Fitting::findUntried() const {
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    for (unsigned level : stepsOf(knob))
      if (Choice next = with(result.choice, knob, level);
          isFree(knob) && !trials.known(next))
        return next;
  Estimate estimate(ladders, trials);
  Choice best;
  std::tuple<bool, int64_t, unsigned, int64_t, Choice> bestRank;
  for (const Choice &choice : choices) {
    if (trials.known(choice))
      continue;
    auto outcome = estimate.of(choice);
    unsigned differ = 0;
    int64_t height = 0;
    for (size_t i = 0; i < choice.size(); ++i) {
      differ += choice[i] != result.choice[i];
      height += choice[i];
    }
    std::tuple rank(!outcome, outcome ? outcome->excess() : 0, differ, -height,
                    choice);
    if (best.empty() || rank < bestRank) {
      best = choice;
      bestRank = rank;
    }
  }
  return best;
}

/// Until the job fits; false if it does not.
bool Fitting::makeRoom() {
  measureLadders();
  unsigned disappointments = 0;
  while (!result.outcome.fits() && !result.nothingFits && trials.left() > 0) {
    size_t rounds = result.rounds.size();
    if (disappointments < kDisappointments)
      if (auto next = findPromising()) {
        (void)consider(next->choice);
        disappointments =
            result.rounds.size() > rounds ? 0 : disappointments + 1;
        continue;
      }
    disappointments = 0;
    if (tryCorners())
      continue;
    Choice next = findUntried();
    if (next.empty()) {
      // All that there is, unless the list of it was shortened.
      result.nothingFits = choices.size() == allChoices();
      return false;
    }
    (void)consider(next);
  }
  return result.outcome.fits();
}

/// What fits and is estimated to take less time.
void Fitting::makeFaster() {
  unsigned most = std::min(kForTime, trials.left() / 2);
  for (unsigned i = 0; i < most; ++i) {
    auto next = findPromising();
    if (!next || !consider(next->choice))
      return;
  }
}

/// Each ladder back to the lowest level that still fits.
void Fitting::takeBack() {
  // The costliest first, as far as that is known.
  Estimate estimate(ladders, trials);
  std::vector<std::pair<double, unsigned>> order;
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    if (result.choice[knob] > 0) {
      auto without = estimate.of(with(result.choice, knob, 0));
      order.push_back({without ? without->seconds : 0, knob});
    }
  std::sort(order.begin(), order.end());
  for (auto [seconds, knob] : order) {
    // `high` fits; below `low` nothing is expected to.
    unsigned low = 0, high = result.choice[knob];
    while (low < high) {
      unsigned middle =
          low == 0 && high == result.choice[knob] ? 0 : low + (high - low) / 2;
      Choice choice = with(result.choice, knob, middle);
      const Outcome *outcome = trials.of(choice);
      if (!outcome)
        return;
      if (outcome->fits() &&
          outcome->seconds <= result.outcome.seconds * (1 + kSameTime)) {
        accept(choice, *outcome);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }
}

/// The room that is left, for time: as much of each ladder as still fits.
void Fitting::spend() {
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    if (!ladders[knob].spends || ladders[knob].fixed)
      continue;
    // `low` fits; above `high` nothing is expected to.
    unsigned low = 0, high = ladders[knob].levels - 1;
    while (low < high) {
      unsigned middle = low == 0 && high == ladders[knob].levels - 1
                            ? high
                            : low + (high - low + 1) / 2;
      Choice choice = with(result.choice, knob, middle);
      const Outcome *outcome = trials.of(choice);
      if (!outcome)
        return;
      bool faster = outcome->seconds < result.outcome.seconds * (1 - kSameTime);
      if (outcome->fits() && !faster)
        break;
      if (outcome->fits()) {
        accept(choice, *outcome);
        low = middle;
      } else {
        high = middle - 1;
      }
    }
  }
}

FitResult Fitting::run() {
  result.choice.assign(ladders.size(), 0);
  const Outcome *given = trials.of(result.choice);
  if (!given || !given->possible) {
    if (given)
      result.given = result.outcome = *given;
    return std::move(result);
  }
  result.possible = true;
  result.given = result.outcome = *given;
  if (given->fits())
    return std::move(result);
  last.assign(ladders.size(), 0);
  choices = listChoices(ladders, [&](unsigned knob) { return isFree(knob); });
  if (makeRoom()) {
    makeFaster();
    takeBack();
    spend();
  }
  return std::move(result);
}

FitResult ciuic::fit::findFit(const std::vector<Ladder> &ladders,
                              Trials &trials) {
  return Fitting(ladders, trials).run();
}
