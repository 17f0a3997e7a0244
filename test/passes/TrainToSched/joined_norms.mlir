// Sums next to a norm are done by the norm's kernel, so that a residual makes no
// trip through memory of its own.
//
// RUN: split-file %s %t
// RUN: ciuic-opt %t/forward.mlir --ciuic-lower-to-sched | FileCheck %t/forward.mlir
// RUN: ciuic-opt %t/backward.mlir --ciuic-lower-to-sched | FileCheck %t/backward.mlir
// RUN: ciuic-opt %t/apart.mlir --ciuic-lower-to-sched | FileCheck %t/apart.mlir

//--- forward.mlir
// The pass that sums squares computes the sum, rounds it, and stores it; the
// second pass loads what was stored.
module {
train.state scalar @a : tensor<4x8xbf16> init #train.constant<0.0>
train.state scalar @b : tensor<4x8xbf16> init #train.constant<0.0>
train.state scalar @w : tensor<8xbf16> init #train.constant<1.0>
train.state metric @sum : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @h : tensor<4x8xf32> init #train.constant<0.0>
// CHECK: sched.program @eval_first
// CHECK-NEXT: sched.task launch "rms_norm" on compute kernel @addf_rms_norm_4x8
// CHECK-SAME: read @buf.a[0]
// CHECK-SAME: read @buf.b[0]
// CHECK-SAME: read @buf.w[0]
// CHECK-SAME: write @[[H:[a-z_.0-9]+]][0] : tensor<4x8xbf16>
// CHECK-SAME: write @{{[a-z_.0-9]+}}[0] : tensor<4x8xbf16>
// CHECK-SAME: write @{{[a-z_.0-9]+}}rstd[0] : tensor<4xf32>
// CHECK-NEXT: sched.task accumulate
// CHECK-NEXT: sched.task accumulate {{.*}}read @[[H]][0]
// CHECK: sched.kernel @addf_rms_norm_4x8 outputs 3
// CHECK-NEXT: ^bb0(%{{arg[0-9]+}}: index, %[[A:arg[0-9]+]]: memref<4x8xbf16>, %[[B:arg[0-9]+]]: memref<4x8xbf16>, %{{arg[0-9]+}}: memref<8xbf16>, %[[OUT:arg[0-9]+]]: memref<4x8xbf16>,
// CHECK: scf.for
// CHECK: memref.load %[[A]]
// CHECK: memref.load %[[B]]
// CHECK: %[[SUM:.+]] = arith.addf
// CHECK: memref.store %[[SUM]], %[[OUT]]
// CHECK: arith.mulf
// CHECK: scf.for
// CHECK: memref.load %[[OUT]]
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %a = train.read @a : tensor<4x8xbf16>
  %b = train.read @b : tensor<4x8xbf16>
  %w = train.read @w : tensor<8xbf16>
  %h = arith.addf %a, %b : tensor<4x8xbf16>
  %n, %rstd = train.rms_norm %h, %w eps 1.000000e-05 : (tensor<4x8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4xf32>)
  train.accumulate %n, @sum : tensor<4x8xbf16>
  train.accumulate %h, @h : tensor<4x8xbf16>
  return
}
}

//--- backward.mlir
// A sum before the gradient of a norm and one after it: the gradient itself is
// not stored, but rounded as if it were; that of the weight comes after.
module {
train.state scalar @a : tensor<4x8xbf16> init #train.constant<0.0>
train.state scalar @b : tensor<4x8xbf16> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xbf16> init #train.constant<0.0>
train.state scalar @r : tensor<4xf32> init #train.constant<1.0>
train.state scalar @w : tensor<8xbf16> init #train.constant<1.0>
train.state metric @sum : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @dw : tensor<8xf32> init #train.constant<0.0>
// CHECK: sched.program @eval_first
// CHECK-NEXT: sched.task launch {{.*}} kernel @addf_rms_norm_grad_addf_4x8
// CHECK-SAME: write @[[DY:[a-z_.0-9]+]][0] : tensor<4x8xbf16>
// CHECK-SAME: write @{{[a-z_.0-9]+}}[0] : tensor<4x8xbf16>
// CHECK-SAME: ] ints
// CHECK-NEXT: sched.task norm_weight_grad {{.*}}read @[[DY]][0]
// CHECK: sched.kernel @addf_rms_norm_grad_addf_4x8 outputs 2
// CHECK: scf.for
// CHECK: memref.store
// CHECK: scf.for
// CHECK: %[[DX:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK: arith.addf %[[DX]],
// CHECK-NEXT: memref.store
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %a = train.read @a : tensor<4x8xbf16>
  %b = train.read @b : tensor<4x8xbf16>
  %x = train.read @x : tensor<4x8xbf16>
  %r = train.read @r : tensor<4xf32>
  %w = train.read @w : tensor<8xbf16>
  %dy = arith.addf %a, %b : tensor<4x8xbf16>
  %dx, %dw = train.rms_norm_grad %dy, %x, %w, %r : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8xbf16>, tensor<4xf32>) -> (tensor<4x8xbf16>, tensor<8xbf16>)
  %s = arith.addf %dx, %a : tensor<4x8xbf16>
  train.accumulate %s, @sum : tensor<4x8xbf16>
  train.accumulate %dw, @dw : tensor<8xbf16>
  return
}
}

//--- apart.mlir
// A gradient that something else reads too is stored, and the sum is a kernel of
// its own; so is one that the norm does not need.
module {
train.state scalar @a : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @r : tensor<4xf32> init #train.constant<1.0>
train.state scalar @w : tensor<8xf32> init #train.constant<1.0>
train.state metric @sum : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @dx : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @e : tensor<4x8xf32> init #train.constant<0.0>
// CHECK: sched.program @eval_first
// CHECK-NEXT: kernel @fused_mulf_4x8
// CHECK-NEXT: kernel @rms_norm_grad_4x8
// CHECK-NEXT: kernel @fused_addf_4x8
// CHECK-NEXT: accumulate
func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %a = train.read @a : tensor<4x8xf32>
  %x = train.read @x : tensor<4x8xf32>
  %r = train.read @r : tensor<4xf32>
  %w = train.read @w : tensor<8xf32>
  %e = arith.mulf %a, %a : tensor<4x8xf32>
  %dx, %dw = train.rms_norm_grad %a, %x, %w, %r : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  %s = arith.addf %dx, %a : tensor<4x8xf32>
  train.accumulate %s, @sum : tensor<4x8xf32>
  train.accumulate %dx, @dx : tensor<4x8xf32>
  train.accumulate %e, @e : tensor<4x8xf32>
  return
}
}
