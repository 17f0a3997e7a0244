// The optimizer step: what is updated in place, rounded and copied.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// Parameter and moments are updated where they are; the gradient is read. The
// 16-bit parameter is written by the same task, straight into its state. Ints:
// decoupled, bias correction, sharded, then what is not decayed.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task adam "adam" on compute
// CHECK-SAME: [#sched.view<update @buf.master[0] : tensor<128xf32>>, #sched.view<read @buf.g[0] : tensor<128xf32>>, #sched.view<update @buf.m[0] : tensor<128xf32>>, #sched.view<update @buf.v[0] : tensor<128xf32>>, #sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<read @buf.step[0] : tensor<i32>>, #sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<write @buf.half[0] : tensor<128xbf16>>]
// CHECK-SAME: ints [1, 1, 0, 0, 64] reals [9.000000e-01, 9.990000e-01, 1.000000e-08, 1.000000e-02] skip <read @buf.s[0] : tensor<f32>>
// CHECK-NEXT: }
train.state parameter @q : tensor<128xf32> init #train.constant<0.0>
train.state master @master of @q : tensor<128xf32> init #train.constant<0.0>
train.state scalar @half : tensor<128xbf16> init #train.constant<0.0>
train.state scalar @g : tensor<128xf32> init #train.constant<0.0>
train.state scalar @m : tensor<128xf32> init #train.constant<0.0>
train.state scalar @v : tensor<128xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
train.state scalar @step : tensor<i32> init #train.constant<0.0>
func.func @apply_step() {
  %p = train.read @master : tensor<128xf32>
  %g = train.read @g : tensor<128xf32>
  %m = train.read @m : tensor<128xf32>
  %v = train.read @v : tensor<128xf32>
  %s = train.read @s : tensor<f32>
  %step = train.read @step : tensor<i32>
  %a:3 = train.adam %p, %g, %m, %v lr %s coef %s step %step skip %s {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.01, decoupled, bias_correction, undecayed = array<i64: 0, 64>}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
  %half = arith.truncf %a#0 : tensor<128xf32> to tensor<128xbf16>
  train.write %a#0, @master : tensor<128xf32>
  train.write %a#1, @m : tensor<128xf32>
  train.write %a#2, @v : tensor<128xf32>
  train.write %half, @half : tensor<128xbf16>
  return
}

// -----

// On a chunk of a whole parameter the task is told so (a stride of 128), and its view
// moves with the rank. The gathered parameter is where it was.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task sgd "sgd" on compute
// CHECK-SAME: [#sched.view<update @buf.b.param[0 + rank * 512] : tensor<128xf32>>
// CHECK-SAME: ints [1, 128] reals [9.000000e-01, 0.000000e+00]
// CHECK-NEXT: sched.task all_gather "b.update" on gather [#sched.view<read @buf.b.param[0 + rank * 512] : tensor<128xf32>>, #sched.view<write @buf.b.param[0] : tensor<256xf32>>]
// CHECK-NEXT: }
comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
train.state parameter @b.param of @b : tensor<256xf32> init #train.constant<0.0>
train.state scalar @g : tensor<128xf32> init #train.constant<0.0>
train.state scalar @m : tensor<128xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %whole = train.read @b.param : tensor<256xf32>
  %p = comm.chunk %whole of <"dp" = 2> : tensor<256xf32> -> tensor<128xf32>
  %g = train.read @g : tensor<128xf32>
  %m = train.read @m : tensor<128xf32>
  %s = train.read @s : tensor<f32>
  %a:2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0, nesterov}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  %new = comm.all_gather %a#0 over <"dp" = 2> for "b.update" : tensor<128xf32> -> tensor<256xf32>
  train.write %new, @b.param : tensor<256xf32>
  train.write %a#1, @m : tensor<128xf32>
  return
}

// -----

