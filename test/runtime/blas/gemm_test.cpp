//===- gemm_test.cpp - Matrix products against their definition -----------===//
#include "test/runtime/OperationHarness.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <thread>
#include <ucontext.h>
#include <vector>

namespace ciuic::rt::test {
namespace {

struct Case {
  int64_t m, n, k;
  bool transposeA, transposeB, accumulate, bias;
  DType in, out;
  int64_t gap = 0;
};

struct Product {
  explicit Product(const Case &c)
      : c(c),
        a(c.transposeA ? c.k : c.m, c.transposeA ? c.m : c.k, c.in, c.gap),
        b(c.transposeB ? c.n : c.k, c.transposeB ? c.k : c.n, c.in, c.gap),
        out(c.m, c.n, c.out, c.gap), bias(1, c.n, c.out) {
    a.random(1);
    b.random(2);
    out.random(3, c.accumulate ? 5 : 0);
    bias.random(4);
  }

  Status run(int threads = 2, int times = 1) {
    std::vector<Tensor> views = {a.tensor(), b.tensor(), out.tensor()};
    if (c.bias)
      views.push_back(bias.tensor());
    return TaskRun{.kind = TaskKind::Gemm,
                   .views = views,
                   .ints = {c.transposeA, c.transposeB, c.accumulate},
                   .threads = threads}
        .run(times);
  }

  std::vector<double> reference() const {
    std::vector<double> all;
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum =
            (c.accumulate ? out.get(i, j) : 0) + (c.bias ? bias.get(0, j) : 0);
        for (int64_t k = 0; k < c.k; ++k)
          sum += (c.transposeA ? a.get(k, i) : a.get(i, k)) *
                 (c.transposeB ? b.get(j, k) : b.get(k, j));
        all.push_back(sum);
      }
    return all;
  }

