// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s

// The norm of all gradients, and what it makes of them.

// CHECK-LABEL: func.func @gradients
// CHECK: %[[SQ:.+]] = train.square_sum %{{.+}}, %{{.+}} : (tensor<4xf32>, tensor<8x4xbf16>) -> tensor<f64>
// CHECK: %coef, %norm, %skip = train.grad_scale %[[SQ]], %{{.+}}, %{{.+}} slots 1.024000e+03 clip 1.000000e+00 check : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
// CHECK: train.grad_scale %[[SQ]], %{{.+}}, %{{.+}} slots 1.024000e+03 clip 0.000000e+00 : (tensor<f64>
func.func @gradients(%a: tensor<4xf32>, %b: tensor<8x4xbf16>, %count: tensor<f32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %sq = train.square_sum %a, %b : (tensor<4xf32>, tensor<8x4xbf16>) -> tensor<f64>
  %coef, %norm, %skip = train.grad_scale %sq, %count, %scale slots 1024.0 clip 1.0 check : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  %coef2, %norm2, %skip2 = train.grad_scale %sq, %count, %scale slots 1024.0 clip 0.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return %coef, %coef2 : tensor<f32>, tensor<f32>
}

// Schedules print what differs from their defaults.

// CHECK-LABEL: func.func @learning_rate
// CHECK: train.learning_rate %{{.+}} by <kind = constant, base = 1.000000e-03> : (tensor<i32>) -> tensor<f32>
// CHECK: train.learning_rate %{{.+}} by <kind = WarmupLR, base = 1.000000e-03, max = 1.000000e-03, warmup = 100, logarithmic = false>
// CHECK: train.learning_rate %{{.+}} by <kind = WarmupDecayLR, base = 1.000000e-03, max = 2.000000e-03, warmup = 100, total = 1000>
// CHECK: train.learning_rate %{{.+}} by <kind = WarmupCosineLR, base = 1.000000e-03, warmup = 100, total = 1000, warmup_ratio = 1.000000e-01, cos_min_ratio = 1.000000e-02>
func.func @learning_rate(%step: tensor<i32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = train.learning_rate %step by <kind = constant, base = 1.0e-3> : (tensor<i32>) -> tensor<f32>
  %1 = train.learning_rate %step by <kind = WarmupLR, base = 1.0e-3, max = 1.0e-3, warmup = 100, logarithmic = false> : (tensor<i32>) -> tensor<f32>
  %2 = train.learning_rate %step by <kind = WarmupDecayLR, base = 1.0e-3, max = 2.0e-3, warmup = 100, total = 1000> : (tensor<i32>) -> tensor<f32>
  %3 = train.learning_rate %step by <kind = WarmupCosineLR, base = 1.0e-3, warmup = 100, total = 1000, warmup_ratio = 0.1, cos_min_ratio = 0.01> : (tensor<i32>) -> tensor<f32>
  return %0, %1, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// Counting steps, and the loss scale's next state.

// CHECK-LABEL: func.func @counters
// CHECK: train.advance %{{.+}} unless %{{.+}} : (tensor<i32>, tensor<f32>) -> tensor<i32>
// CHECK: train.update_loss_scale %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} window 1000 hysteresis 2 min 1.000000e+00 consecutive :
// CHECK: train.update_loss_scale %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} window 1 hysteresis 1 min 5.000000e-01 :
func.func @counters(%step: tensor<i32>, %scale: tensor<f32>, %skip: tensor<f32>) -> (tensor<i32>, tensor<f32>, tensor<f32>) {
  %next = train.advance %step unless %skip : (tensor<i32>, tensor<f32>) -> tensor<i32>
  %a:5 = train.update_loss_scale %scale, %step, %step, %step, %skip window 1000 hysteresis 2 min 1.0 consecutive
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  %b:5 = train.update_loss_scale %scale, %step, %step, %step, %skip window 1 hysteresis 1 min 0.5
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  return %next, %a#0, %b#0 : tensor<i32>, tensor<f32>, tensor<f32>
}

// Optimizers on a chunk: what is not decayed is named by its elements.

// CHECK-LABEL: func.func @optimizers
// CHECK: train.adam %[[P:.+]], %[[G:.+]], %{{.+}}, %{{.+}} lr %[[LR:.+]] coef %[[C:.+]] step %{{.+}} skip %[[S:.+]] {beta1 = 9.000000e-01 : f64, beta2 = 0.99899999999999999 : f64, bias_correction, decay = 1.000000e-02 : f64, decoupled, eps = 1.000000e-08 : f64, undecayed = array<i64: 0, 64, 128, 192>} :
// CHECK: train.sgd %[[P]], %[[G]], %{{.+}} lr %[[LR]] coef %[[C]] skip %[[S]] {decay = 0.000000e+00 : f64, momentum = 9.000000e-01 : f64, nesterov} :
func.func @optimizers(%p: tensor<256xf32>, %g: tensor<256xf32>, %m: tensor<256xf32>, %v: tensor<256xf32>, %x: tensor<f32>, %step: tensor<i32>) -> (tensor<256xf32>, tensor<256xf32>) {
  %a:3 = train.adam %p, %g, %m, %v lr %x coef %x step %step skip %x {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.01, decoupled, bias_correction, undecayed = array<i64: 0, 64, 128, 192>}
    : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
  %b:2 = train.sgd %p, %g, %m lr %x coef %x skip %x {momentum = 0.9, decay = 0.0, nesterov}
    : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<256xf32>, tensor<256xf32>)
  return %a#0, %b#0 : tensor<256xf32>, tensor<256xf32>
}
