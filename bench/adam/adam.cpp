//===- adam.cpp - Adam as a share of what memory allows -------------------===//
//
// Adam reads parameter, gradient and two moments and writes all but the
// gradient: 28 bytes a parameter in f32 with non-temporal stores. A copy of
// large arrays gives the bytes a second; their quotient bounds Adam. Both are
// measured in turn, so that a change of the machine's speed meets both.
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/host/Parallel.h"
#include "runtime/task/Executor.h"
#include "test/runtime/task/TestProgram.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <immintrin.h>
#include <oneapi/tbb.h>

using namespace ciuic;
using namespace ciuic::rt;
using namespace ciuic::rt::test;
using Clock = std::chrono::steady_clock;

static constexpr double kBytes = 28.0;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Copies past the cache, as the best that stores can do: bytes moved (read
/// and written) a second.
static double copyRate(const float *from, float *to, int64_t n) {
  auto start = Clock::now();
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, n / 16, 1 << 14),
      [&](const tbb::blocked_range<int64_t> &range) {
        for (int64_t i = range.begin() * 16; i < range.end() * 16; i += 4)
          _mm_stream_ps(to + i, _mm_load_ps(from + i));
        _mm_sfence();
      },
      tbb::simple_partitioner());
  return static_cast<double>(n) * 8.0 / secondsSince(start);
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int main(int argc, char **argv) {
  int64_t n = int64_t{1} << 25; // 4 arrays of 128 MiB.
  int runs = argc > 1 ? std::max(3, std::atoi(argv[1])) : 15;

  TestBundle tables(1);
  abi::View p = tables.view("p", 1, n, abi::DType::F32, 1);
  abi::View grad = tables.view("grad", 1, n, abi::DType::F32, 1);
  abi::View m = tables.view("exp_avg", 1, n, abi::DType::F32, 1);
  abi::View v = tables.view("exp_avg_sq", 1, n, abi::DType::F32, 1);
  abi::View lr = tables.scalar("lr"), coef = tables.scalar("coef");
  abi::View step = tables.scalar("step", abi::DType::I32);
  abi::View skip = tables.scalar("skip");
  add(tables.program("apply"), "adam", abi::TaskKind::Adam,
      {p, grad, m, v, lr, coef, step, skip},
      {.ints = {1, 1, 0}, .reals = {0.9, 0.999, 1e-8, 0.01}});
  const abi::Bundle &bundle = tables.finish();
  auto arenas = RankArenas::allocate({0, 1}, bundle.arenaBytes[0],
                                     bundle.arenaBytes[1], 0);
  if (!arenas.ok()) {
    std::fprintf(stderr, "%s\n", arenas.takeStatus().str().c_str());
    return 3;
  }
  auto executor = Executor::create(bundle, *arenas);
  if (!executor.ok()) {
    std::fprintf(stderr, "%s\n", executor.takeStatus().str().c_str());
    return 3;
  }
  float *gradients = (*executor)->resolve(grad, 0).as<float>();
  for (int64_t i = 0; i < n; ++i)
    gradients[i] = static_cast<float>(i % 1021) * 1e-5f;
  *(*executor)->resolve(lr, 0).as<float>() = 1e-3f;
  *(*executor)->resolve(coef, 0).as<float>() = 1.0f;

  std::vector<double> rates, shares;
  for (int run = 0; run < runs; ++run) {
    double before =
        copyRate(gradients, (*executor)->resolve(m, 0).as<float>(), n);
    auto start = Clock::now();
    if (Status status = (*executor)->run("apply"); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.str().c_str());
      return status.exitCode();
    }
    double rate = static_cast<double>(n) / secondsSince(start);
    double after =
        copyRate(gradients, (*executor)->resolve(m, 0).as<float>(), n);
    if (run == 0)
      continue; // Warms up.
    rates.push_back(rate);
    shares.push_back(rate * kBytes / std::max(before, after));
  }
  std::printf("adam: %.2f G parameters/s; %.0f %% of the bound of copy "
              "bandwidth (least %.0f %%, most %.0f %%, %zu runs)\n",
              median(rates) / 1e9, 100 * median(shares),
              100 * *std::min_element(shares.begin(), shares.end()),
              100 * *std::max_element(shares.begin(), shares.end()),
              shares.size());
  return 0;
}
