//===- special_values.cpp - Infinities and NaN through compiled kernels ---===//
//
// Linked with the kernels of kernels.mlir, compiled as a bundle compiles them.
// Says "ok" and ends with 0 if all came out as IEEE 754 has it, at each place
// of a row in turn: in the vector part of a loop and in its rest.
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/host/Kernel.h"

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

using ciuic::kernel::bf16;
using ciuic::kernel::f16;
using Kernel = void(int64_t, int64_t, void *const *);
extern "C" Kernel fused_sigmoid_mulf_4x37, fused_maximumf_4x37, fused_subf_4x37,
    fused_addf_4x37, fused_addf_4x37_2, rms_norm_4x37;

static constexpr int kRows = 4, kColumns = 37;
static constexpr float kInf = std::numeric_limits<float>::infinity();
static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
static int failures = 0;

/// Whether `found` is `expected`, NaN being equal to NaN.
static void expect(const char *what, float value, int column, float found,
                   float expected) {
  if (found == expected || (found != found && expected != expected))
    return;
  std::printf("%s of %g at column %d: found %g, expected %g\n", what, value,
              column, found, expected);
  ++failures;
}

/// The result of `kernel` at (1, column) for operands that are 1 everywhere but
/// there.
template <typename T>
static float run(Kernel *kernel, int column, float x, float y, int inputs) {
  std::vector<float> in0(kRows * kColumns, 1.0f), in1(in0);
  in0[kColumns + column] = x;
  in1[kColumns + column] = y;
  std::vector<T> out(kRows * kColumns);
  void *two[] = {in0.data(), in1.data(), out.data()};
  void *one[] = {in0.data(), out.data()};
  kernel(0, kRows, inputs == 2 ? two : one);
  return ciuic::kernel::toFloat(out[kColumns + column]);
}

static void checkNorm(int column, float value) {
  std::vector<float> in(kRows * kColumns, 1.0f), weight(kColumns, 1.0f),
      out(in), rstd(kRows);
  in[kColumns + column] = value;
  void *pointers[] = {in.data(), weight.data(), out.data(), rstd.data()};
  rms_norm_4x37(0, kRows, pointers);
  // One infinity makes the row's norm infinite: 1/inf, and inf/inf there.
  int other = (column + 1) % kColumns;
  expect("norm", value, column, out[kColumns + column], kNaN);
  expect("norm beside", value, column, out[kColumns + other],
         value != value ? kNaN : 0.0f);
  for (int row : {0, 2, 3})
    if (!(std::fabs(out[row * kColumns + column] - 1.0f) < 1e-3f))
      expect("norm of another row", value, column, out[row * kColumns + column],
             1.0f);
}

int main() {
  for (int column = 0; column < kColumns; ++column) {
    auto swiglu = [&](float x, float y, float expected) {
      expect("swiglu", x, column,
             run<float>(fused_sigmoid_mulf_4x37, column, x, y, 2), expected);
    };
    swiglu(kInf, 2.0f, kInf);
    swiglu(kInf, -2.0f, -kInf);
    swiglu(-kInf, 2.0f, kNaN); // -inf * 0
    swiglu(kNaN, 2.0f, kNaN);
    swiglu(0.0f, kInf, kNaN);
    swiglu(FLT_MAX, FLT_MAX, kInf);
    swiglu(-1000.0f, 1.0f, 0.0f); // exp(1000) is inf, 1/inf is 0.

    auto largest = [&](float x, float y, float expected) {
      expect("largest", x, column,
             run<float>(fused_maximumf_4x37, column, x, y, 2), expected);
    };
    largest(kNaN, 1.0f, kNaN);
    largest(1.0f, kNaN, kNaN);
    largest(kInf, 1.0f, kInf);
    largest(-kInf, 1.0f, 1.0f);

    // x - x must not be taken for 0.
    for (float x : {kInf, -kInf, kNaN})
      expect("x - x", x, column, run<float>(fused_subf_4x37, column, x, 0, 1),
             kNaN);

    // Rounding to 16 bits: too large becomes inf, NaN stays.
    for (float x : {kInf, kNaN, -kInf})
      expect("f16", x, column, run<f16>(fused_addf_4x37, column, x, 0, 1),
             x + x);
    expect("f16", 40000, column,
           run<f16>(fused_addf_4x37, column, 40000.0f, 0, 1), kInf);
    for (float x : {kInf, kNaN, -kInf})
      expect("bf16", x, column, run<bf16>(fused_addf_4x37_2, column, x, 0, 1),
             x + x);
    expect("bf16", FLT_MAX / 3, column,
           run<bf16>(fused_addf_4x37_2, column, FLT_MAX / 3, 0, 1), kInf);

    for (float x : {kInf, -kInf, kNaN})
      checkNorm(column, x);
  }
  if (failures == 0)
    std::puts("ok");
  return failures != 0;
}
