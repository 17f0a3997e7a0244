// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-train-lower-precision=compute-type=bf16 --ciuic-verify-precision \
// RUN:   | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer > %t.f32
// RUN: ciuic-opt %t.f32 --ciuic-train-lower-precision --ciuic-verify-precision \
// RUN:   | diff %t.f32 -
// Later simplification keeps what the gates promise, and merges no cast of the
// forward with one of the backward.
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-train-lower-precision=compute-type=bf16 --cse --canonicalize --cse \
// RUN:   --ciuic-verify-differentiated --ciuic-verify-precision | FileCheck %s --check-prefix=CSE

// SiLU and a residual in bf16: pointwise ops compute in f32, what two of them
// pass to each other alone is not rounded, what the backward reads is.

// CHECK-LABEL: module @silu
module @silu {
  // CHECK: train.state trainable parameter @embed.weight : tensor<8x4xbf16> init #train.normal
  train.state trainable parameter @embed.weight : tensor<8x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state parameter @norm.weight : tensor<4xbf16>
  train.state parameter @norm.weight : tensor<4xf32> init #train.constant<1.0>
  // CHECK: train.state gradient @embed.weight.grad of @embed.weight : tensor<8x4xf32>
  // CHECK: train.state moment @embed.weight.exp_avg of @embed.weight slot "exp_avg" : tensor<8x4xf32>
  // CHECK-NOT: @norm.weight.master
  // CHECK: train.state master @embed.weight.master of @embed.weight : tensor<8x4xf32> init #train.normal<std = 2.0{{0*}}e-02>
  // CHECK-NOT: @loss_scale

  // Nothing reads the sigmoid but the product, nor the product but the sum.
  // CHECK-LABEL: func.func @eval_step
  // CHECK: %[[X:.+]] = train.embedding {{.*}} -> tensor<4x4xbf16>
  // CHECK: %[[N:.+]], %{{.+}} = train.rms_norm {{.*}} -> (tensor<4x4xbf16>, tensor<4xf32>)
  // CHECK-NEXT: %[[N32:.+]] = arith.extf %[[N]]
  // CHECK-NEXT: %[[S:.+]] = train.sigmoid %[[N32]] {train.block = "layers.0"} : tensor<4x4xf32>
  // CHECK-NEXT: %[[SILU:.+]] = arith.mulf %[[N32]], %[[S]]
  // CHECK-NEXT: %[[X32:.+]] = arith.extf %[[X]]
  // CHECK-NEXT: %[[R32:.+]] = arith.addf %[[X32]], %[[SILU]]
  // CHECK-NEXT: %[[R:.+]] = arith.truncf %[[R32]] {train.block = "layers.0"} : tensor<4x4xf32> to tensor<4x4xbf16>
  // CHECK-NEXT: train.linear %[[R]], {{.*}} -> tensor<4x8xbf16>
  // The loss and its count are f32.
  // CHECK-NEXT: %[[LOSS:.+]], %{{.+}}, %{{.+}} = train.cross_entropy {{.*}} -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
  // CHECK-NEXT: train.accumulate %[[LOSS]], @metric.eval_loss {{.*}} : tensor<f32>

  // Here the backward reads the sigmoid too: it is rounded for both.
  // CHECK-LABEL: func.func @micro_step
  // CHECK: %[[S32:.+]] = train.sigmoid
  // CHECK-NEXT: %[[S:.+]] = arith.truncf %[[S32]] {train.block = "layers.0"}
  // CHECK-NEXT: %[[SF:.+]] = arith.extf %[[S]] {train.block = "layers.0"}
  // CHECK-NEXT: arith.mulf %{{.+}}, %[[SF]] {train.block = "layers.0"}
  // CHECK: %[[SEED:.+]] = arith.constant {{.*}} dense<2.500000e-01> : tensor<f32>
  // CHECK-NEXT: train.cross_entropy_grad %[[SEED]], {{.*}} -> tensor<4x8xbf16>
  // CHECK: %[[SB:.+]] = arith.extf %[[S]] {train.backward, train.block = "layers.0"}
  // CHECK: arith.mulf %[[SB]], %[[SB]] {train.backward, train.block = "layers.0"} : tensor<4x4xf32>
  // Parameter gradients are 16-bit and added to f32 states.
  // CHECK: %[[SUM:.+]] = arith.addf {{.*}} : tensor<8x4xf32>
  // CHECK-NEXT: %[[G:.+]] = arith.truncf %[[SUM]] {train.backward, train.block = "embed"} : tensor<8x4xf32> to tensor<8x4xbf16>
  // CHECK-NEXT: train.accumulate %[[G]], @embed.weight.grad {{.*}} : tensor<8x4xbf16>

  // CSE-LABEL: func.func @micro_step
  // CSE: %[[S:.+]] = arith.truncf %{{.+}} {train.block = "layers.0"}
  // CSE: arith.extf %[[S]] {train.block = "layers.0"}
  // CSE: arith.extf %[[S]] {train.backward, train.block = "layers.0"}

  // CHECK-LABEL: func.func @apply_step
  // CHECK: train.grad_scale
  // CHECK-NOT: check
  // CHECK: %[[P:.+]] = train.read @embed.weight.master {{.*}} : tensor<8x4xf32>
  // CHECK: %[[P1:.+]], %{{.+}}, %{{.+}} = train.adam %[[P]]
  // CHECK-NEXT: train.write %[[P1]], @embed.weight.master {{.*}} : tensor<8x4xf32>
  // CHECK-NEXT: %[[P16:.+]] = arith.truncf %[[P1]] {{.*}} : tensor<8x4xf32> to tensor<8x4xbf16>
  // CHECK-NEXT: train.write %[[P16]], @embed.weight {{.*}} : tensor<8x4xbf16>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %embed = train.read @embed.weight {train.block = "embed"} : tensor<8x4xf32>
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %norm = train.read @norm.weight {train.block = "layers.0"} : tensor<4xf32>
    %n, %rstd = train.rms_norm %x, %norm eps 1.0e-5 {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %s = train.sigmoid %n {train.block = "layers.0"} : tensor<4x4xf32>
    %silu = arith.mulf %n, %s {train.block = "layers.0"} : tensor<4x4xf32>
    %r = arith.addf %x, %silu {train.block = "layers.0"} : tensor<4x4xf32>
    %logits = train.linear %r, %embed {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
