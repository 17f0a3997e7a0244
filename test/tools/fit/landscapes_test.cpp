//===- landscapes_test.cpp - Jobs in which what fits is hard to find ------===//
#include "test/tools/fit/Landscape.h"

#include <gtest/gtest.h>

using namespace ciuic::fit;

namespace {

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
// The nearest
//===----------------------------------------------------------------------===//

std::vector<Nearest> nearest(const std::vector<Ladder> &ladders, int64_t device,
                             int64_t host, const Landscape &needs,
                             unsigned most = 14) {
  Trials trials(
      [&](const Choice &choice) {
        return outcomeOf(needs(choice), device, host);
      },
      most);
  std::vector<Nearest> found = findNearest(ladders, trials, 3);
  for (const Nearest &job : found)
    EXPECT_TRUE(job.outcome.fits());
  return found;
}

// All of a ladder is too much for the host and half of it is enough.
TEST(NearestLandscapes, HostWouldBeOverfilled) {
  std::vector<Nearest> found =
      nearest({ladderOf(9), ladderOf(2)}, 70, 50, [](const Choice &choice) {
        int64_t moved = 10 * choice[0];
        return Needs{100 - moved - 10 * choice[1], moved, 100};
      });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].choice, (Choice{4, 0}));
}

// Where the end of a ladder is not possible the probe before it is told.
TEST(NearestLandscapes, ImpossibleEnd) {
  std::vector<Nearest> found = nearest(
      {ladderOf(9)}, 70, 0, [](const Choice &choice) -> std::optional<Needs> {
        if (choice[0] == 8)
          return std::nullopt;
        return Needs{100 - 10 * choice[0], 0, 100};
      });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].choice, Choice{4});
}

// What fits only far away is found and told as little as it may be, also if the
// user fixed some of it; what takes room has no part in it.
TEST(NearestLandscapes, Far) {
  std::vector<Ladder> ladders{
      ladderOf(3), ladderOf(3), ladderOf(3), {4, {}, false, /*spends=*/true}};
  ladders[1].fixed = true;
  std::vector<Nearest> found = nearest(
      ladders, 50, 0,
      [](const Choice &choice) {
        bool all = choice[0] && choice[1] && choice[2];
        return Needs{all ? 50 : 100, 0, 100.0 - choice[3]};
      },
      20);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].choice, (Choice{1, 1, 1, 0}));
}

} // namespace
