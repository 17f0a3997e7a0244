//===- check_bundle_test.cpp - Hostile program tables are refused ---------===//
#include "runtime/task/CheckBundle.h"
#include "test/runtime/task/TestProgram.h"

#include <functional>
#include <gtest/gtest.h>

namespace ciuic::rt::test {
namespace {

using abi::DType;
using abi::TaskKind;

/// A correct bundle with one of everything.
struct Sample : TestBundle {
  Sample() : TestBundle(2) {
    abi::View x = view("x", 4, 8), y = view("y", 4, 8);
    bundle.tokensBuffer = static_cast<int32_t>(buffer("tokens", 16));
    bundle.labelsBuffer = static_cast<int32_t>(buffer("labels", 16));
    ProgramTables &p = program("p");
    uint32_t first = add(p, "zero", TaskKind::Zero, {x});
    add(p, "copy", TaskKind::Copy, {x, y}, {.waits = {first}, .ints = {1}});
    abi::View staged = view("staged", 1, 32, DType::F32, 1, abi::Arena::Host);
    abi::View kept = view("kept", 1, 32, DType::F32, 1, abi::Arena::Nvme);
    bundle.disk = {"/nvme", 0, 0};
    add(p, "write", TaskKind::Copy, {staged, kept},
        {.stream = abi::Stream::Disk});
    buckets.push_back({"layers.0", 32, 16, true});
    members.push_back(
        {"w", 0, 0, 2, {3, 4}, {abi::InitKind::Constant, {}, {}}});
    abi::View flat = x;
    flat.rank = 1;
    flat.shape[0] = 1;
    flat.shape[1] = 32;
    flat.strides[0] = 32;
    states.push_back({"layers.0.param",
                      abi::Role::Parameter,
                      "",
                      flat,
                      0,
                      false,
                      {abi::InitKind::Constant, {}, {}}});
  }
  abi::Task &task(int i) {
    return programTables[0].tasks[static_cast<size_t>(i)];
  }
  abi::View &view_(int i) {
    return programTables[0].views[static_cast<size_t>(i)];
  }
};

// The sample itself is accepted.
TEST(CheckBundleTest, AcceptsCorrectTables) {
  Sample sample;
  Status status = checkBundle(sample.finish());
  EXPECT_TRUE(status.ok()) << status.str();
}

struct Break {
  const char *what; ///< Found in the message.
  std::function<void(Sample &)> apply;
};

class BrokenBundleTest : public testing::TestWithParam<Break> {};

// Each broken entry is refused, and the message says which it is.
TEST_P(BrokenBundleTest, IsRefused) {
  Sample sample;
  GetParam().apply(sample);
  Status status = checkBundle(sample.finish());
  EXPECT_EQ(status.code(), Code::Invalid);
  EXPECT_NE(status.str().find(GetParam().what), std::string::npos)
      << status.str();
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenBundleTest,
    testing::Values(
        Break{"version", [](Sample &s) { s.bundle.version = 99; }},
        Break{"ranks", [](Sample &s) { s.bundle.ranks = 0; }},
        Break{"ranks", [](Sample &s) { s.bundle.ranks = 1u << 31; }},
        Break{"larger than any memory",
              [](Sample &s) { s.bundle.arenaBytes[0] = ~0ull; }},
        Break{"sizes", [](Sample &s) { s.bundle.sequence = 0; }},
        Break{"sizes", [](Sample &s) { s.bundle.microBatch = INT64_MAX; }},
        Break{"buffer 1 \"x\"", [](Sample &s) { s.buffers[1].offset = 1; }},
        Break{"beyond the arena",
              [](Sample &s) { s.buffers[1].bytes = ~0ull; }},
        Break{"beyond the arena",
              [](Sample &s) { s.buffers[1].offset = ~0ull << 8; }},
        Break{"unknown arena",
              [](Sample &s) { s.buffers[1].arena = abi::Arena(7); }},
        Break{"no folder for files",
              [](Sample &s) { s.bundle.disk.folder = nullptr; }},
        Break{"touches a file and is not on disk",
              [](Sample &s) { s.task(2).stream = abi::Stream::Host; }},
        Break{"is no copy of two views",
              [](Sample &s) { s.task(2).kind = TaskKind::Accumulate; }},
        Break{"does not copy between a file and host memory",
              [](Sample &s) { s.view_(4).buffer = s.view_(3).buffer; }},
        Break{"does not copy a vector as it is",
              [](Sample &s) { s.view_(4).shape[1] = 31; }},
        Break{"does not copy a vector as it is",
              [](Sample &s) { s.view_(4).dtype = DType::I32; }},
        Break{"its buffer is in a file",
              [](Sample &s) {
                s.bundle.tokensBuffer = static_cast<int32_t>(s.view_(4).buffer);
              }},
        Break{"tokens", [](Sample &s) { s.bundle.tokensBuffer = -1; }},
        Break{"labels", [](Sample &s) { s.bundle.labelsBuffer = 99; }},
        Break{"expected 16", [](Sample &s) { s.buffers[3].bytes = 15; }},
        Break{"view 0: buffer 77", [](Sample &s) { s.view_(0).buffer = 77; }},
        Break{"element type", [](Sample &s) { s.view_(0).dtype = DType(9); }},
        Break{"rank 3", [](Sample &s) { s.view_(0).rank = 3; }},
        Break{"shape -1", [](Sample &s) { s.view_(0).shape[1] = -1; }},
        Break{"reaches beyond", [](Sample &s) { s.view_(0).shape[0] = 5; }},
        Break{"reaches beyond",
              [](Sample &s) { s.view_(0).strides[0] = int64_t(1) << 45; }},
        Break{"shape", [](Sample &s) { s.view_(0).shape[0] = INT64_MAX; }},
        Break{"reaches beyond", [](Sample &s) { s.view_(0).offset = ~3ull; }},
        Break{"reaches beyond", [](Sample &s) { s.view_(0).rankStride = 4; }},
        Break{"reaches beyond", [](Sample &s) { s.view_(0).rankStride = -4; }},
        Break{"not aligned",
              [](Sample &s) {
                s.view_(0).offset = 2;
                s.view_(0).shape[0] = 1;
              }},
        Break{"unused dimension", [](Sample &s) { s.view_(0).rank = 1; }},
        Break{"unknown kind",
              [](Sample &s) { s.task(0).kind = TaskKind(200); }},
        Break{"unknown stream",
              [](Sample &s) { s.task(0).stream = abi::Stream(9); }},
        Break{"outside its table", [](Sample &s) { s.task(0).views.end = 9; }},
        Break{"outside its table", [](Sample &s) { s.task(1).ints = {1, 0}; }},
        Break{"outside its table", [](Sample &s) { s.task(1).reals = {0, 1}; }},
        Break{"waits for task 1",
              [](Sample &s) { s.programTables[0].waits[0] = 1; }},
        Break{"waits for task 4294967295",
              [](Sample &s) { s.programTables[0].waits[0] = ~0u; }},
        Break{"skipped by view", [](Sample &s) { s.task(0).skipView = 5; }},
        Break{"skipped by view", [](Sample &s) { s.task(0).skipView = -2; }},
        Break{"no f32 scalar", [](Sample &s) { s.task(0).skipView = 0; }},
        Break{"has a kernel",
              [](Sample &s) { s.task(0).kind = TaskKind::Launch; }},
        Break{"task 0: no name", [](Sample &s) { s.task(0).name = nullptr; }},
        Break{"appears twice", [](Sample &s) { s.program("p"); }},
        Break{"chunks of", [](Sample &s) { s.buckets[0].chunk = 17; }},
        Break{"bucket 5 of 1", [](Sample &s) { s.members[0].bucket = 5; }},
        Break{"ends beyond bucket",
              [](Sample &s) { s.members[0].offset = 21; }},
        Break{"ends beyond bucket",
              [](Sample &s) { s.members[0].shape[0] = INT64_MAX; }},
        Break{"shape is not", [](Sample &s) { s.members[0].shape[1] = 0; }},
        Break{"holds 32 elements, expected 16",
              [](Sample &s) { s.states[0].sharded = true; }},
        Break{"unknown role",
              [](Sample &s) { s.states[0].role = abi::Role(9); }},
        Break{"initialiser",
              [](Sample &s) { s.states[0].init.kind = abi::InitKind(9); }},
        Break{"depends on the rank", [](Sample &s) {
                s.states[0].view.shape[1] = 1;
                s.states[0].view.rankStride = 4;
              }}));

} // namespace
} // namespace ciuic::rt::test
