//===- WarpTest.cpp - Matrix instructions, copies, conversions --*- C++ -*-===//
#include "runtime/kernels/cuda/Wrappers.cuh"
#include "test/cuda_on_host/TestSupport.h"

#include <cmath>

using namespace ciuic;
using namespace ciuic::onhost::test;
using cuda::bf16;
using cuda::f16;

namespace {

// Every f16 means what IEEE says, and comes back from its float; NaNs become
// the device's own.
TEST(Warp, ConvertsEveryF16) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    int exponent = half >> 10 & 31, fraction = half & 0x3ff;
    float sign = half & 0x8000 ? -1.0f : 1.0f;
    float value = __half2float(__ushort_as_half(half));
    uint16_t back = __half_as_ushort(__float2half_rn(value));
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(back, 0x7fff);
      continue;
    }
    float expected = exponent == 31 ? INFINITY
                     : exponent == 0
                         ? std::ldexp(1.0f * fraction, -24)
                         : std::ldexp(1024.0f + fraction, exponent - 25);
    ASSERT_EQ(value, sign * expected) << bits;
    ASSERT_EQ(back, half) << bits;
  }
}

// Halfway between two neighbours the even one is taken, else the nearer one.
TEST(Warp, RoundsToTheNearestF16) {
  for (uint16_t low = 0; low < 0x7c00; ++low) {
    double a = __half2float(__ushort_as_half(low));
    // Beyond the largest number infinity stands for 65536.
    double b =
        low == 0x7bff ? 65536.0 : __half2float(__ushort_as_half(low + 1));
    auto middle = static_cast<float>((a + b) / 2);
    auto even = static_cast<uint16_t>(low + (low & 1));
    auto bits = [](float x) { return __half_as_ushort(__float2half_rn(x)); };
    ASSERT_EQ(bits(middle), even) << low;
    ASSERT_EQ(bits(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(bits(std::nextafter(middle, INFINITY)), low + 1) << low;
    ASSERT_EQ(bits(-middle), even | 0x8000) << low;
  }
}

// The same of bf16, whose bits are the upper half of a float's.
TEST(Warp, ConvertsEveryBf16) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float value = __bfloat162float(__ushort_as_bfloat16(half));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    auto back = [](float x) {
      return __bfloat16_as_ushort(__float2bfloat16_rn(x));
    };
    if (std::isnan(value)) {
      ASSERT_EQ(back(value), 0x7fff);
      continue;
    }
    ASSERT_EQ(back(value), half);
    if (std::isinf(value))
      continue;
    auto middle = std::bit_cast<float>(bits << 16 | 0x8000);
    ASSERT_EQ(back(middle), half + (half & 1)) << bits;
    ASSERT_EQ(back(std::bit_cast<float>(bits << 16 | 0x7fff)), half);
    ASSERT_EQ(back(std::bit_cast<float>(bits << 16 | 0x8001)), half + 1);
  }
}

/// d (16 x 8) = a (16 x 16, row-major) b (16 x 8, row-major), by one warp.
template <typename T>
__global__ void warpProduct(float *d, const T *a, const T *b) {
  __shared__ __align__(16) T sharedA[256];
  __shared__ __align__(16) T sharedB[128];
  for (unsigned i = threadIdx.x; i < 256; i += 32)
    sharedA[i] = a[i];
  for (unsigned i = threadIdx.x; i < 128; i += 32)
    sharedB[i] = b[i];
  __syncthreads();
  unsigned lane = threadIdx.x;
  uint32_t fragmentA[4], fragmentB[4];
  // Matrices 0 to 3: rows 0-7, rows 8-15, then the right halves.
  cuda::ldmatrix4(fragmentA, sharedA + (lane % 16) * 16 + lane / 16 * 8);
  // Rows of b are k: transposed they are the columns that mma wants. The
  // second two matrices are the first ones again.
  cuda::ldmatrix4Trans(fragmentB, sharedB + lane % 16 * 8);
  float sums[4] = {};
  cuda::mma16816<T>(sums, fragmentA, fragmentB[0], fragmentB[1]);
  for (unsigned i = 0; i < 4; ++i)
    d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

template <typename T> void testProduct() {
  start();
  std::vector<T> a, b;
  for (int i = 0; i < 256; ++i)
    a.push_back(T(static_cast<float>(i * 7 % 23 - 11)));
  for (int i = 0; i < 128; ++i)
    b.push_back(T(static_cast<float>(i * 5 % 19 - 9)));
  float *d = allocate<float>(128);
  launchOn(nullptr, warpProduct<T>, 1, 32, d, allocate(a), allocate(b));
  auto out = read(d, 128);
  for (size_t i = 0; i < 16; ++i)
    for (size_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 16; ++k)
        sum += static_cast<float>(a[i * 16 + k]) *
               static_cast<float>(b[k * 8 + j]);
      EXPECT_EQ(out[i * 8 + j], sum);
    }
  EXPECT_EQ(onhost::takeReports(), noReports());
}

// ldmatrix, its transposed form and mma together give the plain product.
TEST(Warp, MultipliesF16) { testProduct<f16>(); }
TEST(Warp, MultipliesBf16) { testProduct<bf16>(); }

template <bool wait>
__global__ void copyThroughShared(float *out, const float *in, int n) {
  auto *shared = cuda::dynamicShared<float>();
  unsigned i = threadIdx.x * 4;
  cuda::cpAsync16(shared + i, in + i, i < static_cast<unsigned>(n));
  cuda::cpAsyncCommit();
  if (wait)
    cuda::cpAsyncWait<0>();
  __syncthreads();
  unsigned other = blockDim.x * 4 - 4 - i;
  for (unsigned j = 0; j < 4; ++j)
    out[i + j] = shared[other + j];
}

// Copies land in shared memory, those that are not valid as zeros.
TEST(Warp, CopiesAsynchronously) {
  start();
  std::vector<float> in(128, 3.0f);
  float *out = allocate<float>(256);
  ASSERT_EQ(launchShared(1024, nullptr, copyThroughShared<true>, 1, 64, out,
                         allocate(in), 128),
            cudaSuccess);
  auto got = read(out, 256);
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(got[i], i < 128 ? 0.0f : 3.0f);
  EXPECT_EQ(onhost::takeReports(), noReports());
}

// Without the wait the memory is still unwritten behind the barrier.
TEST(Warp, FindsACopyThatNobodyAwaits) {
  start();
  std::vector<float> in(256, 3.0f);
  float *out = allocate<float>(256);
  ASSERT_EQ(launchShared(1024, nullptr, copyThroughShared<false>, 1, 64, out,
                         allocate(in), 256),
            cudaSuccess);
  EXPECT_TRUE(
      contains(onhost::takeReports(), "reads shared memory never written"));
}

// One byte more than the launch asked for ends the kernel.
TEST(Warp, GuardsDynamicSharedMemory) {
  start();
  std::vector<float> in(256, 3.0f);
  float *out = allocate<float>(256);
  ASSERT_EQ(launchShared(1008, nullptr, copyThroughShared<true>, 1, 64, out,
                         allocate(in), 256),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

} // namespace
