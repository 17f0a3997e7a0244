//===- operators_test.cpp - Forward and backward against PyTorch ----------===//
#include "test/tools/oracle/Program.h"

#include <fmt/format.h>

using namespace ciuic::oracle;

// Rows are scaled by their root mean square; the gradients of x and weight.
static void checkNorm(const std::string &name, int64_t rows, int64_t width) {
  Program program(fmt::format(R"(
    func.func @f(%x: tensor<{0}x{1}xf32>, %w: tensor<{1}xf32>,
                 %dy: tensor<{0}x{1}xf32>)
        -> (tensor<{0}x{1}xf32>, tensor<{0}x{1}xf32>, tensor<{1}xf32>) {{
      %y, %rstd = train.rms_norm %x, %w eps 1.0e-05
        : (tensor<{0}x{1}xf32>, tensor<{1}xf32>)
       -> (tensor<{0}x{1}xf32>, tensor<{0}xf32>)
      %dx, %dw = train.rms_norm_grad %dy, %x, %w, %rstd
        : (tensor<{0}x{1}xf32>, tensor<{0}x{1}xf32>, tensor<{1}xf32>,
           tensor<{0}xf32>) -> (tensor<{0}x{1}xf32>, tensor<{1}xf32>)
      return %y, %dx, %dw
        : tensor<{0}x{1}xf32>, tensor<{0}x{1}xf32>, tensor<{1}xf32>
    }})",
                              rows, width));
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results = program.call("f", {reference.get(name + ".x"),
                                    reference.get(name + ".weight"),
                                    reference.get(name + ".dy")});
  expectNear(results[0], reference.get(name + ".y"));
  expectNear(results[1], reference.get(name + ".dx"));
  expectNear(results[2], reference.get(name + ".dweight"));
}

TEST(Operators, RmsNorm) { checkNorm("rms_norm", 15, 37); }

// Rows so small that eps decides.
TEST(Operators, RmsNormOfSmallRows) { checkNorm("rms_norm_small", 4, 7); }

// Two sequences of seven tokens, three heads of ten features; the inverse
// rotation is the backward.
TEST(Operators, Rotary) {
  Program program(R"(
    func.func @f(%x: tensor<14x30xf32>, %dy: tensor<14x30xf32>,
                 %cos: tensor<7x5xf32>, %sin: tensor<7x5xf32>)
        -> (tensor<14x30xf32>, tensor<14x30xf32>) {
      %y = train.rotary %x, %cos, %sin
        : (tensor<14x30xf32>, tensor<7x5xf32>, tensor<7x5xf32>)
       -> tensor<14x30xf32>
      %dx = train.rotary inverse %dy, %cos, %sin
        : (tensor<14x30xf32>, tensor<7x5xf32>, tensor<7x5xf32>)
       -> tensor<14x30xf32>
      return %y, %dx : tensor<14x30xf32>, tensor<14x30xf32>
    })");
  ASSERT_TRUE(program.ok());
  Numbers cos, sin;
  for (int64_t t = 0; t < 7; ++t)
    for (int64_t j = 0; j < 5; ++j) {
      double angle = static_cast<double>(t) * std::pow(1e4, -2.0 * j / 10.0);
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  Reference reference;
  auto results = program.call(
      "f", {reference.get("rotary.x"), reference.get("rotary.dy"), cos, sin});
  expectNear(results[0], reference.get("rotary.y"));
  expectNear(results[1], reference.get("rotary.dx"));
}

// Causal attention of `heads` over `kvHeads`, forward, row sums and backward.
static void checkAttention(const std::string &name, int64_t batch,
                           int64_t heads, int64_t kvHeads, int64_t sequence,
                           int64_t dim, const std::string &scale) {
  std::string query =
      fmt::format("tensor<{}x{}xf32>", batch * sequence, heads * dim);
  std::string key =
      fmt::format("tensor<{}x{}xf32>", batch * sequence, kvHeads * dim);
  std::string sums = fmt::format("tensor<{}x{}xf32>", batch * sequence, heads);
  Program program(fmt::format(
      R"(func.func @f(%q: {0}, %k: {1}, %v: {1}, %dy: {0})
            -> ({0}, {2}, {0}, {1}, {1}) {{
      %y, %lse = train.attention %q, %k, %v seq {3} heads {4} of {5} scale {6}
        : ({0}, {1}, {1}) -> ({0}, {2})
      %dq, %dk, %dv = train.attention_grad %dy, %q, %k, %v, %y, %lse
        seq {3} heads {4} of {5} scale {6}
        : ({0}, {0}, {1}, {1}, {0}, {2}) -> ({0}, {1}, {1})
      return %y, %lse, %dq, %dk, %dv : {0}, {2}, {0}, {1}, {1}
    }})",
      query, key, sums, sequence, heads, kvHeads, scale));
  ASSERT_TRUE(program.ok());

  Reference reference;
  auto get = [&](const char *part, int64_t count, int64_t width) {
    return swapMiddle(reference.get(name + part), batch, count, sequence,
                      width);
  };
  auto results =
      program.call("f", {get(".q", heads, dim), get(".k", kvHeads, dim),
                         get(".v", kvHeads, dim), get(".dout", heads, dim)});
  expectNear(results[0], get(".out", heads, dim));
  expectNear(results[1], get(".lse", heads, 1));
  expectNear(results[2], get(".dq", heads, dim));
  expectNear(results[3], get(".dk", kvHeads, dim));
  expectNear(results[4], get(".dv", kvHeads, dim));
}

