//===- packing_test.cpp - Lives, their bound, and packings ----------------===//
#include "passes/Sched/Flow.h"
#include "passes/Sched/Gaps.h"
#include "passes/Sched/LiveBound.h"
#include "passes/Sched/PackBuffers.h"
#include "llvm/ADT/StringRef.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace ciuic::sched;

namespace {

/// Tasks on streams with random waits, and buffers that random tasks touch.
struct Schedule {
  Schedule(unsigned seed, unsigned tasks, unsigned buffers) : random(seed) {
    std::array<int32_t, kStreams> counts{};
    std::array<int, kStreams> last;
    last.fill(-1);
    for (unsigned task = 0; task < tasks; ++task) {
      unsigned stream = below(3);
      Clock clock{};
      auto wait = [&](unsigned earlier) {
        for (unsigned s = 0; s < kStreams; ++s)
          clock[s] = std::max(clock[s], clocks[earlier][s]);
        unsigned of = streams[earlier];
        clock[of] = std::max(clock[of], positions[earlier] + 1);
      };
      if (last[stream] >= 0)
        wait(last[stream]);
      if (task > 0 && below(2) == 0)
        wait(below(task));
      streams.push_back(stream);
      positions.push_back(counts[stream]++);
      clocks.push_back(clock);
      last[stream] = task;
    }
    for (unsigned i = 0; i < buffers; ++i)
      lives.push_back(makeLife(tasks));
    std::stable_sort(
        lives.begin(), lives.end(),
        [](const Life &a, const Life &b) { return a.first < b.first; });
    for (unsigned i = 0; i < buffers; ++i)
      texts.push_back("b" + std::to_string(i));
    names.assign(texts.begin(), texts.end());
  }

  unsigned below(unsigned bound) { return random() % bound; }

  Life makeLife(unsigned tasks) {
    Life life;
    life.bytes = 256 * (1 + below(8));
    life.first = UINT32_MAX;
    life.start.fill(INT32_MAX);
    unsigned from = below(tasks);
    for (unsigned touches = 1 + below(3); touches > 0; --touches)
      touch(life, std::min(tasks - 1, from + below(4)));
    return life;
  }

  void touch(Life &life, unsigned task) const {
    life.first = std::min(life.first, task);
    life.last = std::max(life.last, task);
    int32_t &end = life.end[streams[task]];
    end = std::max(end, positions[task] + 1);
    for (unsigned s = 0; s < kStreams; ++s)
      life.start[s] = std::min(life.start[s], clocks[task][s]);
  }

  Lives all() const { return Lives(lives, clocks); }

  std::mt19937 random;
  std::vector<unsigned> streams;
  std::vector<int32_t> positions;
  std::vector<Clock> clocks;
  std::vector<Life> lives;
  std::vector<std::string> texts;
  std::vector<llvm::StringRef> names;
};

bool mayBothLive(const Life &a, const Life &b) {
  return !a.isBefore(b) && !b.isBefore(a);
}

/// Bytes above one another although both may be live.
bool overlaps(const Lives &lives, const Packing &packing) {
  for (size_t i = 0; i < lives.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (mayBothLive(lives[i], lives[j]) &&
          packing.offsets[i] < packing.offsets[j] + lives[j].bytes &&
          packing.offsets[j] < packing.offsets[i] + lives[i].bytes)
        return true;
  return false;
}

// The windowed search finds the pairs that looking at all pairs finds.
TEST(Lives, conflictsAreThoseOfAllPairs) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Schedule schedule(seed, 40, 30);
    Lives lives = schedule.all();
    Lists conflicts = *lives.findConflicts();
    for (uint32_t i = 0; i < lives.size(); ++i) {
      std::vector<uint32_t> expected,
          found(conflicts[i].begin(), conflicts[i].end());
      std::sort(found.begin(), found.end());
      for (uint32_t j = 0; j < lives.size(); ++j)
        if (j != i && mayBothLive(lives[i], lives[j]))
          expected.push_back(j);
      EXPECT_EQ(found, expected) << "seed " << seed << ", buffer " << i;
    }
  }
}

