//===- Search.cpp - Which settings make a job fit -------------------------===//
#include "tools/ciuicc/fit/Search.h"

#include <algorithm>
#include <tuple>

using namespace ciuic::fit;

/// Estimates of time differ by less than this part without meaning it.
static constexpr double kSameTime = 1e-3;

const Outcome *Trials::of(const Choice &choice) {
  if (auto found = outcomes.find(choice); found != outcomes.end())
    return &found->second;
  if (used >= most)
    return nullptr;
  ++used;
  return &outcomes.emplace(choice, evaluate(choice)).first->second;
}

namespace {
/// One ladder to another level, and what it did when it was last tried.
struct Move {
  unsigned knob, level;
  bool tried = false;
  Choice from; ///< Where it was last tried.
  int64_t gain = 0;
  double cost = 0; ///< Seconds.

  Choice applied(Choice choice) const {
    choice[knob] = level;
    return choice;
  }
};

class Fitting {
public:
  Fitting(const std::vector<Ladder> &ladders, Trials &trials)
      : ladders(ladders), trials(trials) {}
  FitResult run();

private:
  bool makeRoom();
  void takeBack();
  void spend();
  bool jumpToTheEnd();
  bool measure(Move &move);
  bool isBetter(const Move &a, const Move &b) const;
  void accept(unsigned knob, unsigned level, const Outcome &outcome);

  const std::vector<Ladder> &ladders;
  Trials &trials;
  std::vector<Move> moves;
  FitResult result;
};
} // namespace

void Fitting::accept(unsigned knob, unsigned level, const Outcome &outcome) {
  result.rounds.push_back(
      {knob, result.choice[knob], level, result.outcome, outcome});
  result.choice[knob] = level;
  result.outcome = outcome;
}

/// Tries a move from here; false when no more can be tried.
bool Fitting::measure(Move &move) {
  const Outcome *outcome = trials.of(move.applied(result.choice));
  if (!outcome)
    return false;
  move.tried = true;
  move.from = result.choice;
  move.gain = outcome->possible ? result.outcome.excess - outcome->excess : 0;
  move.cost = outcome->seconds - result.outcome.seconds;
  return true;
}

bool Fitting::isBetter(const Move &a, const Move &b) const {
  // What was never tried may be anything.
  if (a.tried != b.tried)
    return !a.tried;
  auto rank = [&](const Move &move) {
    double free = kSameTime * result.outcome.seconds;
    int kind = move.gain <= 0 ? 2 : move.cost <= free ? 0 : 1;
    double value = kind == 0   ? -static_cast<double>(move.gain)
                   : kind == 1 ? move.cost / static_cast<double>(move.gain)
                               : 0.0;
    return std::tuple(kind, value, move.knob, move.level);
  };
  return rank(a) < rank(b);
}

/// Move by move until the job fits; false if no move helps any more.
bool Fitting::makeRoom() {
  while (result.outcome.excess > 0) {
    std::erase_if(moves, [&](const Move &move) {
      return move.level <= result.choice[move.knob];
    });
    // What was tried elsewhere is an estimate: the best is tried here before
    // it is believed.
    Move *best = nullptr;
    while (true) {
      auto first = std::min_element(
          moves.begin(), moves.end(),
          [&](const Move &a, const Move &b) { return isBetter(a, b); });
      if (first == moves.end())
        return false;
      if (first->tried && first->from == result.choice) {
        best = &*first;
        break;
      }
      if (!measure(*first))
        return false;
    }
    if (best->gain <= 0) {
      // It leads, so nothing tried anywhere has helped; from here it might.
      auto stale =
          std::find_if(moves.begin(), moves.end(), [&](const Move &move) {
            return move.from != result.choice;
          });
      if (stale == moves.end() || !measure(*stale))
        return false;
      continue;
    }
    Choice next = best->applied(result.choice);
    accept(best->knob, best->level, *trials.of(next));
  }
  return true;
}

/// All that makes room at once, where moves one by one lead nowhere.
bool Fitting::jumpToTheEnd() {
  Choice end = result.choice;
  for (size_t i = 0; i < ladders.size(); ++i)
    if (!ladders[i].fixed && !ladders[i].spends)
      end[i] = ladders[i].levels - 1;
  const Outcome *outcome = trials.of(end);
  if (!outcome || !outcome->possible ||
      outcome->excess >= result.outcome.excess)
    return false;
  for (unsigned i = 0; i < ladders.size(); ++i)
    if (end[i] != result.choice[i])
      accept(i, end[i], *outcome);
  return outcome->excess == 0;
}

