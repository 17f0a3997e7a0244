// Every op that a kernel may hold, as C++ and as CUDA.
//
// RUN: rm -rf %t && ciuicc compile --model %s --start-from emit --micro-batch 1 -o %t
// RUN: FileCheck %s < %t/src/kernels.cpp
// RUN: sed 's/^module @ops attributes {/&sched.target = "cuda", sched.architectures = "sm_80", /' %s > %t/cuda.mlir
// RUN: ciuicc compile --model %t/cuda.mlir --start-from emit --micro-batch 1 --target cuda --no-build -o %t/cuda
// RUN: FileCheck %s --check-prefix=CUDA < %t/cuda/src/kernels.cu

// CHECK: #include "runtime/kernels/host/Kernel.h"
// CHECK: using namespace ciuic::kernel;
// CUDA: #include "runtime/kernels/cuda/Kernel.cuh"
// CUDA-NEXT: #include "runtime/kernels/cuda/Launch.h"
// CUDA: using namespace ciuic::cuda;

module @ops attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64, sched.ranks = 1 : i64} {
sched.buffer @buf.tokens 16 bytes in device at 0

// A kernel's operands tell their shapes; the host does a range of rows, a warp
// of a GPU one row and its lanes the columns.
//
// CHECK: /// arithmetic_4x8: first for layers.0.mlp.
// CHECK-NEXT: extern "C" void arithmetic_4x8(int64_t begin, int64_t end,
// CHECK-NEXT: void *const *pointers) {
// CHECK-NEXT: auto *CIUIC_RESTRICT in0 = static_cast<const float *>(pointers[0]); // 4x8
// CHECK-NEXT: auto *CIUIC_RESTRICT in1 = static_cast<const float *>(pointers[1]); // 8
// CHECK-NEXT: auto *CIUIC_RESTRICT out0 = static_cast<float *>(pointers[2]); // 4x8
// CHECK-NEXT: for (int64_t row = begin; row < end; ++row) {
// CHECK-NEXT: CIUIC_SIMD
// CHECK-NEXT: for (int64_t j0 = 0; j0 < 8; ++j0) {
// CHECK-NEXT: const float t0 = in0[row * 8 + j0];
// CHECK-NEXT: const float t1 = in1[j0];
// CHECK-NEXT: out0[row * 8 + j0] = (-(((t0 + t1) * (t0 - t1)) / t1));
//
// CUDA: /// arithmetic_4x8: rows of 8 columns, a warp a row, in vectors of 4; what is
// CUDA-NEXT: /// wanted again stays in registers.
// CUDA-NEXT: /// First for layers.0.mlp.
// CUDA-NEXT: /// Reads in0 (4x8 float), in1 (8 float). Writes out0 (4x8 float).
// CUDA-NEXT: __global__ void __launch_bounds__(256, 4)
// CUDA-NEXT: arithmetic_4x8(
// CUDA-NEXT: const float *__restrict__ in0, // 4x8
// CUDA-NEXT: const float *__restrict__ in1, // 8
// CUDA-NEXT: float *__restrict__ out0, // 4x8
// CUDA-NEXT: uint32_t rows, const float *skip) {
// CUDA-NEXT: if (isSkipped(skip))
// CUDA-NEXT: return;
// CUDA: out0_lanes0[k] = (-(((t0 + t1) * (t0 - t1)) / t1));
sched.kernel @arithmetic_4x8 outputs 1 from "layers.0.mlp" {
^bb0(%row: index, %x: memref<4x8xf32>, %y: memref<8xf32>, %out: memref<4x8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %x[%row, %j] : memref<4x8xf32>
    %b = memref.load %y[%j] : memref<8xf32>
    %sum = arith.addf %a, %b : f32
    %difference = arith.subf %a, %b : f32
    %product = arith.mulf %sum, %difference : f32
    %quotient = arith.divf %product, %b : f32
    %minus = arith.negf %quotient : f32
    memref.store %minus, %out[%row, %j] : memref<4x8xf32>
  }
}

// Functions: those of the vector library, and what compilers know themselves.
//
// CHECK: extern "C" void functions_8(
// CHECK: = expf(t{{[0-9]+}});
// CHECK: = logf(
// CHECK: = tanhf(
// CHECK: = erff(
// CHECK: = __builtin_sqrtf(
// CHECK: = __builtin_fabsf(
// CHECK: = rsqrtf(
// CUDA: {{^}}functions_8(
// CUDA: = expf(
// CUDA: = logf(
// CUDA: = tanhf(
// CUDA: = erff(
// CUDA: = sqrtf(
// CUDA: = fabsf(
// CUDA: = reciprocalSqrt(
sched.kernel @functions_8 outputs 1 {
^bb0(%row: index, %x: memref<8xf32>, %out: memref<8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %x[%j] : memref<8xf32>
    %1 = math.exp %a : f32
    memref.store %1, %out[%j] : memref<8xf32>
    %2 = math.log %a : f32
    memref.store %2, %out[%j] : memref<8xf32>
    %3 = math.tanh %a : f32
    memref.store %3, %out[%j] : memref<8xf32>
    %4 = math.erf %a : f32
    memref.store %4, %out[%j] : memref<8xf32>
    %5 = math.sqrt %a : f32
    memref.store %5, %out[%j] : memref<8xf32>
    %6 = math.absf %a : f32
    memref.store %6, %out[%j] : memref<8xf32>
    %7 = math.rsqrt %a : f32
    memref.store %7, %out[%j] : memref<8xf32>
  }
}

// Choices: of two numbers NaN wins, a comparison with it is false but for "!=".
// What stands twice in the text is named first.
//
// CHECK: extern "C" void choices_8(
// CHECK: const float [[S:t[0-9]+]] = (t0 + t1);
// CHECK: = ([[S]] > t1 || [[S]] != [[S]] ? [[S]] : t1);
// CHECK: = ([[S]] < t1 || [[S]] != [[S]] ? [[S]] : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 > t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 < t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 >= t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 <= t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 == t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: const bool [[B:t[0-9]+]] = (t0 != t1);
// CHECK-NEXT: out0[j0] = ([[B]] ? t0 : t1);
// CHECK-NEXT: out0[j0] = (true ? t0 : t1);
sched.kernel @choices_8 outputs 1 {
^bb0(%row: index, %x: memref<8xf32>, %out: memref<8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %true = arith.constant true
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %x[%j] : memref<8xf32>
    %b = memref.load %x[%j] : memref<8xf32>
    %s = arith.addf %a, %b : f32
    %max = arith.maximumf %s, %b : f32
    memref.store %max, %out[%j] : memref<8xf32>
    %min = arith.minimumf %s, %b : f32
    memref.store %min, %out[%j] : memref<8xf32>
    %gt = arith.cmpf ogt, %a, %b : f32
    %1 = arith.select %gt, %a, %b : f32
    memref.store %1, %out[%j] : memref<8xf32>
    %lt = arith.cmpf olt, %a, %b : f32
    %2 = arith.select %lt, %a, %b : f32
    memref.store %2, %out[%j] : memref<8xf32>
    %ge = arith.cmpf oge, %a, %b : f32
    %3 = arith.select %ge, %a, %b : f32
    memref.store %3, %out[%j] : memref<8xf32>
    %le = arith.cmpf ole, %a, %b : f32
    %4 = arith.select %le, %a, %b : f32
    memref.store %4, %out[%j] : memref<8xf32>
    %eq = arith.cmpf oeq, %a, %b : f32
    %5 = arith.select %eq, %a, %b : f32
    memref.store %5, %out[%j] : memref<8xf32>
    %ne = arith.cmpf une, %a, %b : f32
    %6 = arith.select %ne, %a, %b : f32
    memref.store %6, %out[%j] : memref<8xf32>
    %7 = arith.select %true, %a, %b : f32
    memref.store %7, %out[%j] : memref<8xf32>
  }
}

// Sums: in lanes of an order that no compiler chooses; a warp's by warpSum. What stands outside of loops is stored by one thread.
//
// CHECK: extern "C" void sum_4x8(
// CHECK: const float sum0 = sumOf(0, 8, [&](int64_t j0) CIUIC_INLINED {
// CHECK-NEXT: const float t0 = in0[row * 8 + j0];
// CHECK-NEXT: return (t0 * t0);
// CHECK-NEXT: });
// CHECK-NEXT: out0[row] = (sum0 / 8.0f);
// CUDA: {{^}}sum_4x8(
// CUDA: float sum0 = 0.0f;
// CUDA: sum0 += (t0 * t0);
// CUDA: sum0 = warpSum(sum0);
// CUDA-NEXT: if (lane == 0)
// CUDA-NEXT: out0[row] = (sum0 / 8.0f);
sched.kernel @sum_4x8 outputs 1 {
^bb0(%row: index, %x: memref<4x8xf32>, %out: memref<4xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f32
  %sum = scf.for %j = %c0 to %c8 step %c1 iter_args(%s = %zero) -> (f32) {
    %a = memref.load %x[%row, %j] : memref<4x8xf32>
    %square = arith.mulf %a, %a : f32
    %next = arith.addf %s, %square : f32
    scf.yield %next : f32
  }
  %mean = arith.divf %sum, %eight : f32
  memref.store %mean, %out[%row] : memref<4xf32>
}

// Indices, nested loops (only the inner one is shared out), and scalars.
//
// CHECK: extern "C" void indices_4x8(
// CHECK: const int32_t t0 = in1[0];
// CHECK-NEXT: out1[0] = (t0 + t0);
// CHECK-NEXT: const int64_t i0 = (row % 2);
// CHECK-NEXT: for (int64_t j0 = 0; j0 < 2; ++j0) {
// CHECK-NEXT: const int64_t i1 = (j0 * 4);
// CHECK-NEXT: CIUIC_SIMD
// CHECK-NEXT: for (int64_t j1 = i1; j1 < ((i1 + 4) < 8 ? (i1 + 4) : 8); ++j1) {
// CHECK-NEXT: const float t1 = in0[i0 * 8 + j1];
// CHECK-NEXT: out0[row * 8 + j1] = t1;
// CUDA: /// indices_4x8: a block a row.
// CUDA: {{^}}indices_4x8(
// CUDA: const int64_t row = blockIdx.x;
// CUDA-NEXT: const int32_t t0 = in1[0];
// CUDA-NEXT: if (threadIdx.x == 0) out1[0] = (t0 + t0);

// CUDA: for (int64_t j0 = 0; j0 < 2; ++j0) {
// CUDA: for (int64_t j1 = i1 + threadIdx.x; j1 < ((i1 + 4) < 8 ? (i1 + 4) : 8); j1 += blockDim.x) {
sched.kernel @indices_4x8 outputs 2 {
^bb0(%row: index, %x: memref<2x8xf32>, %which: memref<i32>, %out: memref<4x8xf32>, %twice: memref<i32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %w = memref.load %which[] : memref<i32>
  %w2 = arith.addi %w, %w : i32
  memref.store %w2, %twice[] : memref<i32>
  %position = arith.remui %row, %c2 : index
  scf.for %i = %c0 to %c2 step %c1 {
    %begin = arith.muli %i, %c4 : index
    %end = arith.addi %begin, %c4 : index
    %last = arith.minsi %end, %c8 : index
    scf.for %j = %begin to %last step %c1 {
      %a = memref.load %x[%position, %j] : memref<2x8xf32>
      memref.store %a, %out[%row, %j] : memref<4x8xf32>
    }
  }
}

// 16-bit values are computed on in f32 and rounded when they are stored; f64
// keeps its own literals.
//
// CHECK: extern "C" void types_8(
// CHECK: static_cast<const bf16 *>(pointers[0]); // 8
// CHECK: static_cast<const f16 *>(pointers[1]); // 8
// CHECK: const double t0 = in2[0];
// CHECK-NEXT: const float t1 = float((t0 * 0.10000000000000001));
// CHECK: const bf16 t2 = in0[j0];
// CHECK-NEXT: out0[j0] = fromFloat<bf16>((toFloat(t2) * t1));
// CHECK-NEXT: const f16 t3 = in1[j0];
// CHECK-NEXT: out1[j0] = fromFloat<f16>((toFloat(t3) + toFloat(fromFloat<f16>(1.0f))));
// CUDA: {{^}}types_8(
// CUDA: out0_lanes0[k] = (toFloat(t2) * t1);
// CUDA: out1_lanes0[k] = (toFloat(t3) + toFloat(fromFloat<f16>(1.0f)));
// CUDA: storeVector(out0 + j0, rounded<bf16>(out0_lanes0));
// CUDA-NEXT: storeVector(out1 + j0, rounded<f16>(out1_lanes0));
sched.kernel @types_8 outputs 2 {
^bb0(%row: index, %x: memref<8xbf16>, %y: memref<8xf16>, %z: memref<f64>, %out: memref<8xbf16>, %half: memref<8xf16>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %d = memref.load %z[] : memref<f64>
  %tenth = arith.constant 0.1 : f64
  %product = arith.mulf %d, %tenth : f64
  %scale = arith.truncf %product : f64 to f32
  %one = arith.constant 1.0 : f16
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %x[%j] : memref<8xbf16>
    %w = arith.extf %a : bf16 to f32
    %s = arith.mulf %w, %scale : f32
    %r = arith.truncf %s : f32 to bf16
    memref.store %r, %out[%j] : memref<8xbf16>
    %b = memref.load %y[%j] : memref<8xf16>
    %t = arith.addf %b, %one : f16
    memref.store %t, %half[%j] : memref<8xf16>
  }
}

// Literals read back as the same bits; a negative one may be negated.
//
// CHECK: extern "C" void literals_8(
// CHECK: out0[0] = 0.100000001f;
// CHECK-NEXT: out0[0] = (-(-2.0f));
// CHECK-NEXT: out0[0] = __builtin_inff();
// CHECK-NEXT: out0[0] = (-__builtin_inff());
// CHECK-NEXT: out0[0] = __builtin_nanf("");
// CHECK-NEXT: out0[0] = 1.40129846e-45f;
// CHECK-NEXT: out0[0] = (-0.0f);
sched.kernel @literals_8 outputs 1 {
^bb0(%row: index, %out: memref<8xf32>):
  %c0 = arith.constant 0 : index
  %a = arith.constant 0.1 : f32
  memref.store %a, %out[%c0] : memref<8xf32>
  %b = arith.constant -2.0 : f32
  %nb = arith.negf %b : f32
  memref.store %nb, %out[%c0] : memref<8xf32>
  %c = arith.constant 0x7F800000 : f32
  memref.store %c, %out[%c0] : memref<8xf32>
  %d = arith.constant 0xFF800000 : f32
  memref.store %d, %out[%c0] : memref<8xf32>
  %e = arith.constant 0x7FC00000 : f32
  memref.store %e, %out[%c0] : memref<8xf32>
  %f = arith.constant 1.0e-45 : f32
  memref.store %f, %out[%c0] : memref<8xf32>
  %g = arith.constant -0.0 : f32
  memref.store %g, %out[%c0] : memref<8xf32>
}

sched.program @micro_first {
}
}