/// What is reached from `i` over right successors within two tasks.
std::vector<bool> reachedFrom(const Lives &lives, uint32_t i, uint32_t from,
                              uint32_t to) {
  std::vector<bool> reached(lives.size(), false);
  std::vector<uint32_t> open{i};
  while (!open.empty()) {
    llvm::SmallVector<uint32_t> after;
    lives.findSuccessors(open.back(), from, to, after);
    open.pop_back();
    for (uint32_t next : after)
      if (!reached[next]) {
        reached[next] = true;
        open.push_back(next);
      }
  }
  return reached;
}

// All that comes after a buffer is reached over its successors, and nothing
// else is.
TEST(Lives, successorsReachAllThatComesAfter) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Schedule schedule(seed, 40, 30);
    Lives lives = schedule.all();
    for (uint32_t i = 0; i < lives.size(); ++i) {
      std::vector<bool> reached = reachedFrom(lives, i, 0, 40);
      for (uint32_t j = 0; j < lives.size(); ++j)
        EXPECT_EQ(reached[j], lives[i].isBefore(lives[j]))
            << "seed " << seed << ", buffers " << i << " and " << j;
    }
  }
}

// Between two tasks only what is reached there counts, and what comes after a
// buffer over others that are not is reached all the same.
TEST(Lives, successorsBetweenTasksLeaveTheOthersOut) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Schedule schedule(seed, 40, 30);
    Lives lives = schedule.all();
    constexpr uint32_t from = 12, to = 25;
    auto isIn = [&](uint32_t i) {
      return lives[i].first <= to && lives.fenceOf(i) > from;
    };
    for (uint32_t i = 0; i < lives.size(); ++i) {
      if (!isIn(i))
        continue;
      std::vector<bool> reached = reachedFrom(lives, i, from, to);
      for (uint32_t j = 0; j < lives.size(); ++j)
        EXPECT_EQ(reached[j], isIn(j) && lives[i].isBefore(lives[j]))
            << "seed " << seed << ", buffers " << i << " and " << j;
    }
  }
}

/// The heaviest set without order among the buffers in `open`, by trying all.
int64_t heaviestOf(const Lives &lives, std::vector<uint32_t> open) {
  if (open.empty())
    return 0;
  uint32_t first = open.back();
  open.pop_back();
  std::vector<uint32_t> with;
  for (uint32_t i : open)
    if (mayBothLive(lives[i], lives[first]))
      with.push_back(i);
  return std::max(heaviestOf(lives, open),
                  lives[first].bytes + heaviestOf(lives, with));
}

/// Whether the bound's holders may all be live at once and hold its bytes.
void expectHeld(const Lives &lives, const LiveBound &bound, unsigned seed) {
  int64_t held = 0;
  for (uint32_t i : bound.holders) {
    held += lives[i].bytes;
    for (uint32_t j : bound.holders)
      EXPECT_TRUE(i == j || mayBothLive(lives[i], lives[j])) << "seed " << seed;
  }
  EXPECT_EQ(held, bound.bytes) << "seed " << seed;
  EXPECT_TRUE(std::is_sorted(bound.holders.begin(), bound.holders.end()));
}

// The flow finds the heaviest set of buffers that may all be live at once, and
// names such a set.
TEST(LiveBound, isTheHeaviestSetThatTryingAllFinds) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Schedule schedule(seed, 20, 14);
    Lives lives = schedule.all();
    std::vector<uint32_t> all(lives.size());
    std::iota(all.begin(), all.end(), 0);
    LiveBound bound = findLiveBound(lives);
    EXPECT_TRUE(bound.exact);
    EXPECT_EQ(bound.bytes, heaviestOf(lives, all)) << "seed " << seed;
    expectHeld(lives, bound, seed);
  }
}

/// The same by one flow through all pairs.
int64_t heaviestByFlow(const Lives &lives) {
  uint32_t count = lives.size(), source = 2 * count, sink = source + 1;
  Flow flow(2 * count + 2);
  int64_t total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    total += lives[i].bytes;
    flow.add(source, count + i, lives[i].bytes);
    flow.add(i, sink, lives[i].bytes);
    for (uint32_t j = 0; j < count; ++j)
      if (lives[i].isBefore(lives[j]))
        flow.add(count + i, j, INT64_MAX / 2);
  }
  return total - flow.run(source, sink, INT64_MAX);
}

