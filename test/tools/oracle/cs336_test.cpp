//===- cs336_test.cpp - Operators against a course's snapshots ------------===//
//
// The snapshots are arrays of a public assignment, present where the corpus
// is; without it these tests are skipped.
//
//===----------------------------------------------------------------------===//
#include "test/tools/oracle/Program.h"

#include <fmt/format.h>

#include <fstream>

using namespace ciuic::oracle;

/// Little-endian elements of a raw file; empty if it is absent.
template <typename T> static Numbers readRaw(const std::string &name) {
  std::ifstream file(CIUIC_CORPUS_DIR "/assets/cs336_fixture/" + name,
                     std::ios::binary);
  Numbers numbers;
  T element;
  while (file.read(reinterpret_cast<char *>(&element), sizeof element))
    numbers.push_back(static_cast<double>(element));
  return numbers;
}

// Their mask keeps any set of keys, our attention is causal: so each query
// stands last in a sequence of the keys that it keeps.
TEST(CS336, ScaledDotProductAttention) {
  Numbers q = readRaw<float>("sdpa_q_4x12x64.f32");
  Numbers k = readRaw<float>("sdpa_k_4x16x64.f32");
  Numbers v = readRaw<float>("sdpa_v_4x16x64.f32");
  Numbers mask = readRaw<uint8_t>("sdpa_mask_4x12x16.u8");
  Numbers expected = readRaw<float>("sdpa_expected_4x12x64.f32");
  if (expected.empty())
    GTEST_SKIP() << "the fixture is absent";
  ASSERT_EQ(q.size(), 4u * 12 * 64);
  ASSERT_EQ(k.size(), 4u * 16 * 64);
  ASSERT_EQ(v.size(), k.size());
  ASSERT_EQ(mask.size(), 4u * 12 * 16);
  ASSERT_EQ(expected.size(), q.size());

  std::string text;
  for (int keys = 1; keys <= 16; ++keys)
    text += fmt::format(
        R"(func.func @of_{0}(%q: tensor<{0}x64xf32>, %k: tensor<{0}x64xf32>,
                             %v: tensor<{0}x64xf32>) -> tensor<{0}x64xf32> {{
          %y, %lse = train.attention %q, %k, %v seq {0} heads 1 of 1 scale 0.125
            : (tensor<{0}x64xf32>, tensor<{0}x64xf32>, tensor<{0}x64xf32>)
           -> (tensor<{0}x64xf32>, tensor<{0}x1xf32>)
          return %y : tensor<{0}x64xf32>
        }}
        )",
        keys);
  Program program(text, /*exact=*/false);
  ASSERT_TRUE(program.ok());

  for (int batch = 0; batch < 4; ++batch)
    for (int row = 0; row < 12; ++row) {
      Numbers keys, values;
      for (int column = 0; column < 16; ++column)
        if (mask[(batch * 12 + row) * 16 + column] != 0.0) {
          auto first = (batch * 16 + column) * 64;
          keys.insert(keys.end(), k.begin() + first, k.begin() + first + 64);
          values.insert(values.end(), v.begin() + first,
                        v.begin() + first + 64);
        }
      size_t kept = keys.size() / 64;
      ASSERT_GE(kept, 1u);
      Numbers queries(keys.size()); // All but the last are ignored.
      auto query = q.begin() + (batch * 12 + row) * 64;
      std::copy(query, query + 64, queries.end() - 64);
      Numbers result = program.call("of_" + std::to_string(kept),
                                    {queries, keys, values})[0];
      auto wanted = expected.begin() + (batch * 12 + row) * 64;
      expectNear(Numbers(result.end() - 64, result.end()),
                 Numbers(wanted, wanted + 64), 1e-6);
    }
}

// Theirs turns features 2j and 2j + 1, ours j and j + 32.
TEST(CS336, RotaryOfInterleavedPairs) {
  Numbers input = readRaw<float>("rope_in_4x12x64.f32");
  Numbers expected = readRaw<float>("rope_expected_4x12x64.f32");
  if (expected.empty())
    GTEST_SKIP() << "the fixture is absent";
  ASSERT_EQ(input.size(), 4u * 12 * 64);
  ASSERT_EQ(expected.size(), input.size());
  Program program(R"(
    func.func @f(%x: tensor<48x64xf32>, %cos: tensor<12x32xf32>,
                 %sin: tensor<12x32xf32>) -> tensor<48x64xf32> {
      %y = train.rotary %x, %cos, %sin
        : (tensor<48x64xf32>, tensor<12x32xf32>, tensor<12x32xf32>)
       -> tensor<48x64xf32>
      return %y : tensor<48x64xf32>
    })",
                  /*exact=*/false);
  ASSERT_TRUE(program.ok());
  Numbers cos, sin;
  for (int t = 0; t < 12; ++t)
    for (int j = 0; j < 32; ++j) {
      cos.push_back(std::cos(t * std::pow(1e4, -2.0 * j / 64.0)));
      sin.push_back(std::sin(t * std::pow(1e4, -2.0 * j / 64.0)));
    }
  // [row][pair][part] to [row][part][pair], and back.
  Numbers halves = swapMiddle(input, 48, 32, 2, 1);
  Numbers result = program.call("f", {halves, cos, sin})[0];
  expectNear(swapMiddle(result, 48, 2, 32, 1), expected, 3e-6);
}

// A linear layer learns (x0 + x1, -x2) from a thousand samples.
TEST(CS336, AdamWOnALinearLayer) {
  Numbers weight = readRaw<float>("adamw_w0_2x3.f32");
  Numbers samples = readRaw<float>("adamw_x_1000x3.f32");
  Numbers expected = readRaw<float>("adamw_expected_w1000_2x3.f32");
  if (expected.empty())
    GTEST_SKIP() << "the fixture is absent";
  ASSERT_EQ(weight.size(), 6u);
  ASSERT_EQ(samples.size(), 3000u);
  Program program(R"(
    func.func @f(%w: tensor<2x3xf32>, %m: tensor<2x3xf32>, %v: tensor<2x3xf32>,
                 %step: tensor<i32>, %x: tensor<1x3xf32>, %t: tensor<1x2xf32>)
        -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
      %y = train.linear %x, %w
        : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
      %d = arith.subf %y, %t : tensor<1x2xf32>
      %dy = arith.addf %d, %d : tensor<1x2xf32>
      %g = train.matmul %dy transposed, %x
        : (tensor<1x2xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
      %lr = arith.constant dense<1.0e-3> : tensor<f32>
      %coef = arith.constant dense<1.0> : tensor<f32>
      %skip = arith.constant dense<0.0> : tensor<f32>
      %nw, %nm, %nv = train.adam %w, %g, %m, %v lr %lr coef %coef step %step
        skip %skip {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-08, decay = 0.01,
                    decoupled, bias_correction}
        : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
           tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>)
       -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
      return %nw, %nm, %nv : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
    })",
                  /*exact=*/false);
  ASSERT_TRUE(program.ok());
  std::vector<Numbers> state = {weight, Numbers(6), Numbers(6)};
  for (int step = 0; step < 1000; ++step) {
    Numbers x(samples.begin() + 3 * step, samples.begin() + 3 * step + 3);
    state = program.call("f", {state[0],
                               state[1],
                               state[2],
                               {static_cast<double>(step)},
                               x,
                               {x[0] + x[1], -x[2]}});
  }
  expectNear(state[0], expected, 1e-4);
}
