//===- phase_memory_test.cpp - What each part of a run holds --------------===//
#include "runtime/base/StagedBytes.h"
#include "runtime/job/PhaseMemory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace ciuic::rt;

namespace {

constexpr size_t large = size_t(64) << 20;

const PhasePeak &peakOf(const PhaseMemory &memory, RunPhase phase) {
  return memory.peaks()[static_cast<size_t>(phase)];
}

/// Takes and gives back `bytes`, of which each page is there for a while.
void hold(size_t bytes) {
  std::vector<char> held(bytes);
  for (size_t at = 0; at < bytes; at += 4096)
    static_cast<volatile char *>(held.data())[at] = 1;
}

// A part that holds much does not make the next one look so.
TEST(PhaseMemory, TellsPartsApart) {
  PhaseMemory memory;
  hold(large);
  memory.end(RunPhase::Start);
  memory.end(RunPhase::Step);
  uint64_t start = peakOf(memory, RunPhase::Start).resident;
  uint64_t step = peakOf(memory, RunPhase::Step).resident;
  if (start == 0)
    GTEST_SKIP() << "the system does not forget a peak";
  EXPECT_GT(step, 0u);
  EXPECT_GT(start, step + large / 2);
}

// Of a part that comes several times the highest counts.
TEST(PhaseMemory, KeepsTheHighest) {
  PhaseMemory memory;
  {
    StagedBytes counted(1000);
  }
  memory.end(RunPhase::Checkpoint);
  {
    StagedBytes counted(10);
  }
  memory.end(RunPhase::Checkpoint);
  EXPECT_EQ(peakOf(memory, RunPhase::Checkpoint).staged, 1000u);
  EXPECT_EQ(peakOf(memory, RunPhase::Export).staged, 0u);
  EXPECT_EQ(peakOf(memory, RunPhase::Export).resident, 0u);
}

} // namespace
