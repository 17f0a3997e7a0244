//===- Estimate.cpp - What a job will take, from those known --------------===//
#include "tools/ciuicc/fit/Estimate.h"

#include <cmath>
#include <tuple>

using namespace ciuic::fit;

/// Choices that are gone through to find the next one to try.
static constexpr size_t kMostChoices = 30'000;

/// A ladder that differs counts for more than any height along ladders.
static constexpr unsigned kLadder = 1 << 16;

unsigned Estimate::distance(const Choice &a, const Choice &b) const {
  unsigned sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) {
      unsigned height = a[i] < b[i] ? b[i] - a[i] : a[i] - b[i];
      sum += kLadder + 256 * height / ladders[i].levels;
    }
  return sum;
}

Estimate::Estimate(const std::vector<Ladder> &ladders, const Trials &trials)
    : ladders(ladders), lines(ladders.size()) {
  for (const auto &[choice, outcome] : trials.all())
    all.push_back({&choice, &outcome});
  std::sort(all.begin(), all.end(), [](const Known &a, const Known &b) {
    auto rank = [](const Known &known) {
      return std::tuple(!known.outcome->possible, -known.outcome->excess(),
                        *known.choice);
    };
    return rank(a) < rank(b);
  });
  for (unsigned knob = 0; knob < ladders.size(); ++knob) {
    std::map<Choice, Line> byRest;
    for (const auto &[choice, outcome] : trials.all()) {
      if (!outcome.possible)
        continue;
      Choice rest = choice;
      rest[knob] = 0;
      Line &line = byRest[rest];
      line.rest = rest;
      line.points.push_back({&choice, &outcome}); // In the order of levels.
    }
    for (auto &[rest, line] : byRest)
      if (line.points.size() > 1)
        lines[knob].push_back(std::move(line));
  }
  differences.resize(all.size());
  for (size_t i = 0; i < all.size() && all[i].outcome->possible; ++i) {
    differences[i].resize(ladders.size());
    for (unsigned knob = 0; knob < ladders.size(); ++knob)
      for (unsigned level = 0; level < ladders[knob].levels; ++level)
        differences[i][knob].push_back(differenceAt(all[i], knob, level));
  }
}

/// What a ladder does when it leaves the level that it has in `base`.
Estimate::Difference Estimate::differenceAt(const Known &base, unsigned knob,
                                            unsigned to) const {
  unsigned from = (*base.choice)[knob];
  if (from == to)
    return {.known = true};
  const Line *best = nullptr;
  std::tuple<unsigned, bool> bestRank;
  Choice rest = *base.choice;
  rest[knob] = 0;
  auto levelOf = [&](const Known &point) { return (*point.choice)[knob]; };
  for (const Line &line : lines[knob]) {
    if (levelOf(line.points.front()) > std::min(from, to) ||
        levelOf(line.points.back()) < std::max(from, to))
      continue;
    bool exact =
        std::count_if(line.points.begin(), line.points.end(),
                      [&](const Known &point) {
                        return levelOf(point) == from || levelOf(point) == to;
                      }) == 2;
    std::tuple rank(distance(line.rest, rest), !exact);
    if (!best || rank < bestRank) {
      best = &line;
      bestRank = rank;
    }
  }
  if (!best)
    return {};
  // The line at a level, between its points where that is none.
  auto at = [&](unsigned level, unsigned limit) -> double {
    auto valueOf = [&](const Known &point) {
      return limit < kLimits ? static_cast<double>(point.outcome->beyond[limit])
                             : point.outcome->seconds;
    };
    auto above = std::find_if(
        best->points.begin(), best->points.end(),
        [&](const Known &point) { return levelOf(point) >= level; });
    if (levelOf(*above) == level)
      return valueOf(*above);
    const Known &low = *(above - 1);
    double part = static_cast<double>(level - levelOf(low)) /
                  (levelOf(*above) - levelOf(low));
    return valueOf(low) + part * (valueOf(*above) - valueOf(low));
  };
  Difference difference{.known = true};
  for (unsigned limit = 0; limit < kLimits; ++limit)
    difference.beyond[limit] = std::llround(at(to, limit) - at(from, limit));
  difference.seconds = at(to, kLimits) - at(from, kLimits);
  return difference;
}

std::optional<Outcome> Estimate::of(const Choice &choice) const {
  size_t base = all.size();
  unsigned nearest = ~0u;
  for (size_t i = 0; i < all.size(); ++i) {
    unsigned far = distance(*all[i].choice, choice);
    if (far < nearest) {
      nearest = far;
      base = i;
    }
  }
  if (base == all.size() || !all[base].outcome->possible)
    return std::nullopt;
  Outcome sum = *all[base].outcome;
  for (unsigned knob = 0; knob < choice.size(); ++knob) {
    const Difference &difference = differences[base][knob][choice[knob]];
    if (!difference.known)
      return std::nullopt;
    for (unsigned limit = 0; limit < kLimits; ++limit)
      sum.beyond[limit] += difference.beyond[limit];
    sum.seconds += difference.seconds;
  }
  return sum;
}

std::vector<Choice>
ciuic::fit::listChoices(const std::vector<Ladder> &ladders,
                        const std::function<bool(unsigned)> &moves) {
  std::vector<std::vector<unsigned>> levels(ladders.size(), {0});
  std::vector<bool> thinned(ladders.size());
  for (unsigned i = 0; i < ladders.size(); ++i)
    for (unsigned level = 1; moves(i) && level < ladders[i].levels; ++level)
      levels[i].push_back(level);
  auto count = [&] {
    double product = 1;
    for (const auto &of : levels)
      product *= static_cast<double>(of.size());
    return product;
  };
  while (count() > kMostChoices) {
    size_t longest = ladders.size();
    for (size_t i = 0; i < ladders.size(); ++i)
      if (!thinned[i] && (longest == ladders.size() ||
                          levels[i].size() > levels[longest].size()))
        longest = i;
    if (longest == ladders.size())
      break;
    // Every other level; then the probes alone.
    std::vector<unsigned> kept;
    const std::vector<unsigned> &probes = ladders[longest].probes;
    for (size_t i = 0; i < levels[longest].size(); ++i)
      if (unsigned level = levels[longest][i];
          i % 2 == 0 || std::binary_search(probes.begin(), probes.end(), level))
        kept.push_back(level);
    if (kept.size() == levels[longest].size()) {
      thinned[longest] = true;
      kept = probes;
      kept.insert(kept.begin(), 0);
    }
    levels[longest] = std::move(kept);
  }
  std::vector<Choice> choices{Choice(ladders.size(), 0)};
  for (size_t i = 0; i < ladders.size(); ++i) {
    std::vector<Choice> next;
    for (unsigned level : levels[i])
      for (const Choice &choice : choices) {
        if (next.size() + choices.size() > kMostChoices && level > 0)
          break;
        next.push_back(choice);
        next.back()[i] = level;
      }
    choices = std::move(next);
  }
  return choices;
}