// States in host memory are updated by the host; what it makes is there, too.
// It reads its scalars there: each is copied once.
// CHECK: sched.buffer @buf.p 512 bytes in host state @p
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task copy "transfer.to_host" on d2h
// CHECK-NEXT: sched.task copy "s.to_host" on d2h [#sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<write @buf.apply.host.s[0] : tensor<f32>>]
// CHECK-NEXT: sched.task sgd "sgd" on host
// CHECK-SAME: #sched.view<read @buf.apply.host.s[0] : tensor<f32>>, #sched.view<read @buf.apply.host.s[0] : tensor<f32>>, #sched.view<read @buf.apply.host.s[0] : tensor<f32>>, #sched.view<write @buf.apply.sgd.half[0] : tensor<128xbf16>>
// CHECK-SAME: skip <read @buf.apply.host.s[0] : tensor<f32>>
// CHECK-NEXT: sched.task copy "transfer.to_device" on h2d [#sched.view<read @buf.apply.sgd.half[0] : tensor<128xbf16>>, #sched.view<write @buf.half[0] : tensor<128xbf16>>] skip <read @buf.s[0] : tensor<f32>>
// CHECK-NEXT: }
// CHECK: sched.buffer @buf.apply.transfer 512 bytes in host of @apply
// CHECK: sched.buffer @buf.apply.sgd.half 256 bytes in host of @apply
train.state parameter @q : tensor<128xf32> init #train.constant<0.0>
train.state master @p of @q : tensor<128xf32> init #train.constant<0.0> space host
train.state moment @m of @q slot "momentum_buffer" : tensor<128xf32> init #train.constant<0.0> space host
train.state scalar @half : tensor<128xbf16> init #train.constant<0.0>
train.state scalar @g : tensor<128xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %p = train.read @p : tensor<128xf32>
  %device = train.read @g : tensor<128xf32>
  %g = comm.transfer %device to host : tensor<128xf32>
  %m = train.read @m : tensor<128xf32>
  %s = train.read @s : tensor<f32>
  %a:2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  %rounded = arith.truncf %a#0 : tensor<128xf32> to tensor<128xbf16>
  %half = comm.transfer %rounded to device : tensor<128xbf16>
  train.write %a#0, @p : tensor<128xf32>
  train.write %a#1, @m : tensor<128xf32>
  train.write %half, @half : tensor<128xbf16>
  return
}

// -----

// Two buckets on the host share the copies of what both read; one on the device
// reads it where it is.
// CHECK-LABEL: sched.program @apply {
// CHECK-COUNT-2: on d2h
// CHECK-NOT: on d2h
// CHECK: sched.task sgd "sgd" on host {{.*}}#sched.view<read @buf.apply.host.s[0] : tensor<f32>>, #sched.view<read @buf.apply.host.s[0] : tensor<f32>>, #sched.view<read @buf.apply.host.skip[0] : tensor<f32>>] {{.*}} skip <read @buf.apply.host.skip[0] : tensor<f32>>
// CHECK-NEXT: sched.task sgd "sgd" on host {{.*}}#sched.view<read @buf.apply.host.skip[0] : tensor<f32>>] {{.*}} skip <read @buf.apply.host.skip[0] : tensor<f32>>
// CHECK-NEXT: sched.task sgd "sgd" on compute {{.*}}#sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<read @buf.s[0] : tensor<f32>>, #sched.view<read @buf.skip[0] : tensor<f32>>] {{.*}} skip <read @buf.skip[0] : tensor<f32>>
// CHECK-NEXT: }
train.state parameter @q : tensor<128xf32> init #train.constant<0.0>
train.state master @p of @q : tensor<128xf32> init #train.constant<0.0> space host
train.state master @p2 of @q : tensor<128xf32> init #train.constant<0.0> space host
train.state master @p3 of @q : tensor<128xf32> init #train.constant<0.0>
train.state moment @m of @q slot "a" : tensor<128xf32> init #train.constant<0.0> space host
train.state moment @m2 of @q slot "b" : tensor<128xf32> init #train.constant<0.0> space host
train.state moment @m3 of @q slot "c" : tensor<128xf32> init #train.constant<0.0>
train.state scalar @g : tensor<128xf32> init #train.constant<0.0> space host
train.state scalar @g3 : tensor<128xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
train.state scalar @skip : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %p = train.read @p : tensor<128xf32>
  %p2 = train.read @p2 : tensor<128xf32>
  %p3 = train.read @p3 : tensor<128xf32>
  %g = train.read @g : tensor<128xf32>
  %g3 = train.read @g3 : tensor<128xf32>
  %m = train.read @m : tensor<128xf32>
  %m2 = train.read @m2 : tensor<128xf32>
  %m3 = train.read @m3 : tensor<128xf32>
  %s = train.read @s : tensor<f32>
  %skip = train.read @skip : tensor<f32>
  %a:2 = train.sgd %p, %g, %m lr %s coef %s skip %skip {momentum = 0.9, decay = 0.0}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  %b:2 = train.sgd %p2, %g, %m2 lr %s coef %s skip %skip {momentum = 0.9, decay = 0.0}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  %c:2 = train.sgd %p3, %g3, %m3 lr %s coef %s skip %skip {momentum = 0.9, decay = 0.0}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  train.write %a#0, @p : tensor<128xf32>
  train.write %a#1, @m : tensor<128xf32>
  train.write %b#0, @p2 : tensor<128xf32>
  train.write %b#1, @m2 : tensor<128xf32>
  train.write %c#0, @p3 : tensor<128xf32>
  train.write %c#1, @m3 : tensor<128xf32>
  return
}

