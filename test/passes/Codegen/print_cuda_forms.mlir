// How the threads of a GPU share a kernel's work, by what its indices are.
//
// RUN: rm -rf %t && ciuicc compile --model %s --start-from emit --micro-batch 1 --target cuda --no-build -o %t
// RUN: FileCheck %s < %t/src/kernels.cu

module @forms attributes {sched.arena.device = 1024 : i64, sched.arena.host = 0 : i64, sched.ranks = 1 : i64, sched.target = "cuda", sched.architectures = "sm_80"} {
sched.buffer @buf.tokens 16 bytes in device at 0
sched.buffer @buf.x 512 bytes in device at 256

// Elementwise: rows do not matter. Whole vectors in a grid-stride loop, what is
// left one by one; the launcher checks what vectors need and fills the device.
//
// CHECK: /// twice_3x5: 15 elements, in vectors of 8.
// CHECK: __global__ void __launch_bounds__(256, 4)
// CHECK-NEXT: twice_3x5(
// CHECK-NEXT: const bf16 *__restrict__ in0, // 3x5
// CHECK-NEXT: bf16 *__restrict__ out0, // 3x5
// CHECK-NEXT: uint32_t elements, const float *skip) {
// CHECK: const uint32_t whole = elements / 8 * 8;
// CHECK-NEXT: for (uint32_t i = thread * 8; i < whole; i += threads * 8) {
// CHECK-NEXT: const auto in0_v0 = loadVector<8>(in0 + i);
// CHECK-NEXT: float out0_lanes0[8];
// CHECK-NEXT: #pragma unroll
// CHECK-NEXT: for (int k = 0; k < 8; ++k) {
// CHECK-NEXT: const bf16 t0 = in0_v0[k];
// CHECK-NEXT: out0_lanes0[k] = (toFloat(t0) + toFloat(t0));
// CHECK-NEXT: }
// CHECK-NEXT: storeVector(out0 + i, rounded<bf16>(out0_lanes0));
// CHECK-NEXT: }
// CHECK-NEXT: // The last few, one by one.
// CHECK-NEXT: for (uint32_t i = whole + thread; i < elements; i += threads) {
// CHECK: extern "C" int launch_twice_3x5(
// CHECK: if (task.viewCount != 2 || task.intCount < 1)
// CHECK-NEXT: return cudaErrorInvalidValue;
// CHECK-NEXT: if (!isAligned<bf16, 8>(task.pointers[0]) ||
// CHECK-NEXT: !isAligned<bf16, 8>(task.pointers[1]))
// CHECK-NEXT: return cudaErrorMisalignedAddress;
// CHECK-NEXT: const uint32_t elements = 15;
// CHECK-NEXT: const unsigned grid = fillingGrid(2, 256, 256, task.processors);
// CHECK-NEXT: return launch(twice_3x5, grid, 256, 0, streamOf(task),
// CHECK-NEXT: pointer<const bf16>(task, 0),
// CHECK-NEXT: pointer<bf16>(task, 1),
// CHECK-NEXT: elements, task.skip);
sched.kernel @twice_3x5 outputs 1 {
^bb0(%row: index, %x: memref<3x5xbf16>, %out: memref<3x5xbf16>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %j = %c0 to %c5 step %c1 {
    %a = memref.load %x[%row, %j] : memref<3x5xbf16>
    %sum = arith.addf %a, %a : bf16
    memref.store %sum, %out[%row, %j] : memref<3x5xbf16>
  }
}

// A task whose operand starts at byte 8 of its buffer leaves vectors of 8 bytes.
//
// CHECK: /// shifted_2x8: 16 elements, in vectors of 4.
// CHECK: loadVector<4>(in0 + i)
sched.kernel @shifted_2x8 outputs 1 {
^bb0(%row: index, %x: memref<2x8xbf16>, %out: memref<2x8xbf16>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %x[%row, %j] : memref<2x8xbf16>
    memref.store %a, %out[%row, %j] : memref<2x8xbf16>
  }
}

// A row of more than 1024 columns is a block's; what a thread has stored in the
// first pass it still holds in the second.
//
// CHECK: /// passes_2x4096: rows of 4096 columns, a block of 512 threads a row, in
// CHECK-NEXT: /// vectors of 4; what is wanted again stays in registers.
// CHECK: const uint32_t lane = threadIdx.x;
// CHECK-NEXT: Vector<float, 4> out0_held0[2];
// CHECK-NEXT: for (uint32_t row = blockIdx.x; row < rows; row += gridDim.x) {
// CHECK: for (int c = 0; c < 2; ++c) {
// CHECK-NEXT: const uint32_t j0 = (c * 512 + lane) * 4;
// CHECK: sum0 += t
// CHECK: out0_held0[c] = out0_lanes0;
// CHECK-NEXT: storeVector(out0 + (row * 4096 + j0), out0_held0[c]);
// CHECK: sum0 = blockSum(sum0);
// CHECK-NOT: loadVector
// CHECK: out0_held0[c][k]
// CHECK: const unsigned grid = fillingGrid(rows, 1, 512, task.processors);
sched.kernel @passes_2x4096 outputs 2 {
^bb0(%row: index, %x: memref<2x4096xf32>, %h: memref<2x4096xf32>, %out: memref<2x4096xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 4096 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
    %a = memref.load %x[%row, %j] : memref<2x4096xf32>
    %d = arith.addf %a, %a : f32
    memref.store %d, %h[%row, %j] : memref<2x4096xf32>
    %next = arith.addf %s, %d : f32
    scf.yield %next : f32
  }
  scf.for %j = %c0 to %n step %c1 {
    %a = memref.load %h[%row, %j] : memref<2x4096xf32>
    %d = arith.mulf %a, %sum : f32
    memref.store %d, %out[%row, %j] : memref<2x4096xf32>
  }
}

// A row that registers do not hold is loaded in each pass.
//
// CHECK: /// long_2x60000: rows of 60000 columns, a block of 512 threads a row, in
// CHECK-NEXT: /// vectors of 4.
// CHECK: for (uint32_t j0 = lane * 4; j0 < 60000; j0 += 2048) {
sched.kernel @long_2x60000 outputs 1 {
^bb0(%row: index, %x: memref<2x60000xf32>, %out: memref<2xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 60000 : index
  %one = arith.constant 1.0 : f32
  // A start that is not zero is added once.
  // CHECK: sum0 = 1.0f + blockSum(sum0);
  %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %one) -> (f32) {
    %a = memref.load %x[%row, %j] : memref<2x60000xf32>
    %next = arith.addf %s, %a : f32
    scf.yield %next : f32
  }
  memref.store %sum, %out[%row] : memref<2xf32>
}

// Parts of a row: what they have in common is loaded once.
//
// CHECK: /// parts_4x64: rows of 4 parts of 8 columns, 4 parts a thread, in vectors of 8.
// CHECK: const uint32_t units = rows * 1;
// CHECK: const uint32_t row = unit;
// CHECK: const auto in1_v0 = loadVector<8>(in1 + j1);
// CHECK-NEXT: #pragma unroll
// CHECK-NEXT: for (int part = 0; part < 4; ++part) {
// CHECK: const auto in0_v0 = loadVector<8>(in0 + (row * 64 + i
sched.kernel @parts_4x64 outputs 1 {
^bb0(%row: index, %x: memref<4x64xbf16>, %angle: memref<8xf32>, %out: memref<4x64xbf16>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  scf.for %head = %c0 to %c4 step %c1 {
    %base = arith.muli %head, %c16 : index
    scf.for %j = %c0 to %c8 step %c1 {
      %low = arith.addi %base, %j : index
      %high = arith.addi %low, %c8 : index
      %a = memref.load %x[%row, %low] : memref<4x64xbf16>
      %b = memref.load %x[%row, %high] : memref<4x64xbf16>
      %t = memref.load %angle[%j] : memref<8xf32>
      %wide = arith.extf %a : bf16 to f32
      %turned = arith.mulf %wide, %t : f32
      %narrow = arith.truncf %turned : f32 to bf16
      memref.store %b, %out[%row, %low] : memref<4x64xbf16>
      memref.store %narrow, %out[%row, %high] : memref<4x64xbf16>
    }
  }
}

// Parts that would write one place are no parts: their order counts.
//
// CHECK: /// overlapping_4x8: a block a row.
// CHECK: for (int64_t j0 = 0; j0 < 4; ++j0) {
// CHECK: for (int64_t j1 = threadIdx.x; j1 < 8; j1 += blockDim.x) {
sched.kernel @overlapping_4x8 outputs 1 {
^bb0(%row: index, %x: memref<4x8xf32>, %out: memref<4x8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c8 step %c1 {
      %a = memref.load %x[%i, %j] : memref<4x8xf32>
      memref.store %a, %out[%row, %j] : memref<4x8xf32>
    }
  }
}

// What one thread stores and another loads needs a barrier between.
//
// CHECK: /// shared_2x8: a block a row.
// CHECK: if (threadIdx.x == 0) out1[row] =
// CHECK-NEXT: __syncthreads();
// CHECK: for (int64_t j1 = threadIdx.x; j1 < 8; j1 += blockDim.x) {
// CHECK-NEXT: const float [[V:t[0-9]+]] = out1[row];
// CHECK-NEXT: out0[row * 8 + j1] = [[V]];
// CHECK-NEXT: }
// CHECK-NEXT: __syncthreads();
sched.kernel @shared_2x8 outputs 2 {
^bb0(%row: index, %x: memref<2x8xf32>, %out: memref<2x8xf32>, %sums: memref<2xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %j = %c0 to %c8 step %c1 iter_args(%s = %zero) -> (f32) {
    %a = memref.load %x[%row, %j] : memref<2x8xf32>
    %next = arith.addf %s, %a : f32
    scf.yield %next : f32
  }
  memref.store %sum, %sums[%row] : memref<2xf32>
  scf.for %j = %c0 to %c8 step %c1 {
    %a = memref.load %sums[%row] : memref<2xf32>
    memref.store %a, %out[%row, %j] : memref<2x8xf32>
  }
}

sched.program @micro_first {
  %0 = sched.task launch "shift" on compute kernel @shifted_2x8 [#sched.view<read @buf.x [8] : tensor<2x8xbf16>>, #sched.view<write @buf.x [256] : tensor<2x8xbf16>>] ints [2, 1]
}
}
