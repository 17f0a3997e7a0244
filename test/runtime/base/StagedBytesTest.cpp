//===- StagedBytesTest.cpp - Counting what is staged ----------------------===//
#include "runtime/base/StagedBytes.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using namespace ciuic::rt;

namespace {

// The peak is of what lived at once, and not the sum of all.
TEST(StagedBytes, CountsWhatLivesAtOnce) {
  (void)StagedBytes::takePeak();
  {
    StagedBytes first(100);
  }
  {
    StagedBytes second(40);
    StagedBytes third(50);
  }
  EXPECT_EQ(StagedBytes::takePeak(), 100u);
  EXPECT_EQ(StagedBytes::takePeak(), 0u);
}

// What lives on when the peak is taken belongs to the next peak too.
TEST(StagedBytes, KeepsWhatLivesOn) {
  (void)StagedBytes::takePeak();
  StagedBytes lasting(30);
  {
    StagedBytes brief(50);
  }
  EXPECT_EQ(StagedBytes::takePeak(), 80u);
  EXPECT_EQ(StagedBytes::takePeak(), 30u);
}

// Threads count together, and nothing is lost between them.
TEST(StagedBytes, CountsAllThreads) {
  (void)StagedBytes::takePeak();
  std::vector<std::thread> threads;
  StagedBytes lasting(1);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 10000; ++k)
        StagedBytes brief(8);
    });
  for (std::thread &thread : threads)
    thread.join();
  uint64_t peak = StagedBytes::takePeak();
  EXPECT_GE(peak, 9u);
  EXPECT_LE(peak, 33u);
  EXPECT_EQ(StagedBytes::takePeak(), 1u);
}

} // namespace
