//===- Nearest.cpp - Jobs that fit and change little ----------------------===//
#include "tools/ciuicc/fit/Estimate.h"
#include "tools/ciuicc/fit/Search.h"

#include <tuple>

using namespace ciuic::fit;

/// Combinations that are gone through to find the next one to try.
static constexpr size_t kCombinations = 5'000;

namespace {
/// Jobs that differ from the given one in levels worth a probe.
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
  void list();
  bool isFar(const Choice &choice) const;
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

/// The nearest job that is not known and is estimated to fit.
bool Neighbourhood::findNext(Choice &next) const {
  Estimate estimate(ladders, trials);
  Nearest best;
  for (const Choice &choice : candidates) {
    if (!best.choice.empty() && distanceOf(choice) > distanceOf(best.choice))
      continue;
    if (trials.known(choice) || isFar(choice))
      continue;
    auto outcome = estimate.of(choice);
    if (!outcome || outcome->excess() > 0)
      continue;
    Nearest candidate{choice, *outcome};
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
  list();
  auto tryOne = [&](const Choice &choice) {
    const Outcome *tried = trials.of(choice);
    if (tried)
      add(choice, *tried);
    return tried;
  };

  // Each as far as it goes. Then what lies before the ends of those that helped
  // most.
  std::vector<bool> isEnough(ladders.size());
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    const Outcome *end = nullptr;
    for (size_t i = ladders[knob].probes.size();
         i-- > 0 && (!end || !end->possible);)
      if (!(end = tryOne(alone(knob, ladders[knob].probes[i]))))
        break;
    isEnough[knob] = end && end->fits();
  }
  Choice next;
  unsigned kept = trials.left() / 3; // For what is weakened at last.
  while (found.size() < most && trials.left() > kept && findNext(next))
    if (!tryOne(next))
      break;
  // Less than the ends, together with others.
  for (unsigned knob = 0; knob < ladders.size(); ++knob)
    for (unsigned level : ladders[knob].probes)
      if (isEnough[knob] && found.size() < most && trials.left() > kept)
        (void)tryOne(alone(knob, level));
  while (found.size() < most && trials.left() > kept && findNext(next))
    if (!tryOne(next))
      break;
  // Nothing seemed to be enough: then whatever is, however far.
  if (found.empty()) {
    std::vector<Ladder> free = ladders;
    for (Ladder &ladder : free)
      ladder = {ladder.spends ? 1 : ladder.levels, ladder.probes};
    FitResult fit = findFit(free, trials);
    add(fit.choice, fit.outcome);
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
