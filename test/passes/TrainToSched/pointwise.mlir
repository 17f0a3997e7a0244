// Pointwise work: what is stored, what shares a kernel, what is computed again.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// Values between pointwise ops are never stored: SwiGLU is one kernel of two
// inputs, and the sigmoid is written out in it.
// CHECK-LABEL: sched.program @eval_first {
// CHECK-NEXT: sched.task launch "mulf" on compute kernel @fused_sigmoid_mulf_4x8
// CHECK-SAME: [#sched.view<read @buf.x[0] : tensor<4x8xf32>>, #sched.view<read @buf.y[0] : tensor<4x8xf32>>, #sched.view<write @buf.eval_first.mulf[0] : tensor<4x8xf32>>] ints [4, 4]
// CHECK-NEXT: sched.task accumulate
// CHECK-NEXT: }
// CHECK: sched.kernel @fused_sigmoid_mulf_4x8 outputs 1 from "{{.*}}" {
// CHECK: ^bb0(%[[ROW:.+]]: index, %[[X:.+]]: memref<4x8xf32>, %[[Y:.+]]: memref<4x8xf32>, %[[OUT:.+]]: memref<4x8xf32>):
// CHECK: scf.for %[[J:.+]] =
// CHECK: %[[A:.+]] = memref.load %[[X]][%[[ROW]], %[[J]]]
// CHECK: %[[NEG:.+]] = arith.negf %[[A]]
// CHECK: %[[EXP:.+]] = math.exp %[[NEG]]
// CHECK: %[[SUM:.+]] = arith.addf %{{.+}}, %[[EXP]]
// CHECK: %[[SIG:.+]] = arith.divf %{{.+}}, %[[SUM]]
// CHECK: %[[G:.+]] = arith.mulf %[[A]], %[[SIG]]
// CHECK: %[[B:.+]] = memref.load %[[Y]][%[[ROW]], %[[J]]]
// CHECK: %[[H:.+]] = arith.mulf %[[G]], %[[B]]
// CHECK: memref.store %[[H]], %[[OUT]][%[[ROW]], %[[J]]]
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @y : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @sum : tensor<4x8xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %y = train.read @y : tensor<4x8xf32>
  %s = train.sigmoid %x : tensor<4x8xf32>
  %g = arith.mulf %x, %s : tensor<4x8xf32>
  %h = arith.mulf %g, %y : tensor<4x8xf32>
  train.accumulate %h, @sum : tensor<4x8xf32>
  return
}

// -----

// Neighbours of one shape share a kernel and its loads, also past views; another
// shape has its own. Equal kernels are one: the second pair launches the first's.
// CHECK-LABEL: sched.program @eval_first {
// CHECK-NEXT: sched.task launch "mulf" on compute kernel @[[PAIR:fused_addf_mulf_4x8]] [#sched.view<read @buf.x[0] : tensor<4x8xf32>>, #sched.view<write @buf.eval_first.addf[0] : tensor<4x8xf32>>, #sched.view<write @buf.eval_first.mulf[0] : tensor<4x8xf32>>]
// CHECK-NEXT: sched.task launch "addf" on compute kernel @fused_addf_8 {{.*}} ints [1, 1]
// CHECK-NEXT: sched.task accumulate
// CHECK-NEXT: sched.task accumulate
// CHECK-NEXT: sched.task accumulate
// CHECK-NEXT: sched.task launch "mulf" on compute kernel @[[PAIR]] [#sched.view<read @buf.y[0]
// CHECK-COUNT-2: sched.task accumulate
// CHECK-NEXT: }
// CHECK: sched.kernel @[[PAIR]] outputs 2
// CHECK-NOT: sched.kernel @fused_addf_mulf_4x8_2
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @y : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @z : tensor<8xf32> init #train.constant<0.0>
train.state metric @a : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @b : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @c : tensor<8xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %a = arith.addf %x, %x : tensor<4x8xf32>
  %z = train.read @z : tensor<8xf32>
  %b = arith.mulf %x, %x : tensor<4x8xf32>
  %c = arith.addf %z, %z : tensor<8xf32>
  train.accumulate %a, @a : tensor<4x8xf32>
  train.accumulate %b, @b : tensor<4x8xf32>
  train.accumulate %c, @c : tensor<8xf32>
  %y = train.read @y : tensor<4x8xf32>
  %d = arith.addf %y, %y : tensor<4x8xf32>
  %e = arith.mulf %y, %y : tensor<4x8xf32>
  train.accumulate %d, @a : tensor<4x8xf32>
  train.accumulate %e, @b : tensor<4x8xf32>
  return
}