  Case c;
  Matrix a, b, out, bias;
};

class GemmTest : public testing::TestWithParam<Case> {};

// C = op(A) op(B) [+ bias] [+ C], for sizes within a tile, of several tiles,
// and odd ones; whatever code multiplies the types.
TEST_P(GemmTest, MatchesDefinition) {
  Product product(GetParam());
  std::vector<double> expected = product.reference();
  EXPECT_OK(product.run());
  EXPECT_LE(relativeError(product.out.values(), expected),
            tolerance(product.c.out));
}

constexpr DType f32 = DType::F32, f16 = DType::F16, bf16 = DType::BF16;

INSTANTIATE_TEST_SUITE_P(
    Shapes, GemmTest,
    testing::Values(Case{1, 1, 1, false, false, false, false, f32, f32},
                    Case{31, 33, 17, false, true, false, true, f32, f32, 3},
                    Case{33, 31, 1023, true, false, true, false, f32, f32},
                    Case{300, 700, 65, false, false, true, true, f32, f32, 1},
                    Case{1, 513, 31, false, true, false, false, f32, f32},
                    Case{257, 1, 9, false, true, false, true, f32, f32},
                    Case{31, 33, 17, false, true, false, true, f16, f16, 3},
                    Case{33, 31, 1023, true, false, true, false, f16, f16},
                    Case{300, 700, 300, true, true, true, true, f16, f16, 1},
                    Case{65, 40, 257, false, false, false, false, f16, f32},
                    Case{31, 33, 17, false, true, false, true, bf16, bf16, 3},
                    Case{33, 31, 1023, true, false, true, false, bf16, bf16},
                    Case{300, 700, 300, false, false, true, true, bf16, bf16,
                         1},
                    Case{65, 40, 257, true, false, true, false, bf16, f32},
                    Case{12, 32, 256, false, false, false, false, f32, bf16}));

// A product over nothing is zero, or what is added to.
TEST(GemmTest, EmptyProducts) {
  Product zero({3, 5, 0, false, false, false, true, f32, f32});
  EXPECT_OK(zero.run());
  EXPECT_EQ(zero.out.get(2, 4), zero.bias.get(0, 4));
  Product none({0, 5, 3, false, false, false, false, f32, f32});
  EXPECT_OK(none.run());
}

// The number of threads does not change a bit.
TEST(GemmTest, SameBitsOnAnyThreads) {
  for (DType dtype : {f32, bf16, f16}) {
    Product one({1023, 1100, 97, false, true, true, false, dtype, dtype});
    Product two(one.c);
    EXPECT_OK(one.run(1));
    EXPECT_OK(two.run(2));
    EXPECT_TRUE(one.out.sameBits(two.out));
  }
}

// inf and NaN go through every implementation.
TEST(GemmTest, NonFiniteValuesSurvive) {
  for (DType dtype : {f32, bf16, f16}) {
    Product product({70, 70, 70, false, true, false, false, dtype, dtype});
    product.a.set(5, 6, NAN);
    product.a.set(9, 6, INFINITY);
    product.b.fill(1);
    EXPECT_OK(product.run());
    EXPECT_TRUE(std::isnan(product.out.get(5, 69)));
    EXPECT_EQ(product.out.get(9, 0), INFINITY);
    EXPECT_TRUE(std::isfinite(product.out.get(6, 6)));
  }
}

// 16-bit products are summed in f32: 4096 ones are 4096, not where f16 or bf16
// sums would stop.
TEST(GemmTest, SumsInF32) {
  for (DType dtype : {bf16, f16}) {
    Product product({2, 3, 4096, false, true, false, false, dtype, dtype});
    product.a.fill(1);
    product.b.fill(1);
    EXPECT_OK(product.run());
    EXPECT_EQ(product.out.get(1, 2), 4096);
  }
}

// Shapes that do not fit, and a result on top of an operand, are refused.
TEST(GemmTest, Refuses) {
  Product product({4, 5, 6, false, false, false, false, f32, f32});
  auto run = [](std::vector<Tensor> views, std::vector<int64_t> ints) {
    return TaskRun{.kind = TaskKind::Gemm, .views = views, .ints = ints}
        .run()
        .code();
  };
  Tensor a = product.a.tensor(), b = product.b.tensor(),
         c = product.out.tensor();
  EXPECT_EQ(run({a, b, c}, {0, 1, 0}), Code::Invalid);
  EXPECT_EQ(run({a, b}, {0, 0, 0}), Code::Invalid);
  EXPECT_EQ(run({a, b, c}, {0, 0}), Code::Invalid);
  Matrix square(6, 6);
  Tensor s = square.tensor();
  EXPECT_EQ(run({s, s, s}, {0, 0, 0}), Code::Invalid);
  Tensor wrong = a;
  wrong.dtype = DType::I32;
  EXPECT_EQ(run({wrong, b, c}, {0, 0, 0}), Code::Invalid);
}

/// Where the calling thread's stack pointer was when SIGUSR1 interrupted it.
/// The handler has a stack of its own: it harms nothing.
class StackWatch {
public:
  StackWatch() : own(1 << 17) {
    pthread_attr_t attributes;
    void *base = nullptr;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &base, &bytes);
    pthread_attr_destroy(&attributes);
    begin = reinterpret_cast<uintptr_t>(base);
    end = begin + bytes;
    within = elsewhere = 0;
    stack_t stack{};
    stack.ss_sp = own.data();
    stack.ss_size = own.size();
    sigaltstack(&stack, &stackBefore);
    struct sigaction action{};
    action.sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART;
    action.sa_sigaction = [](int, siginfo_t *, void *context) {
      auto at = static_cast<uintptr_t>(
          static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RSP]);
      (at >= begin && at < end ? within : elsewhere) += 1;
    };
    sigaction(SIGUSR1, &action, &actionBefore);
  }
  ~StackWatch() {
    sigaction(SIGUSR1, &actionBefore, nullptr);
    sigaltstack(&stackBefore, nullptr);
  }

  static inline std::atomic<int> within, elsewhere;

private:
  static inline uintptr_t begin, end;
  std::vector<std::byte> own;
  stack_t stackBefore{};
  struct sigaction actionBefore{};
};

// A signal interrupts a thread only where its frame has a place on the stack:
// not within code that uses the stack pointer for something else, as oneDNN
// does for the first of these shapes.
TEST(GemmTest, SignalsFindAStack) {
  for (const Case &c :
       {Case{259, 64, 128, true, false, true, false, f32, f32},
        Case{144, 64, 900, true, false, true, false, f32, f32},
        Case{256, 512, 700, false, true, false, true, f32, f32},
        Case{144, 64, 128, true, false, true, false, bf16, f32},
        Case{144, 64, 128, true, false, true, false, f16, f16}}) {
    Product product(c);
    StackWatch watch;
    std::atomic<bool> over{false};
    std::thread sender([&, target = pthread_self()] {
      while (!over) {
        pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
    // The sender may be late: until one has come.
    for (int round = 0; round < 1000 && watch.within == 0; ++round)
      EXPECT_OK(product.run(1, 300));
    over = true;
    sender.join();
    EXPECT_GT(watch.within, 0);
    EXPECT_EQ(watch.elsewhere, 0)
        << product.c.m << " x " << product.c.k << " x " << product.c.n;
  }
}

// A rate is measured for every training type.
TEST(GemmTest, MeasuresItsPeak) {
  EXPECT_GT(measureGemmPeak(f32, 1), 1e8);
  EXPECT_GT(measureGemmPeak(f16, 1), 1e8);
}

} // namespace
} // namespace ciuic::rt::test
