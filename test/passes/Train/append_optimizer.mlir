// RUN: ciuic-opt %s --ciuic-train-differentiate=accumulation=2 \
// RUN:   --ciuic-train-append-optimizer="accumulation=2 decay=0.1 no-decay=norm clip=0.5 beta2=0.95 kind=WarmupLR min=0 max=3e-4 warmup=10" \
// RUN:   --ciuic-verify-differentiated --mlir-print-local-scope | FileCheck %s
// RUN: ciuic-opt %s --ciuic-train-differentiate \
// RUN:   --ciuic-train-append-optimizer="optimizer=sgd momentum=0.9 nesterov check-overflow" \
// RUN:   --ciuic-verify-differentiated | FileCheck %s --check-prefix=SGD
// RUN: ciuic-opt %s --ciuic-train-differentiate \
// RUN:   --ciuic-train-append-optimizer="optimizer=adam bias-correction=false" \
// RUN:   --ciuic-verify-differentiated | FileCheck %s --check-prefix=ADAM

// The step reads what was accumulated, scales it once and updates each
// parameter with its own moments; the norm takes no decay.

// CHECK-LABEL: module @two
module @two {
  train.state trainable parameter @embed.weight : tensor<8x4xf32> init #train.normal<std = 0.02>
  train.state trainable parameter @norm.weight : tensor<4xf32> init #train.constant<1.0>
  // CHECK: train.state moment @embed.weight.exp_avg of @embed.weight slot "exp_avg" : tensor<8x4xf32> init #train.constant<0.000000e+00>
  // CHECK-NEXT: train.state moment @embed.weight.exp_avg_sq of @embed.weight slot "exp_avg_sq" : tensor<8x4xf32>
  // CHECK-NEXT: train.state moment @norm.weight.exp_avg of @norm.weight slot "exp_avg" : tensor<4xf32>
  // CHECK-NEXT: train.state moment @norm.weight.exp_avg_sq of @norm.weight slot "exp_avg_sq" : tensor<4xf32>
  // CHECK-NEXT: train.state scalar @step : tensor<i32>
  // CHECK-NEXT: train.state scalar @report.loss : tensor<f32>
  // CHECK-NEXT: train.state scalar @report.grad_norm : tensor<f32>
  // CHECK-NEXT: train.state scalar @report.lr : tensor<f32>
  // CHECK-NEXT: train.state scalar @report.skip : tensor<f32>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %embed = train.read @embed.weight {train.block = "embed"} : tensor<8x4xf32>
    %x = train.embedding %tokens in %embed {train.block = "embed"} : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %norm = train.read @norm.weight {train.block = "head"} : tensor<4xf32>
    %n, %rstd = train.rms_norm %x, %norm eps 1.0e-5 {train.block = "head"} : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %logits = train.linear %n, %embed {train.block = "head"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// CHECK-LABEL: func.func @apply_step() {
// CHECK-NEXT: %[[LOSS:.+]] = train.read @metric.loss
// CHECK-NEXT: %[[TOKENS:.+]] = train.read @metric.tokens
// CHECK-NEXT: %[[G0:.+]] = train.read @embed.weight.grad {train.block = "embed"}
// CHECK-NEXT: %[[G1:.+]] = train.read @norm.weight.grad {train.block = "head"}
// CHECK-NEXT: %[[SQ:.+]] = train.square_sum %[[G0]], %[[G1]]
// CHECK-NEXT: %[[ONE:.+]] = arith.constant dense<1.0{{.*}}> : tensor<f32>
// CHECK-NEXT: %[[COEF:.+]], %[[NORM:.+]], %[[SKIP:.+]] = train.grad_scale %[[SQ]], %[[TOKENS]], %[[ONE]] slots 8.0{{.*}} clip 5.0{{0*}}e-01 :
// CHECK-NEXT: %[[STEP:.+]] = train.read @step : tensor<i32>
// CHECK-NEXT: %[[LR:.+]] = train.learning_rate %[[STEP]] by <kind = WarmupLR, base = 1.000000e-03, max = 3.{{0*}}e-04, warmup = 10>
// CHECK-NEXT: %[[P:.+]] = train.read @embed.weight {train.block = "embed"}
// CHECK-NEXT: %[[M:.+]] = train.read @embed.weight.exp_avg {train.block = "embed"}
// CHECK-NEXT: %[[V:.+]] = train.read @embed.weight.exp_avg_sq {train.block = "embed"}
// CHECK-NEXT: %[[P1:.+]], %[[M1:.+]], %[[V1:.+]] = train.adam %[[P]], %[[G0]], %[[M]], %[[V]] lr %[[LR]] coef %[[COEF]] step %[[STEP]] skip %[[SKIP]]
// CHECK-SAME: beta2 = 0.9{{4|5}}{{[0-9]*}}
// CHECK-SAME: bias_correction, decay = 1.0{{0*}}e-01 : f64, decoupled
// CHECK-SAME: train.block = "embed"
// CHECK-NEXT: train.write %[[P1]], @embed.weight {train.block = "embed"}
// CHECK-NEXT: train.write %[[M1]], @embed.weight.exp_avg {train.block = "embed"}
// CHECK-NEXT: train.write %[[V1]], @embed.weight.exp_avg_sq {train.block = "embed"}
// CHECK: train.adam {{.*}}, %[[G1]],
// CHECK-SAME: decay = 0.0{{0*}}e+00
// CHECK: %[[NEXT:.+]] = train.advance %[[STEP]] unless %[[SKIP]]
// CHECK-NEXT: train.write %[[NEXT]], @step
// CHECK-NEXT: %[[LABELLED:.+]] = arith.maximumf %[[TOKENS]], %[[ONE]]
// CHECK-NEXT: %[[MEAN:.+]] = arith.divf %[[LOSS]], %[[LABELLED]]
// CHECK-NEXT: train.write %[[MEAN]], @report.loss
// CHECK-NEXT: train.write %[[NORM]], @report.grad_norm
// CHECK-NEXT: train.write %[[LR]], @report.lr
// CHECK-NEXT: train.write %[[SKIP]], @report.skip
// CHECK-NEXT: return

// SGD has one moment; the check for inf and NaN was asked for.
// SGD: train.state moment @embed.weight.momentum_buffer of @embed.weight slot "momentum_buffer"
// SGD-NOT: exp_avg
// SGD: train.grad_scale {{.*}} check
// SGD: train.sgd {{.*}} {decay = 0.0{{.*}}momentum = 9.0{{.*}}nesterov

// Adam decays through the gradient; corrections can be left out.
// ADAM: train.adam
// ADAM-NOT: decoupled
// ADAM-NOT: bias_correction
// ADAM: return