// -----

// 16-bit values are converted inside; constants stand in the text. Flat tensors
// are done in rows of 4096, the last one shorter.
// CHECK-LABEL: sched.program @eval_first {
// CHECK-NEXT: sched.task launch "truncf" on compute kernel @fused_mulf_5000 {{.*}} ints [2, 2]
// CHECK: sched.kernel @fused_mulf_5000 outputs 1 from "truncf" {
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: %[[X:.+]] = memref.load
// CHECK: %[[W:.+]] = arith.extf %[[X]] : bf16 to f32
// CHECK: %[[Y:.+]] = arith.mulf %[[W]], %{{.+}} : f32
// CHECK: %[[H:.+]] = arith.truncf %[[Y]] : f32 to bf16
// CHECK: memref.store %[[H]]
train.state scalar @x : tensor<5000xbf16> init #train.constant<0.0>
train.state metric @sum : tensor<5000xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<5000xbf16>
  %w = arith.extf %x : tensor<5000xbf16> to tensor<5000xf32>
  %half = arith.constant dense<0.5> : tensor<5000xf32>
  %y = arith.mulf %w, %half : tensor<5000xf32>
  %h = arith.truncf %y : tensor<5000xf32> to tensor<5000xbf16>
  train.accumulate %h, @sum : tensor<5000xbf16>
  return
}

// -----

// A view of a pointwise value waits for its kernel.
// CHECK-LABEL: sched.program @eval_first {
// CHECK-NEXT: sched.task launch "addf"
// CHECK-NEXT: sched.task accumulate {{.*}}#sched.view<read @buf.eval_first.addf[0 + rank * 512] : tensor<128xf32>>
comm.bucket @b over <"dp" = 2> elements 256 chunk 128
train.state scalar @x : tensor<256xf32> init #train.constant<0.0>
train.state metric @sum : tensor<128xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<256xf32>
  %y = arith.addf %x, %x : tensor<256xf32>
  %own = comm.chunk %y of <"dp" = 2> : tensor<256xf32> -> tensor<128xf32>
  train.accumulate %own, @sum : tensor<128xf32>
  return
}

// -----

// Pointwise work on host values is the host's.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task launch "addf" on host kernel @fused_addf_8
// CHECK: sched.buffer @buf.apply.addf 32 bytes in host of @apply
train.state parameter @q : tensor<8xf32> init #train.constant<0.0>
train.state master @x of @q : tensor<8xf32> init #train.constant<0.0> space host
func.func @apply_step() {
  %x = train.read @x : tensor<8xf32>
  %y = arith.addf %x, %x : tensor<8xf32>
  train.write %y, @x : tensor<8xf32>
  return
}

// -----

// Recompute regions are work of the backward like any other; what they compute
// again has a buffer of its own.
// CHECK-LABEL: sched.program @micro_first {
// CHECK-NEXT: sched.task gemm "linear" on compute {{.*}}#sched.view<write @buf.micro_first.linear[0]
// CHECK-NOT: train.backward
// CHECK-NEXT: sched.task gemm "linear.bwd" on compute {{.*}}#sched.view<write @buf.micro_first.linear.bwd[0] {{.*}}{train.backward}
// CHECK-NEXT: sched.task accumulate {{.*}}[#sched.view<read @buf.micro_first.linear[0]
// CHECK-NEXT: sched.task accumulate {{.*}}[#sched.view<read @buf.micro_first.linear.bwd[0]
train.state scalar @w : tensor<8x8xf32> init #train.constant<0.0>
train.state metric @a : tensor<8x8xf32> init #train.constant<0.0>
train.state metric @b : tensor<8x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %w = train.read @w : tensor<8x8xf32>
  %y = train.linear %w, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %again = train.recompute "layers.0"(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%v: tensor<8x8xf32>):
    %z = train.linear %v, %v : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    train.yield %z : tensor<8x8xf32>
  }
  train.accumulate %y, @a : tensor<8x8xf32>
  train.accumulate %again, @b : tensor<8x8xf32>
  return
}
