// What reads, unpack and chunk become, and what products are told.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// A read is the state's buffer, `unpack` a view further on in it (element 128 of
// 4 bytes is byte 512), `chunk` one that moves with the rank. No task copies.
// CHECK: sched.ranks = 2
// CHECK: sched.buffer @buf.b.param 1024 bytes in device state @b.param
// CHECK: sched.buffer @buf.tokens 16 bytes in device{{$}}
// CHECK: sched.buffer @buf.labels 16 bytes in device{{$}}
// CHECK-LABEL: sched.program @micro_first {
// CHECK-NEXT: sched.task embedding "embedding" on compute
// CHECK-SAME: [#sched.view<read @buf.tokens[0] : tensor<1x4xi32>>, #sched.view<read @buf.b.param[512] : tensor<16x8xf32>>, #sched.view<write @buf.micro_first.embedding[0] : tensor<4x8xf32>>]
// CHECK-NEXT: sched.task gemm "linear" on compute
// CHECK-SAME: [#sched.view<read @buf.micro_first.embedding[0] : tensor<4x8xf32>>, #sched.view<read @buf.b.param[0] : tensor<8x8xf32>>, #sched.view<write @buf.micro_first.linear[0] : tensor<4x8xf32>>, #sched.view<read @buf.b.param[256] : tensor<8xf32>>] ints [0, 1, 0]
// CHECK-NEXT: sched.task gemm "matmul.dweight" on compute
// CHECK-SAME: ints [1, 0, 0]
// CHECK-NEXT: sched.task gemm "matmul.dx" on compute
// CHECK-SAME: ints [0, 1, 0]
// CHECK-NEXT: sched.task accumulate "accumulate.b.sum" on compute
// CHECK-SAME: [#sched.view<read @buf.b.param[0 + rank * 512] : tensor<128xf32>>, #sched.view<write @buf.b.sum[0] : tensor<128xf32>>] ints [0]
// CHECK-NEXT: }
// CHECK: sched.program @micro_next {
// CHECK: sched.task accumulate "accumulate.b.sum" on compute
// CHECK-SAME: #sched.view<update @buf.b.sum[0] : tensor<128xf32>>] ints [1]
comm.bucket @b over <"dp" = 2> elements 256 chunk 128
train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
train.state metric @b.sum : tensor<128xf32> init #train.constant<0.0>
train.state metric @dw : tensor<8x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %p = train.read @b.param : tensor<256xf32>
  %table = comm.unpack %p at 128 : tensor<256xf32> -> tensor<16x8xf32>
  %w = comm.unpack %p at 0 : tensor<256xf32> -> tensor<8x8xf32>
  %bias = comm.unpack %p at 64 : tensor<256xf32> -> tensor<8xf32>
  %own = comm.chunk %p of <"dp" = 2> : tensor<256xf32> -> tensor<128xf32>
  %x = train.embedding %tokens in %table : (tensor<1x4xi32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %y = train.linear %x, %w bias %bias : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %dw = train.matmul %y transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dx = train.matmul %y, %dw transposed : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  train.accumulate %own, @b.sum : tensor<128xf32>
  return
}

// -----

// A chunk of a chunk moves with the rank by both.
// CHECK-LABEL: sched.program @eval_first {
// CHECK-NEXT: sched.task accumulate
// CHECK-SAME: #sched.view<read @buf.b.param[0 + rank * 768] : tensor<64xf32>>
comm.bucket @b over <"dp" = 2> elements 256 chunk 128
train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
train.state metric @b.sum : tensor<64xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %p = train.read @b.param : tensor<256xf32>
  %own = comm.chunk %p of <"dp" = 2> : tensor<256xf32> -> tensor<128xf32>
  %half = comm.chunk %own of <"dp" = 2> : tensor<128xf32> -> tensor<64xf32>
  train.accumulate %half, @b.sum : tensor<64xf32>
  return
}

// -----

// A transfer goes its own way on its own stream; what it makes in host memory is
// in the host's arena.
// CHECK-LABEL: sched.program @eval_first {
// CHECK: sched.task copy "transfer.to_host" on d2h
// CHECK-SAME: [#sched.view<read @buf.m[0] : tensor<8xf32>>, #sched.view<write @buf.eval_first.transfer[0] : tensor<8xf32>>]
// CHECK: sched.task copy "transfer.to_device" on h2d
// CHECK: sched.buffer @buf.eval_first.transfer 32 bytes in host of @eval_first
// CHECK: sched.buffer @buf.eval_first.transfer.2 32 bytes in device of @eval_first
train.state scalar @m : tensor<8xf32> init #train.constant<0.0>
train.state metric @sum : tensor<8xf32> init #train.constant<0.0>
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %m = train.read @m : tensor<8xf32>
  %host = comm.transfer %m to host : tensor<8xf32>
  %back = comm.transfer %host to device : tensor<8xf32>
  train.accumulate %back, @sum : tensor<8xf32>
  return
}

// -----

// Each function becomes what accumulation needs: two programs where sums are
// started and added to, one for the update. Functions are gone.
// CHECK-NOT: func.func
// CHECK: sched.program @micro_first {
// CHECK: sched.program @micro_next {
// CHECK: sched.program @eval_first {
// CHECK: sched.program @eval_next {
// CHECK: sched.program @apply {
// CHECK-NOT: sched.program
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  return
}
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  return
}
func.func @apply_step() {
  return
}
