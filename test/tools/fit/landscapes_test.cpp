//===- landscapes_test.cpp - Jobs in which what fits is hard to find ------===//
#include "tools/ciuicc/fit/Search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace ciuic::fit;

namespace {

constexpr unsigned kTrials = 64;

/// What a function of a choice takes, within limits of devices and host.
struct Needs {
  int64_t device, host;
  double seconds;
};
using Landscape = std::function<std::optional<Needs>(const Choice &)>;

Outcome outcomeOf(const std::optional<Needs> &needs, int64_t device,
                  int64_t host) {
  if (!needs)
    return {};
  Outcome outcome{.possible = true,
                  .device = needs->device,
                  .host = needs->host,
                  .seconds = needs->seconds};
  outcome.beyond[Devices] = needs->device - device;
  outcome.beyond[Host] = needs->host - host;
  return outcome;
}

/// A ladder whose middle and end are probed.
Ladder ladderOf(unsigned levels) {
  if (levels == 2)
    return {levels, {1}};
  return {levels, {levels / 2, levels - 1}};
}

struct Found : FitResult {
  unsigned made;
};

Found fit(const std::vector<unsigned> &levels, int64_t device, int64_t host,
          const Landscape &needs, unsigned most = kTrials) {
  std::vector<Ladder> ladders;
  for (unsigned count : levels)
    ladders.push_back(ladderOf(count));
  Trials trials(
      [&](const Choice &choice) {
        return outcomeOf(needs(choice), device, host);
      },
      most);
  FitResult result = findFit(ladders, trials);
  return {result, trials.made()};
}

// What is moved to the host fills it: as much of it as has room there, and no
// choice of less on the devices alone.
TEST(Landscapes, HostWouldBeOverfilled) {
  // Eighths of 80 and a whole of 30 move to the host, which has 70.
  auto needs = [](const Choice &choice) {
    int64_t moved = 10 * choice[0] + 30 * choice[1];
    return Needs{120 - moved, moved, 100.0 + choice[0] + 2 * choice[1]};
  };
  Found found = fit({9, 2}, 50, 70, needs);
  EXPECT_TRUE(found.outcome.fits());
  EXPECT_EQ(found.outcome.host, 70);
}

// A job whose host is overfilled already is mended by what takes nothing from
// the host, although the devices then need more.
TEST(Landscapes, HostIsOverfilled) {
  auto needs = [](const Choice &choice) {
    return Needs{choice[0] ? 90 : 40, choice[0] ? 0 : 100,
                 100.0 - 5 * choice[0] + 3 * choice[1]};
  };
  Landscape both = [&](const Choice &choice) -> std::optional<Needs> {
    Needs sum = needs(choice);
    sum.device -= 15 * int64_t(choice[1]);
    return sum;
  };
  Found found = fit({2, 5}, 60, 50, both);
  EXPECT_TRUE(found.outcome.fits());
  EXPECT_EQ(found.choice, (Choice{1, 2}));
}

// A ladder whose end is not possible is climbed as far as it is.
TEST(Landscapes, ImpossibleEnd) {
  for (unsigned last = 1; last < 9; ++last) {
    Found found = fit({9, 3}, 100 - 10 * int64_t(last) - 10, 0,
                      [&](const Choice &choice) -> std::optional<Needs> {
                        if (choice[0] > last)
                          return std::nullopt;
                        return Needs{100 - 10 * choice[0] - 5 * choice[1], 0,
                                     100.0 + choice[0] + choice[1]};
                      });
    EXPECT_EQ(found.choice, (Choice{last, 2}));
  }
}

// One ladder that is never possible spoils nothing of all at once.
TEST(Landscapes, ImpossibleLadder) {
  Found found =
      fit({2, 2, 2}, 50, 0, [](const Choice &choice) -> std::optional<Needs> {
        if (choice[1])
          return std::nullopt;
        return Needs{choice[0] && choice[2] ? 50 : 100, 0, 100};
      });
  EXPECT_EQ(found.choice, (Choice{1, 0, 1}));
}

// A level that another ladder alone makes possible is found.
TEST(Landscapes, PossibleTogether) {
  Found found =
      fit({4, 2, 3}, 50, 0, [](const Choice &choice) -> std::optional<Needs> {
        if (choice[1] && choice[0] < 3)
          return std::nullopt;
        return Needs{100 - 5 * choice[0] - 35 * choice[1], 0,
                     100.0 + choice[0] + choice[2]};
      });
  EXPECT_EQ(found.choice, (Choice{3, 1, 0}));
}

// Of three ladders two help only together, and all three are too much for the
// host.
TEST(Landscapes, TwoOfThreeTogether) {
  for (unsigned without = 0; without < 3; ++without) {
    Found found = fit({3, 3, 3}, 60, 20, [&](const Choice &choice) {
      unsigned together = 2;
      for (unsigned i = 0; i < 3; ++i)
        if (i != without)
          together = std::min(together, choice[i]);
      return Needs{100 - 20 * together, 30 * choice[without], 100.0 + together};
    });
    Choice expected(3, 2);
    expected[without] = 0;
    EXPECT_EQ(found.choice, expected);
  }
}

// Where no step does anything for a while the search goes on to where one does,
// and takes back the steps that were of no use.
TEST(Landscapes, Plateau) {
  Found found = fit({5, 5, 2}, 60, 0, [](const Choice &choice) {
    return Needs{choice[0] >= 3 && choice[1] >= 2 ? 60 : 100, 0,
                 100.0 + choice[0] + choice[1] + choice[2]};
  });
  EXPECT_EQ(found.choice, (Choice{3, 2, 0}));
}

// The highest of several peaks alone is seen; each needs another ladder.
TEST(Landscapes, SeveralPeaks) {
  Found found = fit({3, 3, 3}, 60, 0, [](const Choice &choice) {
    int64_t peak = 0;
    for (unsigned i = 0; i < 3; ++i)
      peak = std::max<int64_t>(peak, 100 - 2 * i - 20 * choice[i]);
    return Needs{peak, 0, 100.0 + choice[0] + choice[1] + choice[2]};
  });
  EXPECT_EQ(found.choice, (Choice{2, 2, 2}));
}

// A faster choice replaces one that fits.
TEST(Landscapes, FasterOfTwo) {
  // Alone, the first ladder takes least time for a byte, but it is not enough.
  Found found = fit({2, 2, 2}, 50, 0, [](const Choice &choice) {
    return Needs{100 - 30 * choice[0] - 50 * choice[1] - 25 * choice[2], 0,
                 100.0 + 6 * choice[0] + 15 * choice[1] + 13 * choice[2]};
  });
  EXPECT_EQ(found.choice, (Choice{0, 1, 0}));
}

// That nothing fits is said where one kind of memory is too little at its
// least, and not where it is the two of them together.
TEST(Landscapes, SaysThatNothingFits) {
  auto needs = [](const Choice &choice) {
    int64_t moved = 10 * choice[0];
    return Needs{100 - moved - 5 * choice[1], moved, 100};
  };
  EXPECT_TRUE(fit({9, 3}, 5, 200, needs).nothingFits);
  Found both = fit({9, 3}, 50, 30, needs);
  EXPECT_FALSE(both.outcome.fits());
  // All 27 were tried.
  EXPECT_TRUE(both.nothingFits);
  EXPECT_EQ(both.made, 27u);
  Found few = fit({9, 3}, 50, 30, needs, 20);
  EXPECT_FALSE(few.outcome.fits());
  EXPECT_FALSE(few.nothingFits);
}

// A corner that is not possible proves nothing.
TEST(Landscapes, ImpossibleCornerProvesNothing) {
  Found found = fit(
      {9, 9}, 20, 0,
      [](const Choice &choice) -> std::optional<Needs> {
        if (choice[0] > 4 && choice[1] > 4)
          return std::nullopt;
        return Needs{100 - 5 * choice[0] - 5 * choice[1], 0, 100};
      },
      30);
  EXPECT_FALSE(found.outcome.fits());
  EXPECT_FALSE(found.nothingFits);
}

// Each round is another choice and needs less than the one before, or takes
// back; the first is from the given job and the last is to the result.
TEST(Landscapes, RoundsAreAPath) {
  Found found = fit({9, 9, 4}, 60, 50, [](const Choice &choice) {
    int64_t moved = 8 * choice[0];
    return Needs{150 - moved - 3 * choice[1] - 6 * choice[2], moved,
                 100.0 + choice[0] + choice[1] + choice[2]};
  });
  ASSERT_TRUE(found.outcome.fits());
  ASSERT_FALSE(found.rounds.empty());
  Choice at(3, 0);
  for (const Round &round : found.rounds) {
    EXPECT_EQ(round.from, at);
    EXPECT_NE(round.to, at);
    EXPECT_LE(round.after.excess(), round.before.excess());
    at = round.to;
  }
  EXPECT_EQ(at, found.choice);
}

//===----------------------------------------------------------------------===//
// Random ones
//===----------------------------------------------------------------------===//

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