TEST(Operators, GroupedQueryAttention) {
  checkAttention("attention_gqa", 2, 4, 2, 9, 8, "0.35355339059327373");
}
TEST(Operators, MultiQueryAttention) {
  checkAttention("attention_mqa", 1, 3, 1, 37, 5, "0.4472135954999579");
}
TEST(Operators, AttentionOfOneToken) {
  checkAttention("attention_one_token", 2, 2, 2, 1, 4, "0.5");
}
// Scores of several hundred: exp of them alone would overflow.
TEST(Operators, AttentionOfLargeScores) {
  checkAttention("attention_large_scores", 1, 2, 2, 17, 6,
                 "0.4082482904638631");
}

TEST(Operators, Linear) {
  Program program(R"(
    func.func @f(%x: tensor<15x7xf32>, %w: tensor<11x7xf32>,
                 %b: tensor<11xf32>, %dy: tensor<15x11xf32>)
        -> (tensor<15x11xf32>, tensor<15x7xf32>, tensor<11x7xf32>,
            tensor<11xf32>) {
      %y = train.linear %x, %w bias %b
        : (tensor<15x7xf32>, tensor<11x7xf32>, tensor<11xf32>)
       -> tensor<15x11xf32>
      %dx = train.matmul %dy, %w
        : (tensor<15x11xf32>, tensor<11x7xf32>) -> tensor<15x7xf32>
      %dw = train.matmul %dy transposed, %x
        : (tensor<15x11xf32>, tensor<15x7xf32>) -> tensor<11x7xf32>
      %db = train.column_sum %dy : (tensor<15x11xf32>) -> tensor<11xf32>
      return %y, %dx, %dw, %db : tensor<15x11xf32>, tensor<15x7xf32>,
                                 tensor<11x7xf32>, tensor<11xf32>
    })");
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results = program.call(
      "f", {reference.get("linear.x"), reference.get("linear.weight"),
            reference.get("linear.bias"), reference.get("linear.dy")});
  expectNear(results[0], reference.get("linear.y"));
  expectNear(results[1], reference.get("linear.dx"));
  expectNear(results[2], reference.get("linear.dweight"));
  expectNear(results[3], reference.get("linear.dbias"));
}