// Nothing is missed between the windows in which long programs are searched,
// nor what reaches over many of them.
TEST(LiveBound, isTheHeaviestSetOfManyWindows) {
  int64_t beyondOrder = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Schedule schedule(seed, 500, 250);
    // Some live long, so that all windows have something in common.
    for (Life &life : schedule.lives)
      if (schedule.below(10) == 0)
        schedule.touch(life, std::min(499u, life.first + schedule.below(300)));
    Lives lives = schedule.all();
    LiveBound bound = findLiveBound(lives);
    EXPECT_TRUE(bound.exact);
    EXPECT_EQ(bound.bytes, heaviestByFlow(lives)) << "seed " << seed;
    expectHeld(lives, bound, seed);
    beyondOrder += bound.bytes - findLiveBound(lives, /*work=*/0).bytes;
  }
  // Else program order would do.
  EXPECT_GT(beyondOrder, 0);
}

// Without the work that the search takes, the bound says that it may be too
// low, and some set of buffers holds it nevertheless.
TEST(LiveBound, withoutWorkIsStillHeldAtOnce) {
  int inexact = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    Schedule schedule(seed, 400, 300);
    Lives lives = schedule.all();
    int64_t most = findLiveBound(lives).bytes;
    for (int64_t work : {0, 100, 10000}) {
      LiveBound bound = findLiveBound(lives, work);
      inexact += !bound.exact;
      if (bound.exact)
        EXPECT_EQ(bound.bytes, most) << "seed " << seed;
      EXPECT_LE(bound.bytes, most) << "seed " << seed;
      expectHeld(lives, bound, seed);
    }
  }
  EXPECT_GE(inexact, 50);
}

/// Gaps as a byte of `free` each.
std::optional<int64_t> findGap(const std::vector<bool> &free, int64_t bytes,
                               Fit fit) {
  std::optional<int64_t> found;
  int64_t least = INT64_MAX;
  for (int64_t begin = 0, end; begin < int64_t(free.size()); begin = end + 1) {
    for (end = begin; end < int64_t(free.size()) && free[end];)
      ++end;
    if (end - begin < bytes || end - begin >= least)
      continue;
    found = begin;
    least = fit == Fit::Lowest ? 0 : end - begin;
  }
  return found;
}

// The gap that is found is the lowest, or the smallest, of those that are large
// enough, and the bytes that are given back join their neighbours.
TEST(Gaps, areWhatLookingAtAllBytesFinds) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    constexpr int64_t size = 400;
    std::vector<bool> free(size, false);
    std::vector<std::pair<int64_t, int64_t>> taken = {{0, size}};
    Gaps gaps;
    for (int step = 0; step < 300; ++step) {
      if (!taken.empty() && random() % 2 == 0) {
        size_t which = random() % taken.size();
        auto [begin, end] = taken[which];
        taken.erase(taken.begin() + which);
        // A part of it, so that gaps have many sizes.
        int64_t middle = begin + 1 + random() % (end - begin);
        gaps.release(begin, middle);
        std::fill(free.begin() + begin, free.begin() + middle, true);
        if (middle < end)
          taken.push_back({middle, end});
        continue;
      }
      int64_t bytes = 1 + random() % 20;
      Fit fit = random() % 2 ? Fit::Lowest : Fit::Smallest;
      std::optional<int64_t> expected = findGap(free, bytes, fit);
      ASSERT_EQ(gaps.take(bytes, fit), expected)
          << "seed " << seed << ", step " << step;
      if (!expected)
        continue;
      std::fill(free.begin() + *expected, free.begin() + *expected + bytes,
                false);
      taken.push_back({*expected, *expected + bytes});
    }
  }
}

// A gap is taken whole where it ends, and nowhere else.
TEST(Gaps, areTakenUpToTheirEnds) {
  Gaps gaps;
  EXPECT_EQ(gaps.takeUpTo(10), std::nullopt);
  gaps.release(4, 10);
  gaps.release(20, 30);
  EXPECT_EQ(gaps.takeUpTo(9), std::nullopt);
  EXPECT_EQ(gaps.takeUpTo(20), std::nullopt);
  EXPECT_EQ(gaps.takeUpTo(10), 4);
  EXPECT_EQ(gaps.takeUpTo(10), std::nullopt);
  EXPECT_EQ(gaps.take(10, Fit::Smallest), 20);
}

