//===- random_landscapes_test.cpp - Against trying every choice -----------===//
#include "test/tools/fit/Landscape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace ciuic::fit;

namespace {

/// Two to four ladders of two to nine levels. Each takes a share of two peaks,
/// the higher of which counts, added to or multiplied with what others take;
/// some move it to the host or from there; smoothly or in jumps; some ends, and
/// some pairs of levels, are not possible. What packing loses is noise.
class Random {
public:
  explicit Random(unsigned seed) : numbers(seed) {
    other = kWhole * within(0.3, 1.2);
    atFirst = happens(0.4) ? 0 : kWhole * within(0, 1);
    ladders.resize(count(2, 4));
    for (Way &way : ladders)
      way = makeWay();
    if (happens(0.3))
      pair = {count(0, ladders.size() - 1), count(0, ladders.size() - 1)};
    for (unsigned &from : pairFrom)
      from = count(1, 4);
  }

  std::vector<unsigned> levels() const {
    std::vector<unsigned> counts;
    for (const Way &way : ladders)
      counts.push_back(way.shares.size());
    return counts;
  }

  std::optional<Needs> operator()(const Choice &choice) const {
    if (pair.first != pair.second && choice[pair.first] >= pairFrom[0] &&
        choice[pair.second] >= pairFrom[1])
      return std::nullopt;
    double peaks[2] = {1, 1}, taken[2] = {0, 0}, host = atFirst, seconds = 100;
    unsigned number = 0;
    for (size_t i = 0; i < choice.size(); ++i) {
      const Way &way = ladders[i];
      if (choice[i] >= way.impossibleFrom)
        return std::nullopt;
      double share = way.shares[choice[i]];
      for (unsigned peak : {0, 1})
        if (way.multiplies)
          peaks[peak] *= 1 - way.saves[peak] * share;
        else
          taken[peak] += way.saves[peak] * share;
      host += kWhole * way.moves * share;
      seconds += way.costs * share;
      number = 31 * number + choice[i];
    }
    double device =
        std::max(kWhole * (peaks[0] - taken[0]), other * (peaks[1] - taken[1]));
    device *= 1 + 0.01 * (number * 2654435761u % 1024) / 1024;
    return Needs{std::llround(std::max(device, 0.0)),
                 std::llround(std::max(host, 0.0)), seconds};
  }

  /// A choice that is possible.
  Choice draw() {
    Choice choice;
    do {
      choice.clear();
      for (const Way &way : ladders)
        choice.push_back(count(0, way.shares.size() - 1));
    } while (!(*this)(choice));
    return choice;
  }

private:
  struct Way {
    std::vector<double> shares; ///< Of all that it does, by level.
    double saves[2], moves, costs;
    bool multiplies;
    unsigned impossibleFrom;
  };
  static constexpr double kWhole = 1e6;

  // Distributions of the standard library differ from one to another.
  double within(double low, double high) {
    return low + (high - low) * (numbers() >> 8) / (1u << 24);
  }
  bool happens(double often) { return within(0, 1) < often; }
  unsigned count(unsigned low, unsigned high) {
    return low + numbers() % (high - low + 1);
  }

  Way makeWay() {
    Way way;
    unsigned last = count(1, 8);
    double bend = within(0.5, 2);
    bool jumps = happens(0.4);
    way.shares.push_back(0);
    for (unsigned level = 1; level <= last; ++level)
      way.shares.push_back(jumps ? within(0, 1)
                                 : std::pow(double(level) / last, bend));
    std::sort(way.shares.begin(), way.shares.end());
    for (double &saves : way.saves)
      saves = happens(0.25) ? 0 : within(0, 0.7);
    way.moves = happens(0.4) ? 0 : happens(0.7) ? within(0, 1) : -within(0, 1);
    way.costs = happens(0.3) ? 0 : within(0, 30);
    way.multiplies = happens(0.4);
    way.impossibleFrom = happens(0.15) ? count(1, last) : last + 1;
    return way;
  }

  std::mt19937 numbers;
  double other, atFirst;
  std::vector<Way> ladders;
  std::pair<unsigned, unsigned> pair;
  unsigned pairFrom[2];
};

/// Of all choices the least time of one that fits; negative if none does.
double leastTime(const Random &job, int64_t device, int64_t host) {
  std::vector<unsigned> levels = job.levels();
  double least = -1;
  Choice choice(levels.size(), 0);
  for (size_t i = 0; i < choice.size();) {
    Outcome outcome = outcomeOf(job(choice), device, host);
    if (outcome.fits() && (least < 0 || outcome.seconds < least))
      least = outcome.seconds;
    for (i = 0; i < choice.size() && ++choice[i] == levels[i]; ++i)
      choice[i] = 0;
  }
  return least;
}

/// How a search went over many seeds.
struct Tally {
  unsigned hard = 0;   ///< The job does not fit, something else does.
  unsigned found = 0;  ///< Of these.
  unsigned wrong = 0;  ///< It was said that nothing does.
  unsigned slow = 0;   ///< Found, at more than 5 % above the least time.
  unsigned none = 0;   ///< Nothing fits.
  unsigned proven = 0; ///< Of these it was said so.
};

Tally searchMany(unsigned seeds, unsigned most) {
  Tally tally;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Random job(seed);
    // Exactly what one choice takes; of every fourth job less.
    Needs limits = *job(job.draw());
    if (seed % 4 == 0)
      limits.device = limits.device * 3 / 5;
    double least = leastTime(job, limits.device, limits.host);
    Found found = fit(
        job.levels(), limits.device, limits.host,
        [&](const Choice &choice) { return job(choice); }, most);
    EXPECT_LE(found.made, most);
    if (least < 0) {
      EXPECT_FALSE(found.outcome.fits());
      ++tally.none;
      tally.proven += found.nothingFits;
    } else if (!found.given.fits()) {
      ++tally.hard;
      tally.found += found.outcome.fits();
      tally.wrong += found.nothingFits;
      tally.slow +=
          found.outcome.fits() && found.outcome.seconds > 1.05 * least;
    }
  }
  return tally;
}

// Of 723 jobs for which something fits it is found for 721 (99.7 %), with 12
// trials on average. One of the two misses is a job of whose 1008 choices few
// fit, and whose trials are used up; of the other no ladder saves anything, and
// what packing loses decides: it is said that nothing fits, though it lacks
// less than 1 %. Of 187 jobs for which nothing fits that is said of 155.
TEST(RandomLandscapes, FindsWhatFits) {
  Tally tally = searchMany(1000, kTrials);
  EXPECT_GE(tally.hard, 700u);
  EXPECT_GE(tally.found, 0.95 * tally.hard);
  EXPECT_LE(tally.slow, 0.1 * tally.hard);
  EXPECT_LE(tally.wrong, 0.01 * tally.hard);
  EXPECT_GE(tally.none, 150u);
  EXPECT_GE(tally.proven, 0.7 * tally.none);
}

// Fewer trials than the largest jobs get are enough for most: 702 of 723 (97.1
// %). Of the others but one the trials are used up.
TEST(RandomLandscapes, FewTrialsAreOfUse) {
  Tally tally = searchMany(1000, 16);
  EXPECT_GE(tally.found, 0.95 * tally.hard);
  EXPECT_LE(tally.wrong, 0.01 * tally.hard);
}

} // namespace
