// RUN: ciuic-opt %s --ciuic-verify-precision --split-input-file --verify-diagnostics

// A master is written once, and its parameter too.
module @unwritten {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  // expected-error @below {{@apply_step writes master @w.master 1 times and its parameter 0 times, expected once each}}
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// The parameter is the rounding of the master that is written.
module @other_rounding {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %two = arith.addf %m, %m : tensor<4xf32>
    %p = arith.truncf %two : tensor<4xf32> to tensor<4xbf16>
    // expected-error @below {{'train.write' gives @w a value that is not the rounding of its master's}}
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// f16 gradients can overflow, so they are checked.
module @unchecked {
  train.state trainable parameter @w : tensor<4xf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state scalar @loss_scale : tensor<f32> init #train.constant<2.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xf16>
    train.write %p, @w : tensor<4xf16>
    %one = arith.constant dense<1.0> : tensor<f32>
    %scale = train.read @loss_scale : tensor<f32>
    %sq = train.square_sum %m : (tensor<4xf32>) -> tensor<f64>
    // expected-error @below {{'train.grad_scale' does not check for inf and NaN, which f16 gradients need}}
    %coef, %norm, %skip = train.grad_scale %sq, %one, %scale slots 4.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// They are scaled, so they are divided by the scale.
module @undivided {
  train.state trainable parameter @w : tensor<4xf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state scalar @loss_scale : tensor<f32> init #train.constant<2.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xf16>
    train.write %p, @w : tensor<4xf16>
    %one = arith.constant dense<1.0> : tensor<f32>
    %scale = train.read @loss_scale : tensor<f32>
    %sq = train.square_sum %m : (tensor<4xf32>) -> tensor<f64>
    // expected-error @below {{'train.grad_scale' does not divide by @loss_scale, which f16 gradients need}}
    %coef, %norm, %skip = train.grad_scale %sq, %one, %one slots 4.0 clip 1.0 check : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// And the backward starts from the scaled seed.
module @unscaled_seed {
  train.state trainable parameter @w : tensor<4xf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state scalar @loss_scale : tensor<f32> init #train.constant<2.0>
  func.func @micro_step() {
    %seed = arith.constant {train.seed} dense<1.0> : tensor<f32>
    // expected-error @below {{'arith.negf' reads the backward's seed without @loss_scale}}
    %n = arith.negf %seed : tensor<f32>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xf16>
    train.write %p, @w : tensor<4xf16>
    %one = arith.constant dense<1.0> : tensor<f32>
    %scale = train.read @loss_scale : tensor<f32>
    %sq = train.square_sum %m : (tensor<4xf32>) -> tensor<f64>
    %coef, %norm, %skip = train.grad_scale %sq, %one, %scale slots 4.0 clip 1.0 check : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    return
  }
  func.func @eval_step() {
    return
  }
}
