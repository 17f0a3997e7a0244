// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-train-lower-precision="compute-type=f16 initial-scale-power=8 window=500 hysteresis=3 min=2 consecutive" \
// RUN:   --ciuic-verify-precision | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-train-lower-precision="compute-type=f16 loss-scale=128" \
// RUN:   --ciuic-verify-precision | FileCheck %s --check-prefix=STATIC
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-train-lower-precision="compute-type=bf16 check-overflow" \
// RUN:   --ciuic-verify-precision | FileCheck %s --check-prefix=BF16
// Simplification before does not hide the seed.
// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --cse --canonicalize --cse --ciuic-train-lower-precision=compute-type=f16 \
// RUN:   --ciuic-verify-precision -o %t
// RUN: ciuic-run --check-gradients %t --f64 --random-inputs

// f16 starts the backward from the scaled seed, divides by the scale when
// gradients are scaled, checks them, and runs the machine last.

// CHECK-LABEL: module @scaled
module @scaled {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state scalar @loss_scale : tensor<f32> init #train.constant<2.560000e+02>
  // CHECK: train.state scalar @scaler.iteration : tensor<i32> init #train.constant<0.000000e+00>
  // CHECK: train.state scalar @scaler.last_overflow : tensor<i32> init #train.constant<-1.000000e+00>
  // CHECK: train.state scalar @scaler.hysteresis : tensor<i32> init #train.constant<3.000000e+00>
  // CHECK: train.state scalar @report.stopped : tensor<f32>
  // CHECK-LABEL: func.func @micro_step
  // CHECK: %[[SEED:.+]] = arith.constant {train.backward, train.block = "head", train.seed} dense<2.500000e-01>
  // CHECK-NEXT: %[[SCALE:.+]] = train.read @loss_scale {train.backward, train.block = "head"} : tensor<f32>
  // CHECK-NEXT: %[[SCALED:.+]] = arith.mulf %[[SEED]], %[[SCALE]] {train.backward, train.block = "head"} : tensor<f32>
  // CHECK-NEXT: train.cross_entropy_grad %[[SCALED]], {{.*}} -> tensor<4x8xf16>
  // CHECK-LABEL: func.func @apply_step
  // CHECK: %[[SCALE:.+]] = train.read @loss_scale : tensor<f32>
  // CHECK-NEXT: %{{.+}}, %{{.+}}, %[[SKIP:.+]] = train.grad_scale %{{.+}}, %{{.+}}, %[[SCALE]] slots {{.*}} check
  // CHECK: %[[I:.+]] = train.read @scaler.iteration
  // CHECK-NEXT: %[[L:.+]] = train.read @scaler.last_overflow
  // CHECK-NEXT: %[[H:.+]] = train.read @scaler.hysteresis
  // CHECK-NEXT: %[[S1:.+]], %[[I1:.+]], %[[L1:.+]], %[[H1:.+]], %[[STOP:.+]] = train.update_loss_scale %[[SCALE]], %[[I]], %[[L]], %[[H]], %[[SKIP]] window 500 hysteresis 3 min 2.000000e+00 consecutive
  // CHECK-NEXT: train.write %[[S1]], @loss_scale
  // CHECK-NEXT: train.write %[[I1]], @scaler.iteration
  // CHECK-NEXT: train.write %[[L1]], @scaler.last_overflow
  // CHECK-NEXT: train.write %[[H1]], @scaler.hysteresis
  // CHECK-NEXT: train.write %[[STOP]], @report.stopped
  // CHECK-NEXT: return

  // A fixed scale has no machine.
  // STATIC: train.state scalar @loss_scale : tensor<f32> init #train.constant<1.280000e+02>
  // STATIC-NOT: scaler
  // STATIC-NOT: report.stopped
  // STATIC: train.grad_scale {{.*}} check
  // STATIC-NOT: train.update_loss_scale

  // bf16 checks when asked and has no scale.
  // BF16-NOT: loss_scale
  // BF16: train.grad_scale {{.*}} check
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w {train.block = "head"} : tensor<8x4xf32>
    %x = train.embedding %tokens in %w {train.block = "head"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %logits = train.linear %x, %w {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
