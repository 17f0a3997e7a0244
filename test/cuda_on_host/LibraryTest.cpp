//===- LibraryTest.cpp - Matrix products and collectives --------*- C++ -*-===//
#include "test/cuda_on_host/TestSupport.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <nccl.h>

#include <thread>

using namespace ciuic;
using namespace ciuic::onhost::test;

namespace {

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

/// A product of column-major matrices with odd sizes and gaps between columns.
struct Product {
  static constexpr int m = 5, n = 7, k = 9, ld = 11;
  bool transA, transB;
  float alpha = 2, beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int algorithm = 0;
  size_t workspace = 1 << 20;

  static float a(int i, int x) { return static_cast<float>(i + 2 * x - 7); }
  static float b(int x, int j) { return static_cast<float>(3 * j - x); }
  static float c(int i, int j) { return static_cast<float>(i * j); }
  static float bias(int i) { return static_cast<float>(100 * i); }

  template <typename Fn>
  static std::vector<float> matrix(int rows, int columns, bool trans, Fn &&fn) {
    std::vector<float> all(static_cast<size_t>(ld * (trans ? rows : columns)));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        all[static_cast<size_t>(trans ? i * ld + j : j * ld + i)] = fn(i, j);
    return all;
  }

  /// D as it came out, column-major without gaps.
  std::vector<float> run() {
    float *da = allocate(matrix(m, k, transA, a));
    float *db = allocate(matrix(k, n, transB, b));
    float *dc = allocate(matrix(m, n, false, c));
    std::vector<float> biases;
    for (int i = 0; i < m; ++i)
      biases.push_back(bias(i));
    float *dbias = allocate(biases);
    void *work = allocate<char>(workspace);
    cublasLtHandle_t handle;
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulDesc_t how;
    EXPECT_EQ(cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    auto set = [&](cublasLtMatmulDescAttributes_t what, auto value) {
      EXPECT_EQ(cublasLtMatmulDescSetAttribute(how, what, &value, sizeof value),
                CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transA ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transB ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias);
    cublasLtMatrixLayout_t la, lb, lc;
    cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, transA ? k : m, transA ? m : k,
                               ld);
    cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, transB ? n : k, transB ? k : n,
                               ld);
    cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, ld);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
        sizeof workspace);
    cublasLtMatmulHeuristicResult_t offers[4];
    int found = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, how, la, lb, lc, lc,
                                             preference, 4, offers, &found),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_GT(found, algorithm);
    EXPECT_EQ(cublasLtMatmul(handle, how, &alpha, da, la, db, lb, &beta, dc, lc,
                             dc, lc, &offers[algorithm].algo, work, workspace,
                             nullptr),
              CUBLAS_STATUS_SUCCESS);
    auto padded = read(dc, ld * (n - 1) + m);
    std::vector<float> dense;
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i)
        dense.push_back(padded[static_cast<size_t>(j * ld + i)]);
    for (int i = 0; i < m; ++i)
      biasOut.push_back(read(dbias, m)[static_cast<size_t>(i)]);
    return dense;
  }
  std::vector<float> biasOut = {};

  std::vector<float> expected() const {
    std::vector<float> all;
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        float sum = 0;
        for (int x = 0; x < k; ++x)
          sum += a(i, x) * b(x, j);
        sum = alpha * sum + beta * c(i, j);
        all.push_back(epilogue == CUBLASLT_EPILOGUE_BIAS ? sum + bias(i) : sum);
      }
    return all;
  }
};

// All four ways to transpose, with every offered way of computing, give the
// plain product (of small whole numbers, so exactly).
TEST(Library, MultipliesMatrices) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int algorithm : {0, 1, 2}) {
        start();
        Product p{transA, transB};
        p.algorithm = algorithm;
        EXPECT_EQ(p.run(), p.expected());
        EXPECT_EQ(onhost::takeReports(), noReports());
      }
}

// beta adds to what is there; a bias is added to each column.
TEST(Library, AddsToTheResult) {
  start();
  Product p{false, true};
  p.beta = 3;
  p.epilogue = CUBLASLT_EPILOGUE_BIAS;
  EXPECT_EQ(p.run(), p.expected());
  EXPECT_EQ(onhost::takeReports(), noReports());
}

