// The gradient of the logits takes their place where nothing reads them later.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// CHECK-LABEL: sched.program @micro_first {
// CHECK-NEXT: sched.task gemm "linear"
// CHECK-NEXT: sched.task cross_entropy "cross_entropy" on compute [#sched.view<read @buf.micro_first.linear[0] : tensor<4x16xf32>>, #sched.view<read @buf.labels[0] : tensor<1x4xi32>>, #sched.view<write @buf.micro_first.cross_entropy.loss[0] : tensor<f32>>, #sched.view<write @buf.micro_first.cross_entropy.count[0] : tensor<f32>>, #sched.view<write @buf.micro_first.cross_entropy.lse[0] : tensor<4xf32>>]
// CHECK-NEXT: sched.task cross_entropy_grad "cross_entropy_grad" on compute [#sched.view<read @buf.constant[0] : tensor<f32>>, #sched.view<read @buf.micro_first.linear[0] : tensor<4x16xf32>>, #sched.view<read @buf.labels[0] : tensor<1x4xi32>>, #sched.view<read @buf.micro_first.cross_entropy.lse[0] : tensor<4xf32>>, #sched.view<write @buf.micro_first.linear[0] : tensor<4x16xf32>>]
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @w : tensor<16x8xf32> init #train.constant<0.0>
train.state metric @sum : tensor<4x16xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %w = train.read @w : tensor<16x8xf32>
  %logits = train.linear %x, %w : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x16xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
  %seed = arith.constant dense<0.125> : tensor<f32>
  %d = train.cross_entropy_grad %seed, %logits, %labels, %lse : (tensor<f32>, tensor<4x16xf32>, tensor<1x4xi32>, tensor<4xf32>) -> tensor<4x16xf32>
  train.accumulate %d, @sum : tensor<4x16xf32>
  return
}

// -----

// Here something does.
// CHECK-LABEL: sched.program @micro_first {
// CHECK: sched.task cross_entropy_grad {{.*}}#sched.view<read @buf.micro_first.linear[0] {{.*}}#sched.view<write @buf.micro_first.cross_entropy_grad[0] : tensor<4x16xf32>>]
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state scalar @w : tensor<16x8xf32> init #train.constant<0.0>
train.state metric @sum : tensor<4x16xf32> init #train.constant<0.0>
train.state metric @logits : tensor<4x16xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %w = train.read @w : tensor<16x8xf32>
  %logits = train.linear %x, %w : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x16xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
  %seed = arith.constant dense<0.125> : tensor<f32>
  %d = train.cross_entropy_grad %seed, %logits, %labels, %lse : (tensor<f32>, tensor<4x16xf32>, tensor<1x4xi32>, tensor<4xf32>) -> tensor<4x16xf32>
  train.accumulate %d, @sum : tensor<4x16xf32>
  train.accumulate %logits, @logits : tensor<4x16xf32>
  return
}
