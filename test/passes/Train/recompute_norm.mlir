// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise \
// RUN:   --ciuic-train-append-optimizer --cse --canonicalize --ciuic-verify-differentiated -o %t
// RUN: FileCheck %s < %t
// RUN: ciuic-run --check-gradients %t --random-inputs | FileCheck %s --check-prefix=GRADIENTS
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer -o %t.kept
// RUN: ciuic-run --compare %t.kept %t --random-inputs --steps 2 --tolerance 0
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise \
// RUN:   --remarks-filter=train 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// A norm's output is computed again, once, for the gradients of the matrices of
// its block; its scale of each row is kept for its own gradient. The other norm
// is kept: another block's backward reads it.

// REMARK: PointwiseRecomputed | Category:train | Remark="the backward computes 1 cheap values again and keeps 64 bytes less"
// GRADIENTS: checked 6 parameters

// CHECK-LABEL: func.func @micro_step
module @norms {
  train.state trainable parameter @embed : tensor<8x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @norm : tensor<4xf32> init #train.constant<1.0>
  train.state trainable parameter @q : tensor<4x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @k : tensor<4x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @last : tensor<4xf32> init #train.constant<1.0>
  train.state trainable parameter @head : tensor<8x4xf32> init #train.normal<std = 0.5>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %embed = train.read @embed {train.block = "embed"} : tensor<8x4xf32>
    // CHECK: %[[X:.+]] = train.embedding
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %w = train.read @norm {train.block = "layers.0"} : tensor<4xf32>
    %wq = train.read @q {train.block = "layers.0"} : tensor<4x4xf32>
    %wk = train.read @k {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK: %{{.+}}, %[[RSTD:.+]] = train.rms_norm %[[X]], %[[W:[^ ]+]]
    %n, %rstd = train.rms_norm %x, %w eps 1.0e-5 {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %q = train.linear %n, %wq {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %k = train.linear %n, %wk {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = arith.mulf %q, %k {train.block = "layers.0"} : tensor<4x4xf32>
    %wl = train.read @last {train.block = "layers.1"} : tensor<4xf32>
    // CHECK: %[[LAST:.+]], %{{.+}} = train.rms_norm
    %l, %lrstd = train.rms_norm %y, %wl eps 1.0e-5 {train.block = "layers.1"} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %head = train.read @head {train.block = "head"} : tensor<8x4xf32>
    %logits = train.linear %l, %head {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    // CHECK: train.cross_entropy_grad
    // CHECK: train.matmul %{{.+}} transposed, %[[LAST]] {train.backward
    // CHECK: %[[AGAIN:.+]], %{{.+}} = train.rms_norm %[[X]], %[[W]] {{.*}}{train.backward, train.block = "layers.0"}
    // CHECK-NEXT: train.matmul %{{.+}} transposed, %[[AGAIN]] {train.backward
    // CHECK: train.matmul %{{.+}} transposed, %[[AGAIN]] {train.backward
    // CHECK-NOT: train.rms_norm %
    // CHECK: train.rms_norm_grad %{{.+}}, %[[X]], %[[W]], %[[RSTD]]
    // CHECK: return
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