// The gradient of a bias is the sum of the first factor over k.
TEST(Library, SumsABiasGradient) {
  start();
  Product p{true, false};
  p.epilogue = CUBLASLT_EPILOGUE_BGRADA;
  p.run();
  for (int i = 0; i < Product::m; ++i) {
    float sum = 0;
    for (int x = 0; x < Product::k; ++x)
      sum += Product::a(i, x);
    EXPECT_EQ(p.biasOut[static_cast<size_t>(i)], sum);
  }
}

// A workspace one byte too small for the algorithm is refused.
TEST(Library, RefusesASmallWorkspace) {
  start();
  cublasLtHandle_t handle;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDesc_t how;
  cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayout_t layout;
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 4);
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulPreferenceCreate(&preference);
  uint64_t most = 1 << 20;
  cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  cublasLtMatmulHeuristicResult_t offer;
  int found = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, how, layout, layout, layout,
                                           layout, preference, 1, &offer,
                                           &found),
            CUBLAS_STATUS_SUCCESS);
  float *x = allocate(std::vector<float>(16, 1.0f));
  void *work = allocate<char>(offer.workspaceSize);
  float one = 1, zero = 0;
  auto multiply = [&](size_t bytes) {
    return cublasLtMatmul(handle, how, &one, x, layout, x, layout, &zero, x,
                          layout, x, layout, &offer.algo, work, bytes, nullptr);
  };
  EXPECT_EQ(multiply(offer.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(offer.workspaceSize), CUBLAS_STATUS_SUCCESS);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Devices with two communicators over all of them and a stream for each.
struct Ranks {
  explicit Ranks(int count) : count(count) {
    ncclUniqueId ids[2];
    for (ncclUniqueId &id : ids)
      EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    all.resize(static_cast<size_t>(count));
    for (int which : {0, 1}) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (int r = 0; r < count; ++r) {
        EXPECT_EQ(cudaSetDevice(r), cudaSuccess);
        EXPECT_EQ(ncclCommInitRank(&at(r).comms[which], count, ids[which], r),
                  ncclSuccess);
      }
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    for (int r = 0; r < count; ++r) {
      EXPECT_EQ(cudaSetDevice(r), cudaSuccess);
      for (cudaStream_t &stream : at(r).streams)
        EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                  cudaSuccess);
    }
  }
  struct Rank {
    ncclComm_t comms[2];
    cudaStream_t streams[2];
  };
  Rank &at(int r) { return all[static_cast<size_t>(r)]; }

  void synchronize() {
    for (int r = 0; r < count; ++r) {
      EXPECT_EQ(cudaSetDevice(r), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
  int count;
  std::vector<Rank> all;
};

// Rank r's chunk comes to place r of every rank, also in place.
TEST(Library, GathersChunks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed, 3);
    Ranks ranks(3);
    std::vector<float *> wholes;
    for (int r = 0; r < 3; ++r) {
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      float *whole = allocate<float>(12);
      std::vector<float> mine(4, static_cast<float>(r + 1));
      ASSERT_EQ(
          cudaMemcpy(whole + 4 * r, mine.data(), 16, cudaMemcpyHostToDevice),
          cudaSuccess);
      ASSERT_EQ(ncclAllGather(whole + 4 * r, whole, 4, ncclFloat32,
                              ranks.at(r).comms[0], ranks.at(r).streams[0]),
                ncclSuccess);
      wholes.push_back(whole);
    }
    ranks.synchronize();
    for (int r = 0; r < 3; ++r) {
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      EXPECT_EQ(read(wholes[static_cast<size_t>(r)], 12),
                (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
    }
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

// A reduce-scatter of means and an all-reduce of sums, on two communicators of
// which each rank's thread enters in the same order.
TEST(Library, ReducesOverRanks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    start(seed, 2);
    Ranks ranks(2);
    std::vector<std::vector<float>> chunks(2), sums(2);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
        float *whole = allocate(std::vector<float>{1.0f + r, 2.0f + r, 3, 4});
        float *chunk = allocate<float>(2), *sum = allocate<float>(4);
        ASSERT_EQ(ncclReduceScatter(whole, chunk, 2, ncclFloat32, ncclAvg,
                                    ranks.at(r).comms[0],
                                    ranks.at(r).streams[0]),
                  ncclSuccess);
        ASSERT_EQ(ncclAllReduce(whole, sum, 4, ncclFloat32, ncclSum,
                                ranks.at(r).comms[1], ranks.at(r).streams[1]),
                  ncclSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        chunks[static_cast<size_t>(r)] = read(chunk, 2);
        sums[static_cast<size_t>(r)] = read(sum, 4);
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(chunks[0], (std::vector<float>{1.5, 2.5}));
    EXPECT_EQ(chunks[1], (std::vector<float>{3, 4}));
    EXPECT_EQ(sums[0], (std::vector<float>{3, 5, 6, 8}));
    EXPECT_EQ(sums[1], sums[0]);
    EXPECT_EQ(onhost::takeReports(), noReports());
  }
}

/// One all-gather and one all-reduce on each of two ranks, as a program does
/// that enters them in one order.
void enterBoth(Ranks &ranks, bool swapOnSecond) {
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
    float *x = allocate(std::vector<float>(4, 1.0f));
    float *whole = allocate<float>(8), *sum = allocate<float>(4);
    auto gather = [&] {
      ASSERT_EQ(ncclAllGather(x, whole, 4, ncclFloat32, ranks.at(r).comms[0],
                              ranks.at(r).streams[0]),
                ncclSuccess);
    };
    auto reduce = [&] {
      ASSERT_EQ(ncclAllReduce(x, sum, 4, ncclFloat32, ncclSum,
                              ranks.at(r).comms[1], ranks.at(r).streams[1]),
                ncclSuccess);
    };
    if (r == 1 && swapOnSecond) {
      reduce();
      gather();
    } else {
      gather();
      reduce();
    }
  }
}

// Ranks that enter two communicators in different orders are found, though
// nothing hangs here.
TEST(Library, FindsAnotherOrderAcrossCommunicators) {
  start(1, 2);
  Ranks ranks(2);
  enterBoth(ranks, true);
  EXPECT_TRUE(contains(onhost::takeReports(), "in another order"));
}

// The fault that swaps two collectives of one device is found the same way.
TEST(Library, FindsSwappedCollectives) {
  start(1, 2);
  Ranks ranks(2);
  onhost::inject(onhost::Fault::SwapCollectives, 2);
  enterBoth(ranks, false);
  EXPECT_TRUE(contains(onhost::takeReports(), "in another order"));
  EXPECT_EQ(onhost::injected(), 1u);
}

// A rank that moves one element less than the others is found.
TEST(Library, FindsAnotherSize) {
  start(1, 2);
  Ranks ranks(2);
  onhost::inject(onhost::Fault::ShrinkCollective, 1);
  enterBoth(ranks, false);
  auto reports = onhost::takeReports();
  EXPECT_TRUE(contains(reports, "collectives differ"));
  EXPECT_TRUE(contains(reports, "of 3 elements"));
}

// A rank that never enters is named.
TEST(Library, NamesTheRankThatIsMissing) {
  start(1, 2);
  Ranks ranks(2);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  float *x = allocate(std::vector<float>(4, 1.0f));
  ASSERT_EQ(ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, ranks.at(0).comms[0],
                          ranks.at(0).streams[0]),
            ncclSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_TRUE(
      contains(onhost::takeReports(), "these ranks have not entered: 1"));
}

// After an abort the streams go on.
TEST(Library, AbortsACollective) {
  start(1, 2);
  Ranks ranks(2);
  onhost::inject(onhost::Fault::NeverEnter, 1);
  enterBoth(ranks, false);
  for (int r = 0; r < 2; ++r)
    for (ncclComm_t comm : ranks.at(r).comms)
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  ranks.synchronize();
  EXPECT_EQ(onhost::takeReports(), noReports());
}

// Reading what a collective receives on another stream needs an event.
TEST(Library, FindsAMissingEventBehindACollective) {
  start(1, 1);
  Ranks ranks(1);
  float *x = allocate(std::vector<float>(4, 1.0f));
  float *host = nullptr;
  ASSERT_EQ(cudaMallocHost(&host, 16), cudaSuccess);
  ASSERT_EQ(ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, ranks.at(0).comms[0],
                          ranks.at(0).streams[0]),
            ncclSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, x, 16, cudaMemcpyDeviceToHost,
                            ranks.at(0).streams[1]),
            cudaSuccess);
  EXPECT_TRUE(contains(onhost::takeReports(), "race: "));
}

} // namespace
