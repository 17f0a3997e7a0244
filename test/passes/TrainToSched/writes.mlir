// When a written value is computed straight into its state, and when a copy at
// the end of the program brings it there.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// Straight: nothing reads the old value afterwards.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task advance {{.*}}#sched.view<write @buf.step[0] : tensor<i32>>]
// CHECK-NEXT: }
train.state scalar @step : tensor<i32> init #train.constant<0.0>
train.state scalar @skip : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %step = train.read @step : tensor<i32>
  %skip = train.read @skip : tensor<f32>
  %next = train.advance %step unless %skip : (tensor<i32>, tensor<f32>) -> tensor<i32>
  train.write %next, @step : tensor<i32>
  return
}

// -----

// The learning rate reads the old step later.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task advance {{.*}}#sched.view<write @buf.apply.step[0] : tensor<i32>>]
// CHECK-NEXT: sched.task learning_rate {{.*}}[#sched.view<read @buf.step[0] : tensor<i32>>, #sched.view<write @buf.lr[0]
// CHECK-NEXT: sched.task copy "write" on compute [#sched.view<read @buf.apply.step[0] : tensor<i32>>, #sched.view<write @buf.step[0] : tensor<i32>>]
// CHECK-NEXT: }
train.state scalar @step : tensor<i32> init #train.constant<0.0>
train.state scalar @skip : tensor<f32> init #train.constant<0.0>
train.state scalar @lr : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %step = train.read @step : tensor<i32>
  %skip = train.read @skip : tensor<f32>
  %next = train.advance %step unless %skip : (tensor<i32>, tensor<f32>) -> tensor<i32>
  %lr = train.learning_rate %step by <kind = constant, base = 1.000000e-03> : (tensor<i32>) -> tensor<f32>
  train.write %next, @step : tensor<i32>
  train.write %lr, @lr : tensor<f32>
  return
}

// -----

// A product may not write over an operand of its own.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task gemm {{.*}}[#sched.view<read @buf.w[0] : tensor<8x8xf32>>, #sched.view<read @buf.w[0] : tensor<8x8xf32>>, #sched.view<write @buf.apply.matmul.dx[0] : tensor<8x8xf32>>]
// CHECK-NEXT: sched.task copy "write" on compute
// CHECK-NEXT: }
train.state scalar @w : tensor<8x8xf32> init #train.constant<0.0>
func.func @apply_step() {
  %w = train.read @w : tensor<8x8xf32>
  %square = train.matmul %w, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  train.write %square, @w : tensor<8x8xf32>
  return
}

// -----

// One value in two states: the second is a copy of the first.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task learning_rate {{.*}}#sched.view<write @buf.a[0] : tensor<f32>>]
// CHECK-NEXT: sched.task copy "write" on compute [#sched.view<read @buf.a[0] : tensor<f32>>, #sched.view<write @buf.b[0] : tensor<f32>>]
// CHECK-NEXT: }
train.state scalar @a : tensor<f32> init #train.constant<0.0>
train.state scalar @b : tensor<f32> init #train.constant<0.0>
train.state scalar @step : tensor<i32> init #train.constant<0.0>
func.func @apply_step() {
  %step = train.read @step : tensor<i32>
  %lr = train.learning_rate %step by <kind = constant, base = 1.000000e-03> : (tensor<i32>) -> tensor<f32>
  train.write %lr, @a : tensor<f32>
  train.write %lr, @b : tensor<f32>
  return
}

// -----

// A state's own value needs no task, another's a copy, a constant a buffer.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task copy "write" on compute [#sched.view<read @buf.a[0] : tensor<f32>>, #sched.view<write @buf.b[0] : tensor<f32>>]
// CHECK-NEXT: sched.task copy "write" on compute [#sched.view<read @buf.constant[0] : tensor<f32>>, #sched.view<write @buf.c[0] : tensor<f32>>]
// CHECK-NEXT: }
// CHECK: sched.buffer @buf.constant 4 bytes in device constant 2.500000e-01
train.state scalar @a : tensor<f32> init #train.constant<0.0>
train.state scalar @b : tensor<f32> init #train.constant<0.0>
train.state scalar @c : tensor<f32> init #train.constant<0.0>
train.state scalar @d : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %a = train.read @a : tensor<f32>
  %d = train.read @d : tensor<f32>
  %quarter = arith.constant dense<0.25> : tensor<f32>
  train.write %a, @b : tensor<f32>
  train.write %quarter, @c : tensor<f32>
  train.write %d, @d : tensor<f32>
  return
}

// -----

// Host values are copied by the host.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task copy "write" on host [#sched.view<read @buf.a[0] : tensor<8xf32>>, #sched.view<write @buf.b[0] : tensor<8xf32>>]
train.state parameter @q : tensor<8xf32> init #train.constant<0.0>
train.state master @a of @q : tensor<8xf32> init #train.constant<0.0> space host
train.state master @b of @q : tensor<8xf32> init #train.constant<0.0> space host
func.func @apply_step() {
  %a = train.read @a : tensor<8xf32>
  train.write %a, @b : tensor<8xf32>
  return
}
