//===- BlockTest.cpp - Threads of a block -----------------------*- C++ -*-===//
#include "test/cuda_on_host/TestSupport.h"

#include <memory>
#include <numeric>

using namespace ciuic;
using namespace ciuic::onhost::test;

namespace {

__global__ void numbers(int *out, int n) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    out[i] = i;
}

// Every thread of every block runs once.
TEST(Block, RunsEveryThread) {
  start();
  int *out = allocate<int>(1000);
  launchOn(nullptr, numbers, 8, 128, out, 1000);
  std::vector<int> want(1000);
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(read(out, 1000), want);
  EXPECT_EQ(onhost::takeReports(), noReports());
}

__global__ void reverse(float *out, const float *in) {
  __shared__ float all[256];
  all[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

__global__ void reverseWithoutBarrier(float *out, const float *in) {
  __shared__ float all[256];
  all[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

std::vector<float> reversed(void (*kernel)(float *, const float *)) {
  std::vector<float> host(256);
  std::iota(host.begin(), host.end(), 0.0f);
  float *in = allocate<float>(256), *out = allocate<float>(256);
  EXPECT_EQ(cudaMemcpy(in, host.data(), 1024, cudaMemcpyHostToDevice),
            cudaSuccess);
  launchOn(nullptr, kernel, 1, 256, out, in);
  return read(out, 256);
}

// What a thread stored before a barrier others load after it.
TEST(Block, BarriersOrderSharedMemory) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    start(seed);
    std::vector<float> out = reversed(reverse);
    for (int i = 0; i < 256; ++i)
      ASSERT_EQ(out[static_cast<size_t>(i)], 255.0f - i);
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

// Without the barrier the same kernel is a race whatever the order.
TEST(Block, FindsAMissingBarrier) {
  for (uint64_t seed = 1; seed < 5; ++seed) {
    start(seed);
    reversed(reverseWithoutBarrier);
    auto reports = onhost::takeReports();
    EXPECT_TRUE(contains(reports, "no barrier lies between") ||
                contains(reports, "shared memory never written"));
    EXPECT_TRUE(contains(reports, "reverseWithoutBarrier"));
  }
}

__global__ void sumOfWarps(float *out) {
  float x = static_cast<float>(threadIdx.x);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, lanes);
  out[threadIdx.x] = x;
}

// Lanes give each other values in every round.
TEST(Block, ShufflesSumAWarp) {
  start();
  float *out = allocate<float>(64);
  launchOn(nullptr, sumOfWarps, 1, 64, out);
  auto sums = read(out, 64);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_EQ(sums[i], i < 32 ? 496.0f : 1520.0f);
}

__global__ void barrierInABranch(int *out) {
  if (threadIdx.x < 32)
    __syncthreads();
  out[threadIdx.x] = 1;
}

// A barrier that half of the block never reaches ends the kernel with an error
// that later calls return.
TEST(Block, ReportsABarrierThatNotAllReach) {
  start();
  int *out = allocate<int>(64);
  launchOn(nullptr, barrierInABranch, 1, 64, out);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  auto reports = onhost::takeReports();
  EXPECT_TRUE(contains(reports, "not all threads meet"));
  EXPECT_TRUE(contains(reports, "barrierInABranch"));
}

__global__ void shuffleInABranch(int *out) {
  int x = 0;
  if (threadIdx.x % 2 == 0)
    x = __shfl_sync(0xffffffffu, 1, 0);
  out[threadIdx.x] = x;
}

// A shuffle among all lanes in which only some take part is an error.
TEST(Block, ReportsAShuffleThatNotAllReach) {
  start();
  int *out = allocate<int>(32);
  launchOn(nullptr, shuffleInABranch, 1, 32, out);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(contains(onhost::takeReports(), "an exchange among lanes"));
}

__global__ void beyond(int *out, int n) { out[threadIdx.x * n] = 1; }

// A store outside of every allocation does not happen: the kernel ends.
TEST(Block, ReportsAStoreOutside) {
  start();
  int *out = allocate<int>(32);
  launchOn(nullptr, beyond, 1, 33, out, 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_TRUE(contains(onhost::takeReports(), "outside of any allocation"));
}

__global__ void readAll(int *out, const int *in) {
  out[threadIdx.x] = in[threadIdx.x];
}

// Bytes that nothing wrote cannot be read.
TEST(Block, ReportsUnwrittenBytes) {
  start();
  int *in = allocate<int>(32), *out = allocate<int>(32);
  ASSERT_EQ(cudaMemset(in, 0, 31 * 4), cudaSuccess);
  launchOn(nullptr, readAll, 1, 32, out, in);
  EXPECT_TRUE(contains(onhost::takeReports(), "never written"));
}

__global__ void everyBlockWrites(int *out) { out[threadIdx.x] = 1; }

// Blocks that write the same place are a race even where they agree.
TEST(Block, FindsBlocksThatWriteTheSame) {
  start();
  launchOn(nullptr, everyBlockWrites, 3, 32, allocate<int>(32));
  EXPECT_TRUE(contains(onhost::takeReports(), "two blocks"));
}

/// The last block to arrive adds up what the others left.
__global__ void lastBlockSums(int *parts, unsigned *arrived, int *sum) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = static_cast<int>(blockIdx.x);
    __threadfence();
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (unsigned b = 0; b < gridDim.x; ++b)
      *sum += parts[b];
}

// An atomic orders blocks, in whatever order they run.
TEST(Block, AtomicsOrderBlocks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed);
    int *sum = allocate(std::vector<int>{0});
    launchOn(nullptr, lastBlockSums, 8, 32, allocate<int>(8),
             allocate(std::vector<unsigned>{0}), sum);
    EXPECT_EQ(read(sum, 1)[0], 28);
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

__global__ void parts(unsigned *votes, int *shifted) {
  unsigned lane = threadIdx.x;
  votes[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  shifted[lane] = __shfl_down_sync(0xffffffffu, static_cast<int>(lane), 2, 8);
}

// Votes collect all lanes; a shuffle keeps to its segments, where lanes without
// a source keep what they have.
TEST(Block, VotesAndSegments) {
  start();
  unsigned *votes = allocate<unsigned>(32);
  int *shifted = allocate<int>(32);
  launchOn(nullptr, parts, 1, 32, votes, shifted);
  EXPECT_EQ(read(votes, 32), std::vector<unsigned>(32, 0x49249249u));
  auto got = read(shifted, 32);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(got[static_cast<size_t>(i)], i % 8 < 6 ? i + 2 : i);
}

// Memory of one device is out of reach for kernels of another.
TEST(Block, ReportsMemoryOfAnotherDevice) {
  start(1, 2);
  int *there = allocate<int>(32);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  launchOn(nullptr, everyBlockWrites, 1, 32, there);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_TRUE(contains(onhost::takeReports(), "memory of another device"));
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

typedef float FourFloats __attribute__((vector_size(16)));

__global__ void loadsFour(FourFloats *out, const float *in) {
  *out = *reinterpret_cast<const FourFloats *>(in);
}

// Sixteen bytes are loaded from multiples of sixteen only.
TEST(Block, ReportsAMisalignedVector) {
  for (size_t shift : {0, 1}) {
    start();
    float *in = allocate(std::vector<float>(8, 1.0f));
    launchOn(nullptr, loadsFour, 1, 1, allocate<FourFloats>(1), in + shift);
    EXPECT_EQ(cudaDeviceSynchronize() == cudaSuccess, shift == 0);
    EXPECT_EQ(contains(onhost::takeReports(), "not a multiple of 16"),
              shift == 1);
  }
}

__global__ void writesTheHost(int *out) { out[0] = 1; }

// A kernel does not reach memory of the host that is not pinned.
TEST(Block, ReportsPageableMemory) {
  start();
  auto memory = std::make_unique<int>(0);
  launchOn(nullptr, writesTheHost, 1, 1, memory.get());
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*memory, 0);
}

/// One lane writes, the others of its warp read, with or without __syncwarp.
template <bool sync> __global__ void withinAWarp(int *out) {
  __shared__ int value;
  if (threadIdx.x == 0)
    value = 5;
  if (sync)
    __syncwarp();
  out[threadIdx.x] = value;
}

// __syncwarp orders shared memory within a warp; nothing else but a barrier
// does.
TEST(Block, SyncwarpOrdersAWarp) {
  start();
  launchOn(nullptr, withinAWarp<true>, 1, 32, allocate<int>(32));
  EXPECT_EQ(onhost::takeReports(), noReports());
  launchOn(nullptr, withinAWarp<false>, 1, 32, allocate<int>(32));
  auto reports = onhost::takeReports();
  EXPECT_TRUE(contains(reports, "no barrier lies between") ||
              contains(reports, "shared memory never written"));
}

} // namespace