// Rows used more than once add up, unused ones have gradient 0.
TEST(Operators, Embedding) {
  Program program(R"(
    func.func @f(%t: tensor<2x9xi32>, %w: tensor<13x6xf32>,
                 %dy: tensor<18x6xf32>)
        -> (tensor<18x6xf32>, tensor<13x6xf32>) {
      %y = train.embedding %t in %w
        : (tensor<2x9xi32>, tensor<13x6xf32>) -> tensor<18x6xf32>
      %dw = train.embedding_grad %dy at %t
        : (tensor<18x6xf32>, tensor<2x9xi32>) -> tensor<13x6xf32>
      return %y, %dw : tensor<18x6xf32>, tensor<13x6xf32>
    })");
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results = program.call("f", {reference.get("embedding.tokens"),
                                    reference.get("embedding.weight"),
                                    reference.get("embedding.dy")});
  expectNear(results[0], reference.get("embedding.y"));
  expectNear(results[1], reference.get("embedding.dweight"));
}

// silu(gate) * up, and its slope where exp overflows.
TEST(Operators, SiluOfExtremes) {
  Program program(R"(
    func.func @f(%x: tensor<18xf32>) -> (tensor<18xf32>, tensor<18xf32>) {
      %one = arith.constant dense<1.0> : tensor<18xf32>
      %s = train.sigmoid %x : tensor<18xf32>
      %y = arith.mulf %x, %s : tensor<18xf32>
      %t = arith.subf %one, %s : tensor<18xf32>
      %u = arith.mulf %y, %t : tensor<18xf32>
      %dx = arith.addf %s, %u : tensor<18xf32>
      return %y, %dx : tensor<18xf32>, tensor<18xf32>
    })");
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results = program.call("f", {reference.get("silu_extreme.x")});
  expectNear(results[0], reference.get("silu_extreme.y"));
  expectNear(results[1], reference.get("silu_extreme.dx"));
}

// The loss is summed here, its mean there; so the seed is 1 / count.
static void checkCrossEntropy(const std::string &name, int64_t batch,
                              int64_t sequence, int64_t vocabulary) {
  Program program(fmt::format(
      R"(func.func @f(%x: {0}, %labels: {1})
            -> (tensor<f32>, {2}, {0}) {{
      %one = arith.constant dense<1.0> : tensor<f32>
      %loss, %count, %lse = train.cross_entropy %x, %labels
        : ({0}, {1}) -> (tensor<f32>, tensor<f32>, {2})
      %mean = arith.divf %loss, %count : tensor<f32>
      %seed = arith.divf %one, %count : tensor<f32>
      %dx = train.cross_entropy_grad %seed, %x, %labels, %lse
        : (tensor<f32>, {0}, {1}, {2}) -> {0}
      return %mean, %lse, %dx : tensor<f32>, {2}, {0}
    }})",
      fmt::format("tensor<{}x{}xf32>", batch * sequence, vocabulary),
      fmt::format("tensor<{}x{}xi32>", batch, sequence),
      fmt::format("tensor<{}xf32>", batch * sequence)));
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results = program.call(
      "f", {reference.get(name + ".logits"), reference.get(name + ".labels")});
  expectNear(results[0], reference.get(name + ".loss"));
  expectNear(results[1], reference.get(name + ".logsumexp"));
  expectNear(results[2], reference.get(name + ".dlogits"));
}

TEST(Operators, CrossEntropy) { checkCrossEntropy("cross_entropy", 2, 5, 13); }
TEST(Operators, CrossEntropyOfLargeLogits) {
  checkCrossEntropy("cross_entropy_large", 1, 6, 259);
}

// One NaN logit makes the loss NaN, whatever the label.
TEST(Operators, CrossEntropyShowsNaN) {
  Program program(R"(
    func.func @f(%x: tensor<1x3xf32>, %l: tensor<1x1xi32>) -> tensor<f32> {
      %loss, %count, %lse = train.cross_entropy %x, %l
        : (tensor<1x3xf32>, tensor<1x1xi32>)
       -> (tensor<f32>, tensor<f32>, tensor<1xf32>)
      return %loss : tensor<f32>
    })");
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(std::isnan(program.call("f", {{1.0, NAN, 2.0}, {0.0}})[0][0]));
}
