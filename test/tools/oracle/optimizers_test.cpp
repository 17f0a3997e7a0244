//===- optimizers_test.cpp - Five steps of each against PyTorch -----------===//
#include "test/tools/oracle/Program.h"

#include <fmt/format.h>

using namespace ciuic::oracle;

static constexpr int64_t kSteps = 5, kSize = 19; // Of the reference's tensors.

// m, v and the parameter after each of five steps on given gradients.
static void checkAdam(const std::string &name, const std::string &decoupled) {
  Program program(fmt::format(R"(
    func.func @f(%p: tensor<19xf32>, %g: tensor<19xf32>, %m: tensor<19xf32>,
                 %v: tensor<19xf32>, %step: tensor<i32>)
        -> (tensor<19xf32>, tensor<19xf32>, tensor<19xf32>) {{
      %lr = arith.constant dense<0.01> : tensor<f32>
      %coef = arith.constant dense<1.0> : tensor<f32>
      %skip = arith.constant dense<0.0> : tensor<f32>
      %np, %nm, %nv = train.adam %p, %g, %m, %v lr %lr coef %coef step %step
        skip %skip {{beta1 = 0.9, beta2 = 0.95, eps = 1.0e-08, decay = 0.1,
                    {} bias_correction}}
        : (tensor<19xf32>, tensor<19xf32>, tensor<19xf32>, tensor<19xf32>,
           tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>)
       -> (tensor<19xf32>, tensor<19xf32>, tensor<19xf32>)
      return %np, %nm, %nv : tensor<19xf32>, tensor<19xf32>, tensor<19xf32>
    }})",
                              decoupled));
  ASSERT_TRUE(program.ok());
  Reference reference;
  // f32 text: 0.01 is not the double 0.01.
  double tolerance = 1e-7;
  std::vector<Numbers> state = {reference.get(name + ".initial"),
                                Numbers(kSize), Numbers(kSize)};
  for (int64_t step = 0; step < kSteps; ++step) {
    state = program.call("f", {state[0],
                               reference.row(name + ".gradients", step, kSize),
                               state[1],
                               state[2],
                               {static_cast<double>(step)}});
    expectNear(state[0], reference.row(name + ".parameters", step, kSize),
               tolerance);
    expectNear(state[1], reference.row(name + ".first_moments", step, kSize),
               tolerance);
    expectNear(state[2], reference.row(name + ".second_moments", step, kSize),
               tolerance);
  }
}

TEST(Optimizers, AdamW) { checkAdam("adamw", "decoupled,"); }
TEST(Optimizers, AdamWithCoupledDecay) { checkAdam("adam_l2", ""); }

static void checkSGD(const std::string &name, double momentum) {
  Program program(fmt::format(R"(
    func.func @f(%p: tensor<19xf32>, %g: tensor<19xf32>, %m: tensor<19xf32>)
        -> (tensor<19xf32>, tensor<19xf32>) {{
      %lr = arith.constant dense<0.01> : tensor<f32>
      %coef = arith.constant dense<1.0> : tensor<f32>
      %skip = arith.constant dense<0.0> : tensor<f32>
      %np, %nm = train.sgd %p, %g, %m lr %lr coef %coef skip %skip
        {{momentum = {:.1f}, decay = 0.1}}
        : (tensor<19xf32>, tensor<19xf32>, tensor<19xf32>, tensor<f32>,
           tensor<f32>, tensor<f32>) -> (tensor<19xf32>, tensor<19xf32>)
      return %np, %nm : tensor<19xf32>, tensor<19xf32>
    }})",
                              momentum));
  ASSERT_TRUE(program.ok());
  Reference reference;
  std::vector<Numbers> state = {reference.get(name + ".initial"),
                                Numbers(kSize)};
  for (int64_t step = 0; step < kSteps; ++step) {
    state = program.call(
        "f",
        {state[0], reference.row(name + ".gradients", step, kSize), state[1]});
    expectNear(state[0], reference.row(name + ".parameters", step, kSize),
               1e-8);
    if (momentum > 0.0)
      expectNear(state[1], reference.row(name + ".momentum", step, kSize),
                 1e-8);
  }
}

TEST(Optimizers, SGD) { checkSGD("sgd", 0.0); }
TEST(Optimizers, SGDWithMomentum) { checkSGD("sgd_momentum", 0.9); }

// One norm over all tensors; every gradient is multiplied by the coefficient.
TEST(Optimizers, ClipByGlobalNorm) {
  Program program(R"(
    func.func @f(%g0: tensor<3x5xf32>, %g1: tensor<7xf32>, %g2: tensor<1xf32>)
        -> (tensor<f32>, tensor<f32>) {
      %one = arith.constant dense<1.0> : tensor<f32>
      %squares = train.square_sum %g0, %g1, %g2
        : (tensor<3x5xf32>, tensor<7xf32>, tensor<1xf32>) -> tensor<f64>
      %coef, %norm, %skip = train.grad_scale %squares, %one, %one
        slots 1.0 clip 0.5
        : (tensor<f64>, tensor<f32>, tensor<f32>)
       -> (tensor<f32>, tensor<f32>, tensor<f32>)
      return %coef, %norm : tensor<f32>, tensor<f32>
    })");
  ASSERT_TRUE(program.ok());
  Reference reference;
  auto results =
      program.call("f", {reference.get("clip.g0"), reference.get("clip.g1"),
                         reference.get("clip.g2")});
  expectNear(results[0], reference.get("clip.coefficient"));
  expectNear(results[1], reference.get("clip.norm"));
}
