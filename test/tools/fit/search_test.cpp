//===- search_test.cpp - Which settings make a job fit --------------------===//
#include "tools/ciuicc/fit/Search.h"

#include <gtest/gtest.h>

using namespace ciuic::fit;

namespace {

/// What each level of a knob takes off the bytes and adds to the time.
struct Effect {
  int64_t saves;
  double costs;
};

/// A job whose knobs have effects that add up.
class Job {
public:
  Job(int64_t needs, int64_t has, std::vector<std::vector<Effect>> effects)
      : needs(needs), has(has), effects(std::move(effects)) {
    for (const auto &levels : this->effects) {
      Ladder ladder;
      ladder.levels = levels.size() + 1;
      for (unsigned i = 1; i <= levels.size(); ++i)
        ladder.probes.push_back(i);
      ladders.push_back(ladder);
    }
  }

  Outcome evaluate(const Choice &choice) const {
    Outcome outcome{.possible = true, .device = needs, .seconds = 100};
    for (size_t i = 0; i < choice.size(); ++i)
      if (choice[i]) {
        outcome.device -= effects[i][choice[i] - 1].saves;
        outcome.seconds += effects[i][choice[i] - 1].costs;
      }
    outcome.beyond[Devices] = outcome.device - has;
    return outcome;
  }

  FitResult fit(unsigned most = 100) {
    trials.emplace([this](const Choice &c) { return evaluate(c); }, most);
    return findFit(ladders, *trials);
  }
  std::vector<Nearest> nearest(unsigned most = 100) {
    trials.emplace([this](const Choice &c) { return evaluate(c); }, most);
    return findNearest(ladders, *trials, 3);
  }

