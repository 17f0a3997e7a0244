//===- touch_index_test.cpp - Which earlier touches matter ----------------===//
#include "passes/Sched/TouchIndex.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace ciuic::sched;

namespace {

Touch touch(unsigned task, int64_t begin, int64_t end, bool writes) {
  return {task, begin, end, writes};
}

std::vector<unsigned> conflictsOf(const TouchIndex &index, const Touch &touch) {
  std::vector<unsigned> found;
  index.forEachConflict(touch, [&](const Touch &early) {
    found.push_back(early.task);
    return true;
  });
  std::sort(found.begin(), found.end());
  return found;
}

// Readers do not wait for readers.
TEST(TouchIndex, readsDoNotConflict) {
  TouchIndex index;
  index.add(touch(0, 0, 100, false));
  EXPECT_TRUE(conflictsOf(index, touch(1, 0, 100, false)).empty());
  EXPECT_EQ(conflictsOf(index, touch(1, 99, 101, true)),
            std::vector<unsigned>{0});
}

// Parts of a buffer that touch at an edge are apart.
TEST(TouchIndex, neighboursDoNotConflict) {
  TouchIndex index;
  index.add(touch(0, 0, 128, true));
  index.add(touch(1, 128, 256, true));
  EXPECT_EQ(conflictsOf(index, touch(2, 128, 256, false)),
            std::vector<unsigned>{1});
  EXPECT_TRUE(conflictsOf(index, touch(2, 256, 300, true)).empty());
}

// A write of the whole stands for the parts and readers before it.
TEST(TouchIndex, aWriteSupersedesWhatItCovers) {
  TouchIndex index;
  index.add(touch(0, 0, 10, true));
  index.add(touch(1, 5, 10, false));
  index.add(touch(2, 0, 20, true));
  EXPECT_EQ(conflictsOf(index, touch(3, 0, 20, true)),
            std::vector<unsigned>{2});
}

// A write of a part leaves the rest of what was there before.
TEST(TouchIndex, aWriteKeepsWhatItDoesNotCover) {
  TouchIndex index;
  index.add(touch(0, 0, 20, true));
  index.add(touch(1, 0, 10, true));
  EXPECT_EQ(conflictsOf(index, touch(2, 15, 20, false)),
            std::vector<unsigned>{0});
  EXPECT_EQ(conflictsOf(index, touch(2, 0, 20, false)),
            (std::vector<unsigned>{0, 1}));
}

// The visitor ends the search.
TEST(TouchIndex, stopsWhereTold) {
  TouchIndex index;
  index.add(touch(0, 0, 10, true));
  index.add(touch(1, 10, 20, true));
  int visits = 0;
  index.forEachConflict(touch(2, 0, 20, true), [&](const Touch &) {
    ++visits;
    return false;
  });
  EXPECT_EQ(visits, 1);
}

// Waiting for what the index finds is waiting for all that conflicts: of
// random touches, all earlier conflicting ones are reached over those found.
TEST(TouchIndex, reachesAllConflicts) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int64_t bound) { return int64_t(random() % bound); };
    std::vector<Touch> touches;
    std::vector<std::set<unsigned>> before; // Closed under "before".
    TouchIndex index;
    for (unsigned task = 0; task < 120; ++task) {
      int64_t begin = below(64), length = 1 + below(below(4) ? 8 : 64);
      Touch now = touch(task, begin, begin + length, below(2));
      std::set<unsigned> found;
      for (unsigned early : conflictsOf(index, now)) {
        EXPECT_TRUE(now.conflicts(touches[early]));
        found.insert(early);
        found.insert(before[early].begin(), before[early].end());
      }
      for (const Touch &early : touches)
        EXPECT_TRUE(!now.conflicts(early) || found.count(early.task))
            << "seed " << seed << ", tasks " << early.task << " and " << task;
      touches.push_back(now);
      before.push_back(std::move(found));
      index.add(now);
    }
  }
}

} // namespace