// -----

// Squares are summed up a gradient at a time and added in order; a gradient that
// only its reduction reads is reduced where it is.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task all_reduce "g.grad" on reduce [#sched.view<read @buf.g[0] : tensor<128xf32>>, #sched.view<write @buf.g[0] : tensor<128xf32>>] ints [1]
// CHECK-NEXT: sched.task square_sum "square_sum.g" on compute [#sched.view<read @buf.g[0] : tensor<128xf32>>, #sched.view<write @buf.apply.square_sums[0] : tensor<f64>>]
// CHECK-NEXT: sched.task square_sum "square_sum.h" on compute [#sched.view<read @buf.h[0] : tensor<8xf32>>, #sched.view<write @buf.apply.square_sums[8] : tensor<f64>>]
// CHECK-NEXT: sched.task sum_slots "square_sum" on compute [#sched.view<read @buf.apply.square_sums[0] : tensor<2xf64>>
// CHECK-NEXT: sched.task grad_scale "grad_scale" on compute
// CHECK-SAME: ints [1] reals [8.000000e+00, 1.000000e+00]
// CHECK-NEXT: sched.task learning_rate "learning_rate" on compute
// CHECK-SAME: #sched.view<write @buf.lr[0] : tensor<f32>>] ints [0, 0, 0, 1] reals [1.000000e-03, 0.000000e+00, 0.000000e+00, 0.000000e+00, 1.000000e-04]
// CHECK-NEXT: sched.task advance "advance" on compute [#sched.view<read @buf.step[0] : tensor<i32>>, #sched.view<read @buf.apply.skip[0] : tensor<f32>>, #sched.view<write @buf.step[0] : tensor<i32>>]
// CHECK-NEXT: }
train.state parameter @q : tensor<128xf32> init #train.constant<0.0>
train.state gradient @g of @q : tensor<128xf32> init #train.constant<0.0>
train.state gradient @h of @q : tensor<8xf32> init #train.constant<0.0>
train.state scalar @n : tensor<f32> init #train.constant<0.0>
train.state scalar @lr : tensor<f32> init #train.constant<0.0>
train.state scalar @step : tensor<i32> init #train.constant<0.0>
func.func @apply_step() {
  %local = train.read @g : tensor<128xf32>
  %g = comm.all_reduce mean %local over <"dp" = 2> for "g.grad" : tensor<128xf32>
  %h = train.read @h : tensor<8xf32>
  %n = train.read @n : tensor<f32>
  %step = train.read @step : tensor<i32>
  %square = train.square_sum %g, %h : (tensor<128xf32>, tensor<8xf32>) -> tensor<f64>
  %coef, %norm, %skip = train.grad_scale %square, %n, %n slots 8.0 clip 1.0 check : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  %lr = train.learning_rate %step by <kind = constant, base = 1.000000e-03> : (tensor<i32>) -> tensor<f32>
  %next = train.advance %step unless %skip : (tensor<i32>, tensor<f32>) -> tensor<i32>
  train.write %lr, @lr : tensor<f32>
  train.write %next, @step : tensor<i32>
  return
}
