// RUN: ciuic-opt %s --split-input-file --verify-diagnostics \
// RUN:   --ciuic-train-lower-precision=compute-type=f16
// RUN: not ciuic-opt %s --ciuic-train-lower-precision="compute-type=f16 loss-scale=-1" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SCALE
// RUN: not ciuic-opt %s --ciuic-train-lower-precision="compute-type=f16 initial-scale-power=128" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=POWER
// RUN: not ciuic-opt %s --ciuic-train-lower-precision="compute-type=f16 window=0" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WINDOW
// SCALE: error: loss-scale is -1.0{{.*}}, expected 0 for a dynamic scale or a finite positive number
// POWER: error: initial-scale-power is 128, expected 0 to 127
// WINDOW: error: loss scaling has window 0, hysteresis 2 and min 1.0{{.*}}, expected at least 1, at least 1 and a positive number

// A forward alone has no gradients to lower.
// expected-error @below {{holds no function @micro_step; expected a differentiated module}}
module @imported {
  func.func @forward() {
    return
  }
}

// -----

// An op that says nothing of its types is refused with its name.
module @no_signature {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state scalar @s : tensor<f32> init #train.constant<1.0>
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    %w = train.read @w : tensor<4xf32>
    // expected-error @below {{'comm.chunk' does not say which of its types are 16-bit}}
    %c = comm.chunk %w of <"dp" = 2> : tensor<4xf32> -> tensor<2xf32>
    return
  }
  func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  func.func @apply_step() {
    %s = train.read @s : tensor<f32>
    %sq = train.square_sum %s : (tensor<f32>) -> tensor<f64>
    %coef, %norm, %skip = train.grad_scale %sq, %s, %s slots 4.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
}

// -----

// Once is enough.
module @again {
  // expected-error @below {{parameter @w has type 'tensor<4xf16>', expected elements of f32; is precision lowered already?}}
  train.state trainable parameter @w : tensor<4xf16> init #train.constant<1.0>
  train.state scalar @s : tensor<f32> init #train.constant<1.0>
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  func.func @apply_step() {
    %s = train.read @s : tensor<f32>
    %sq = train.square_sum %s : (tensor<f32>) -> tensor<f64>
    %coef, %norm, %skip = train.grad_scale %sq, %s, %s slots 4.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
}

// -----

// Without its seed the backward cannot be scaled.
module @no_seed {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state scalar @s : tensor<f32> init #train.constant<1.0>
  // expected-error @below {{@micro_step has 0 constants marked 'train.seed', expected the one that starts the backward}}
  func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  func.func @eval_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
    return
  }
  func.func @apply_step() {
    %s = train.read @s : tensor<f32>
    %sq = train.square_sum %s : (tensor<f32>) -> tensor<f64>
    %coef, %norm, %skip = train.grad_scale %sq, %s, %s slots 4.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
}