/// Each ladder back to the lowest level that still fits.
void Fitting::takeBack() {
  // The costliest first. What a ladder costs is what was seen last.
  std::vector<std::pair<double, unsigned>> order;
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    double cost = 0;
    for (const Round &round : result.rounds)
      if (round.knob == knob)
        cost += round.after.seconds - round.before.seconds;
    if (result.choice[knob] > 0)
      order.push_back({-cost, knob});
  }
  std::sort(order.begin(), order.end());
  for (auto [cost, knob] : order) {
    // `high` fits; below `low` nothing is expected to.
    unsigned low = 0, high = result.choice[knob];
    while (low < high) {
      unsigned middle =
          low == 0 && high == result.choice[knob] ? 0 : low + (high - low) / 2;
      Choice choice = result.choice;
      choice[knob] = middle;
      const Outcome *outcome = trials.of(choice);
      if (!outcome)
        return;
      if (outcome->fits() &&
          outcome->seconds <= result.outcome.seconds * (1 + kSameTime)) {
        accept(knob, middle, *outcome);
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
      Choice choice = result.choice;
      choice[knob] = middle;
      const Outcome *outcome = trials.of(choice);
      if (!outcome)
        return;
      bool faster = outcome->seconds < result.outcome.seconds * (1 - kSameTime);
      if (outcome->fits() && !faster)
        break;
      if (outcome->fits()) {
        accept(knob, middle, *outcome);
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
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    if (!ladders[knob].fixed && !ladders[knob].spends)
      for (unsigned level : ladders[knob].probes)
        moves.push_back({knob, level, /*tried=*/false, {}, 0, 0});
  if (given->fits())
    return std::move(result);
  if (makeRoom() || jumpToTheEnd()) {
    takeBack();
    spend();
  }
  return std::move(result);
}

FitResult ciuic::fit::findFit(const std::vector<Ladder> &ladders,
                              Trials &trials) {
  return Fitting(ladders, trials).run();
}

//===----------------------------------------------------------------------===//
// The nearest
//===----------------------------------------------------------------------===//

/// Combinations that are gone through to find the next one to try.
static constexpr size_t kCombinations = 5'000;

namespace {
/// Jobs that differ from the given one in levels worth a probe. What one
/// takes is predicted from those that are known.
class Neighbourhood {
public:
  Neighbourhood(const std::vector<Ladder> &ladders, Trials &trials)
      : ladders(ladders), trials(trials) {}
  std::vector<Nearest> find(unsigned most);

private:
  Choice alone(unsigned knob, unsigned level) const {
    Choice choice(ladders.size(), 0);
    choice[knob] = level;
    return choice;
  }
  const Outcome *knownAlone(unsigned knob, unsigned level) const {
    auto found = trials.all().find(alone(knob, level));
    bool helps = found != trials.all().end() && found->second.possible;
    return helps ? &found->second : nullptr;
  }
  void list();
  bool isFar(const Choice &choice) const;
  bool predict(const Choice &choice, Outcome &outcome) const;
  bool findNext(Choice &next) const;
  void add(const Choice &choice, const Outcome &outcome);
  void weaken(Nearest &nearest);

  /// Ladders that move; one that the user fixed counts for more.
  unsigned distanceOf(const Choice &choice) const {
    unsigned distance = 0;
    for (size_t i = 0; i < ladders.size(); ++i)
      if (choice[i])
        distance += ladders[i].fixed ? 3 : 2;
    return distance;
  }
  auto rankOf(const Nearest &nearest) const {
    return std::tuple(distanceOf(nearest.choice), nearest.outcome.seconds,
                      nearest.choice);
  }

  const std::vector<Ladder> &ladders;
  Trials &trials;
  std::vector<Choice> candidates;
  std::vector<Nearest> found;
  Outcome given;
};
} // namespace

/// All combinations of probes, those of few ladders first.
void Neighbourhood::list() {
  std::vector<Choice> last{Choice(ladders.size(), 0)};
  while (!last.empty() && candidates.size() < kCombinations) {
    std::vector<Choice> next;
    for (const Choice &choice : last) {
      size_t from = choice.size();
      while (from > 0 && choice[from - 1] == 0)
        --from;
      for (size_t knob = from; knob < ladders.size(); ++knob)
        for (unsigned level : ladders[knob].probes) {
          next.push_back(choice);
          next.back()[knob] = level;
        }
    }
    candidates.insert(candidates.end(), next.begin(), next.end());
    last = std::move(next);
  }
}

/// Whether a job that was found moves nothing farther than `choice` does.
bool Neighbourhood::isFar(const Choice &choice) const {
  return std::any_of(found.begin(), found.end(), [&](const Nearest &nearest) {
    for (size_t i = 0; i < choice.size(); ++i)
      if (nearest.choice[i] > choice[i])
        return false;
    return true;
  });
}

/// What `choice` will take: a known part of it, and what each of the others
/// saves alone. Of all known parts the one that promises least counts. False
/// if too little is known.
bool Neighbourhood::predict(const Choice &choice, Outcome &outcome) const {
  for (unsigned i = 0; i < choice.size(); ++i)
    if (choice[i] && !knownAlone(i, choice[i]))
      return false;
  bool any = false;
  for (const auto &[part, known] : trials.all()) {
    if (!known.possible)
      continue;
    Outcome sum = known;
    bool within = true;
    for (unsigned i = 0; i < choice.size(); ++i) {
      if (part[i] == choice[i])
        continue;
      within &= part[i] == 0;
      if (const Outcome *other = knownAlone(i, choice[i])) {
        sum.excess += other->excess - given.excess;
        sum.seconds += other->seconds - given.seconds;
      }
    }
    if (!within)
      continue;
    if (!any || sum.excess > outcome.excess)
      outcome = sum;
    any = true;
  }
  return any;
}

/// The nearest job that is not known and is predicted to fit.
bool Neighbourhood::findNext(Choice &next) const {
  Nearest best;
  for (const Choice &choice : candidates) {
    if (!best.choice.empty() && distanceOf(choice) > distanceOf(best.choice))
      continue;
    Nearest candidate{choice, {}};
    if (trials.known(choice) || isFar(choice) ||
        !predict(choice, candidate.outcome) || candidate.outcome.excess > 0)
      continue;
    if (best.choice.empty() || rankOf(candidate) < rankOf(best))
      best = candidate;
  }
  next = best.choice;
  return !next.empty();
}

/// Keeps what fits, unless something nearer is kept.
void Neighbourhood::add(const Choice &choice, const Outcome &outcome) {
  if (!outcome.fits() || isFar(choice))
    return;
  std::vector<Nearest> others = std::move(found);
  found = {{choice, outcome}};
  for (Nearest &other : others)
    if (!isFar(other.choice))
      found.push_back(std::move(other));
}

/// Each ladder at the lowest of its probes that is enough.
void Neighbourhood::weaken(Nearest &nearest) {
  for (size_t knob = 0; knob < ladders.size(); ++knob) {
    const std::vector<unsigned> &probes = ladders[knob].probes;
    size_t low = 0;
    size_t high =
        std::lower_bound(probes.begin(), probes.end(), nearest.choice[knob]) -
        probes.begin();
    if (nearest.choice[knob] == 0)
      continue;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      Choice choice = nearest.choice;
      choice[knob] = probes[middle];
      const Outcome *outcome = trials.of(choice);
      if (!outcome)
        return;
      if (outcome->fits()) {
        nearest = {choice, *outcome};
        high = middle;
      } else {
        low = middle + 1;
      }
    }
  }
}

std::vector<Nearest> Neighbourhood::find(unsigned most) {
  Choice as(ladders.size(), 0);
  const Outcome *outcome = trials.of(as);
  if (!outcome || !outcome->possible)
    return {};
  given = *outcome;
  list();
  auto tryOne = [&](const Choice &choice) {
    const Outcome *tried = trials.of(choice);
    if (tried)
      add(choice, *tried);
    return tried;
  };

  // Each at its end: where that is not enough, no less is. Then what lies
  // before the ends of those that helped most.
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    if (!ladders[knob].probes.empty())
      (void)tryOne(alone(knob, ladders[knob].probes.back()));
  Choice next;
  unsigned kept = trials.left() / 3; // For what is weakened at last.
  while (found.size() < most && trials.left() > kept && findNext(next))
    if (!tryOne(next))
      break;
  // Less than the ends, together with others.
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    for (unsigned level : ladders[knob].probes)
      if (const Outcome *end = knownAlone(knob, ladders[knob].probes.back());
          end && end->fits() && found.size() < most && trials.left() > kept)
        (void)tryOne(alone(knob, level));
  while (found.size() < most && trials.left() > kept && findNext(next))
    if (!tryOne(next))
      break;
  // Nothing seemed to be enough: then all of it.
  if (found.empty()) {
    for (unsigned knob = 0; knob < ladders.size(); ++knob)
      if (!ladders[knob].probes.empty())
        as[knob] = ladders[knob].probes.back();
    (void)tryOne(as);
  }

  auto nearer = [&](const Nearest &a, const Nearest &b) {
    return rankOf(a) < rankOf(b);
  };
  std::sort(found.begin(), found.end(), nearer);
  if (found.size() > most)
    found.resize(most);
  std::vector<Nearest> strong = found;
  found.clear();
  for (Nearest &nearest : strong) {
    weaken(nearest);
    add(nearest.choice, nearest.outcome);
  }
  std::sort(found.begin(), found.end(), nearer);
  return std::move(found);
}

std::vector<Nearest> ciuic::fit::findNearest(const std::vector<Ladder> &ladders,
                                             Trials &trials, unsigned most) {
  return Neighbourhood(ladders, trials).find(most);
}