// No two buffers that may be live at once share bytes, and none lies beyond
// the size that the packing says.
TEST(PackBuffers, neverOverlaps) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Schedule schedule(seed, 60, 50);
    Lives lives = schedule.all();
    PackOptions options;
    options.work = 200000;
    Packing packing =
        packBuffers(lives, lives.findConflicts(), schedule.names, options);
    EXPECT_FALSE(overlaps(lives, packing)) << "seed " << seed;
    EXPECT_GE(packing.bytes, findLiveBound(lives).bytes);
    int64_t end = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_GE(packing.offsets[i], 0);
      end = std::max(end, packing.offsets[i] + lives[i].bytes);
    }
    EXPECT_EQ(end, packing.bytes) << "seed " << seed;
  }
}

// The search makes packings smaller where the known orders leave something.
TEST(PackBuffers, searchImprovesOnTheOrders) {
  int64_t ordered = 0, searched = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Schedule schedule(seed, 120, 100);
    Lives lives = schedule.all();
    auto conflicts = lives.findConflicts();
    PackOptions options;
    options.enough = findLiveBound(lives).bytes;
    options.work = 1; // The first order only.
    ordered += packBuffers(lives, conflicts, schedule.names, options).bytes;
    options.work = 3000000;
    searched += packBuffers(lives, conflicts, schedule.names, options).bytes;
  }
  EXPECT_LT(searched, ordered);
}

// The same schedule is packed the same way again.
TEST(PackBuffers, isTheSameEveryTime) {
  Schedule schedule(7, 120, 100);
  Lives lives = schedule.all();
  auto conflicts = lives.findConflicts();
  PackOptions options;
  options.work = 500000;
  Packing first = packBuffers(lives, conflicts, schedule.names, options);
  Packing second = packBuffers(lives, conflicts, schedule.names, options);
  EXPECT_EQ(first.offsets, second.offsets);
}

// Where the lists would be too long there are none, and the packing is still
// one in which nothing overlaps.
TEST(PackBuffers, doesWithoutLists) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Schedule schedule(seed, 60, 50);
    Lives lives = schedule.all();
    auto none = lives.findConflicts(/*most=*/10);
    ASSERT_FALSE(none.has_value());
    PackOptions options;
    options.work = 200000;
    Packing packing = packBuffers(lives, none, schedule.names, options);
    EXPECT_FALSE(overlaps(lives, packing)) << "seed " << seed;
  }
}

// On one stream, where buffers that follow each other are ordered by their
// tasks, a sweep takes what is live at once and no more.
TEST(PackBuffers, sweepsOneStreamTightly) {
  constexpr uint32_t layers = 200;
  std::vector<Clock> clocks(3 * layers);
  for (uint32_t task = 0; task < clocks.size(); ++task)
    clocks[task][0] = static_cast<int32_t>(task);
  std::vector<Life> given;
  std::vector<std::string> texts;
  auto add = [&](uint32_t first, uint32_t last, int64_t bytes) {
    Life life{bytes, first, last, clocks[first], {}};
    life.end[0] = static_cast<int32_t>(last) + 1;
    given.push_back(life);
    texts.push_back("b" + std::to_string(given.size()));
  };
  // A forward that keeps a value a layer, a temporary next to each.
  for (uint32_t i = 0; i < layers; ++i) {
    add(i, 2 * layers - 1 - i, 512);
    add(i, i + 1, 256);
  }
  std::vector<llvm::StringRef> names(texts.begin(), texts.end());
  Lives lives(given, clocks);
  Packing packing = packBuffers(lives, std::nullopt, names, {});
  EXPECT_FALSE(overlaps(lives, packing));
  EXPECT_LE(packing.bytes, findLiveBound(lives).bytes + 2 * 512);
}

// Nothing to pack takes nothing.
TEST(PackBuffers, takesAnEmptyProgram) {
  Lives lives({}, {});
  EXPECT_EQ(packBuffers(lives, lives.findConflicts(), {}, {}).bytes, 0);
  EXPECT_EQ(findLiveBound(lives).bytes, 0);
}

} // namespace