  int64_t needs, has;
  std::vector<std::vector<Effect>> effects;
  std::vector<Ladder> ladders;
  std::optional<Trials> trials;
};

// A job that fits is left alone, and nothing else is tried.
TEST(Fit, LeavesWhatFits) {
  Job job(10, 10, {{{5, 0}}});
  FitResult result = job.fit();
  EXPECT_TRUE(result.outcome.fits());
  EXPECT_EQ(result.choice, Choice{0});
  EXPECT_EQ(job.trials->made(), 1u);
}

// What costs no time goes before what costs some, however much that saves.
TEST(Fit, TakesFreeChoicesFirst) {
  Job job(100, 90, {{{50, 1}}, {{10, 0}}});
  EXPECT_EQ(job.fit().choice, (Choice{0, 1}));
}

// Of what costs time, the least for each byte that is missing.
TEST(Fit, TakesTheCheapestBytes) {
  Job job(100, 70, {{{30, 9}}, {{30, 3}}, {{30, 6}}});
  EXPECT_EQ(job.fit().choice, (Choice{0, 1, 0}));
}

// Bytes beyond those that are missing count for nothing.
TEST(Fit, PaysForNoMoreThanIsMissing) {
  Job job(100, 99, {{{50, 20}}, {{2, 5}}});
  EXPECT_EQ(job.fit().choice, (Choice{0, 1}));
}

// What a later choice made needless is taken back.
TEST(Fit, TakesBackWhatIsNotNeeded) {
  // By the byte the first is cheaper, but it is not enough.
  Job job(100, 60, {{{20, 2}}, {{45, 20}}});
  FitResult result = job.fit();
  EXPECT_TRUE(result.outcome.fits());
  EXPECT_EQ(result.choice, (Choice{0, 1}));
}

// Of many levels the lowest that is enough, although only two are probed.
TEST(Fit, FindsTheLevelInBetween) {
  std::vector<Effect> blocks;
  for (int i = 1; i <= 32; ++i)
    blocks.push_back({10 * i, 1.0 * i});
  Job job(1000, 871, {blocks});
  job.ladders[0].probes = {16, 32};
  FitResult result = job.fit();
  EXPECT_EQ(result.choice, Choice{13});
  EXPECT_LE(job.trials->made(), 10u);
}

// Room that is left is spent for time, as much of it as fits.
TEST(Fit, SpendsWhatIsLeft) {
  // The first makes more room than is missing; each level of the second takes
  // some of it and is faster.
  std::vector<Effect> keep;
  for (int i = 1; i <= 8; ++i)
    keep.push_back({-3 * i, -1.0 * i});
  Job job(100, 80, {{{40, 20}}, keep});
  job.ladders[1].spends = true;
  job.ladders[1].probes.clear();
  EXPECT_EQ(job.fit().choice, (Choice{1, 6}));
}

// What takes room is no way to make it.
TEST(Fit, SpendsNothingThatIsMissing) {
  Job job(100, 50, {{{20, 1}}, {{-10, -5}}});
  job.ladders[1].spends = true;
  job.ladders[1].probes.clear();
  FitResult result = job.fit();
  EXPECT_FALSE(result.outcome.fits());
  EXPECT_EQ(result.choice, (Choice{1, 0}));
}

// What the user decided stays.
TEST(Fit, LeavesFixedKnobs) {
  Job job(100, 90, {{{50, 0}}, {{10, 9}}});
  job.ladders[0].fixed = true;
  EXPECT_EQ(job.fit().choice, (Choice{0, 1}));
}

// Two that help only together are found although neither helps alone.
TEST(Fit, TriesAllTogether) {
  std::vector<Ladder> ladders{{2, {1}}, {2, {1}}};
  Trials trials(
      [](const Choice &choice) {
        int64_t beyond = choice == Choice{1, 1} ? 0 : 5;
        return Outcome{.possible = true, .beyond = {beyond}, .seconds = 1};
      },
      100);
  FitResult result = findFit(ladders, trials);
  EXPECT_TRUE(result.outcome.fits());
  EXPECT_EQ(result.choice, (Choice{1, 1}));
}

// Where nothing is enough the result is the least that was found.
TEST(Fit, SaysTheLeast) {
  Job job(100, 10, {{{20, 1}}, {{30, 2}}});
  FitResult result = job.fit();
  EXPECT_TRUE(result.possible);
  EXPECT_FALSE(result.outcome.fits());
  EXPECT_EQ(result.outcome.device, 50);
}

// What cannot be planned at all is said to be so.
TEST(Fit, TellsTheImpossible) {
  Trials trials([](const Choice &) { return Outcome{}; }, 100);
  EXPECT_FALSE(findFit({{2, {1}}}, trials).possible);
  EXPECT_TRUE(findNearest({{2, {1}}}, trials, 3).empty());
}

// Trials are bounded: what was found by then counts.
TEST(Fit, EndsWhenTrialsAreUsedUp) {
  for (unsigned most = 1; most < 12; ++most) {
    Job job(100, 20, {{{20, 1}}, {{30, 2}}, {{40, 3}}, {{10, 0}}});
    FitResult result = job.fit(most);
    EXPECT_LE(job.trials->made(), most);
    EXPECT_TRUE(result.possible);
  }
}

// No choice is evaluated twice.
TEST(Fit, EvaluatesOnce) {
  std::map<Choice, int> times;
  std::vector<Ladder> ladders{{4, {1, 2, 3}}, {3, {1, 2}}};
  Trials trials(
      [&](const Choice &choice) {
        ++times[choice];
        int64_t made = 10 * choice[0] + 7 * choice[1];
        return Outcome{.possible = true,
                       .beyond = {30 - made},
                       .seconds = 10.0 + choice[0] + choice[1]};
      },
      100);
  EXPECT_TRUE(findFit(ladders, trials).outcome.fits());
  for (const auto &[choice, count] : times)
    EXPECT_EQ(count, 1);
}

// One change goes before two, and each of them alone is told.
TEST(Nearest, FewChangesFirst) {
  Job job(100, 60, {{{50, 9}}, {{40, 3}}, {{20, 0}}, {{25, 0}}});
  std::vector<Nearest> nearest = job.nearest();
  ASSERT_EQ(nearest.size(), 3u);
  EXPECT_EQ(nearest[0].choice, (Choice{0, 1, 0, 0}));
  EXPECT_EQ(nearest[1].choice, (Choice{1, 0, 0, 0}));
  EXPECT_EQ(nearest[2].choice, (Choice{0, 0, 1, 1}));
}

// What contains a change that is enough alone is no answer.
TEST(Nearest, LeavesOutSupersets) {
  Job job(100, 60, {{{50, 9}}, {{10, 0}}});
  std::vector<Nearest> nearest = job.nearest();
  ASSERT_EQ(nearest.size(), 1u);
  EXPECT_EQ(nearest[0].choice, (Choice{1, 0}));
}

// A level is no higher than it must be, of those that are worth a probe.
TEST(Nearest, TakesTheLowestLevel) {
  Job job(100, 60, {{{10, 1}, {45, 2}, {90, 3}}});
  std::vector<Nearest> nearest = job.nearest();
  ASSERT_EQ(nearest.size(), 1u);
  EXPECT_EQ(nearest[0].choice, Choice{2});
}

// What the user fixed is changed only where it is nearer than two others.
TEST(Nearest, RatherChangesWhatIsFree) {
  Job job(100, 60, {{{50, 0}}, {{50, 9}}, {{20, 0}}, {{20, 0}}});
  job.ladders[0].fixed = true;
  std::vector<Nearest> nearest = job.nearest();
  ASSERT_EQ(nearest.size(), 3u);
  EXPECT_EQ(nearest[0].choice, (Choice{0, 1, 0, 0}));
  EXPECT_EQ(nearest[1].choice, (Choice{1, 0, 0, 0}));
  EXPECT_EQ(nearest[2].choice, (Choice{0, 0, 1, 1}));
}

// All answers fit, and none where nothing does.
TEST(Nearest, AnswersFit) {
  for (int64_t has : {10, 30, 50, 70}) {
    Job job(100, has, {{{20, 1}}, {{30, 2}}, {{15, 3}}, {{5, 0}}});
    for (const Nearest &nearest : job.nearest())
      EXPECT_TRUE(job.evaluate(nearest.choice).fits());
    EXPECT_EQ(job.nearest().empty(), has < 30);
  }
}

} // namespace
