// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s

// A norm keeps what its backward needs; the weight's type is its own.

// CHECK-LABEL: func.func @rms_norm
// CHECK: %[[Y:.+]], %[[RSTD:.+]] = train.rms_norm %[[X:.+]], %[[W:.+]] eps 1.000000e-05 : (tensor<6x4xbf16>, tensor<4xf32>) -> (tensor<6x4xbf16>, tensor<6xf32>)
// CHECK: train.rms_norm_grad %[[Y]], %[[X]], %[[W]], %[[RSTD]] : (tensor<6x4xbf16>, tensor<6x4xbf16>, tensor<4xf32>, tensor<6xf32>) -> (tensor<6x4xbf16>, tensor<4xf32>)
func.func @rms_norm(%x: tensor<6x4xbf16>, %w: tensor<4xf32>) -> (tensor<6x4xbf16>, tensor<4xf32>) {
  %y, %rstd = train.rms_norm %x, %w eps 1.0e-5 : (tensor<6x4xbf16>, tensor<4xf32>) -> (tensor<6x4xbf16>, tensor<6xf32>)
  %dx, %dw = train.rms_norm_grad %y, %x, %w, %rstd : (tensor<6x4xbf16>, tensor<6x4xbf16>, tensor<4xf32>, tensor<6xf32>) -> (tensor<6x4xbf16>, tensor<4xf32>)
  return %dx, %dw : tensor<6x4xbf16>, tensor<4xf32>
}

// A rotation and the way back; a table serves several sequences and heads.

// CHECK-LABEL: func.func @rotary
// CHECK: %[[Y:.+]] = train.rotary %{{.+}}, %[[COS:.+]], %[[SIN:.+]] : (tensor<6x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x8xf32>
// CHECK: train.rotary inverse %[[Y]], %[[COS]], %[[SIN]] :
func.func @rotary(%x: tensor<6x8xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) -> tensor<6x8xf32> {
  %y = train.rotary %x, %cos, %sin : (tensor<6x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x8xf32>
  %z = train.rotary inverse %y, %cos, %sin : (tensor<6x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x8xf32>
  return %z : tensor<6x8xf32>
}

// Attention says how rows and columns divide into sequences and heads.

// CHECK-LABEL: func.func @attention
// CHECK: %[[Y:.+]], %[[LSE:.+]] = train.attention %[[Q:.+]], %[[K:.+]], %[[V:.+]] seq 3 heads 4 of 2 scale 5.000000e-01 : (tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>) -> (tensor<6x8xf16>, tensor<6x4xf32>)
// CHECK: train.attention_grad %[[Y]], %[[Q]], %[[K]], %[[V]], %[[Y]], %[[LSE]] seq 3 heads 4 of 2 scale 5.000000e-01
func.func @attention(%q: tensor<6x8xf16>, %k: tensor<6x4xf16>, %v: tensor<6x4xf16>) -> (tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>) {
  %y, %lse = train.attention %q, %k, %v seq 3 heads 4 of 2 scale 0.5 : (tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>) -> (tensor<6x8xf16>, tensor<6x4xf32>)
  %dq, %dk, %dv = train.attention_grad %y, %q, %k, %v, %y, %lse seq 3 heads 4 of 2 scale 0.5
    : (tensor<6x8xf16>, tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>, tensor<6x8xf16>, tensor<6x4xf32>) -> (tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>)
  return %dq, %dk, %dv : tensor<6x8xf16>, tensor<6x4xf16>, tensor<6x4xf16>
}

// CHECK-LABEL: func.func @sigmoid
// CHECK: train.sigmoid %{{.+}} : tensor<6x4xf32>
func.func @sigmoid(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %0 = train.sigmoid %x : tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// The loss is f32 whatever the logits are, its gradient as they are.

// CHECK-LABEL: func.func @cross_entropy
// CHECK: %loss, %count, %lse = train.cross_entropy %[[X:.+]], %[[L:.+]] : (tensor<6x8xbf16>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
// CHECK: train.cross_entropy_grad %loss, %[[X]], %[[L]], %lse : (tensor<f32>, tensor<6x8xbf16>, tensor<2x3xi32>, tensor<6xf32>) -> tensor<6x8xbf16>
func.func @cross_entropy(%x: tensor<6x8xbf16>, %labels: tensor<2x3xi32>) -> tensor<6x8xbf16> {
  %loss, %count, %lse = train.cross_entropy %x, %labels : (tensor<6x8xbf16>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
  %dx = train.cross_entropy_grad %loss, %x, %labels, %lse : (tensor<f32>, tensor<6x8xbf16>, tensor<2x3xi32>, tensor<6xf32>) -> tensor<6x8xbf16>
  return %dx : tensor<6x8xbf16>
}
