// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise \
// RUN:   --ciuic-train-append-optimizer --cse --canonicalize --ciuic-verify-differentiated -o %t
// RUN: FileCheck %s < %t
// RUN: ciuic-run --check-gradients %t --random-inputs | FileCheck %s --check-prefix=GRADIENTS
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer -o %t.kept
// RUN: ciuic-run --compare %t.kept %t --random-inputs --steps 2 --tolerance 0
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-recompute-pointwise \
// RUN:   --remarks-filter=train 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// SwiGLU: the sigmoid and the gated value are computed again from the gate, and
// from them the product, for the gradient of the matrix that it is multiplied
// with, which comes after what else they are computed for. The sum of the
// residual is kept.

// REMARK: PointwiseRecomputed | Category:train | Remark="the backward computes 3 cheap values again and keeps 192 bytes less"
// GRADIENTS: checked 4 parameters

// CHECK-LABEL: func.func @micro_step
module @swiglu {
  train.state trainable parameter @embed : tensor<8x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @gate : tensor<4x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @up : tensor<4x4xf32> init #train.normal<std = 0.5>
  train.state trainable parameter @down : tensor<4x4xf32> init #train.normal<std = 0.5>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %embed = train.read @embed {train.block = "embed"} : tensor<8x4xf32>
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %wg = train.read @gate {train.block = "layers.0"} : tensor<4x4xf32>
    %wu = train.read @up {train.block = "layers.0"} : tensor<4x4xf32>
    %wd = train.read @down {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK: %[[GATE:.+]] = train.linear
    // CHECK-NEXT: %[[UP:.+]] = train.linear
    %gate = train.linear %x, %wg {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %up = train.linear %x, %wu {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: train.sigmoid
    // CHECK-NEXT: arith.mulf
    // CHECK-NEXT: arith.mulf %{{.+}}, %[[UP]]
    %s = train.sigmoid %gate {train.block = "layers.0"} : tensor<4x4xf32>
    %silu = arith.mulf %gate, %s {train.block = "layers.0"} : tensor<4x4xf32>
    %h = arith.mulf %silu, %up {train.block = "layers.0"} : tensor<4x4xf32>
    // CHECK: train.cross_entropy_grad
    // CHECK: %[[S:.+]] = train.sigmoid %[[GATE]] {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: %[[SILU:.+]] = arith.mulf %[[GATE]], %[[S]] {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: arith.mulf %{{.+}}, %[[SILU]] {train.backward
    // CHECK: arith.mulf %[[S]], %[[S]] {train.backward
    // CHECK-NOT: train.matmul
    // CHECK: %[[H:.+]] = arith.mulf %[[SILU]], %[[UP]] {train.backward, train.block = "layers.0"}
    // CHECK-NEXT: train.matmul %{{.+}} transposed, %[[H]] {train.backward
    // CHECK-NOT: train.sigmoid
    // CHECK: return
    %d = train.linear %h, %wd {train.block = "layers.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = arith.addf %x, %d {train.block = "layers.0"} : tensor<4x4xf32>
    %logits = train.linear %y, %embed {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
