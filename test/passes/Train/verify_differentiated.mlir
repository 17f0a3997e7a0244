// RUN: ciuic-opt %s --ciuic-verify-differentiated --split-input-file --verify-diagnostics

// All is well: one gradient, accumulated once, and one write.
module @good {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// The forward has become two steps.
module @forward_left {
  // expected-error @below {{@forward is still there}}
  func.func @forward() {
    return
  }
}

// -----

// Each of the three steps is there.
// expected-error @below {{holds no function @apply_step; expected a differentiated module}}
module @no_apply {
  func.func @micro_step() {
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A step gives nothing back: what it computes is in the states.
module @result {
  // expected-error @below {{@micro_step has 1 results, expected none}}
  func.func @micro_step() -> tensor<f32> {
    %one = arith.constant dense<1.0> : tensor<f32>
    return %one : tensor<f32>
  }
  func.func @apply_step() {
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A trainable parameter without a gradient.
module @no_gradient {
  // expected-error @below {{trainable parameter @w has 0 gradients, expected 1}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Two gradients of one parameter.
module @two_gradients {
  // expected-error @below {{trainable parameter @w has 2 gradients, expected 1}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state gradient @w.grad2 of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A frozen parameter has no gradient.
module @frozen {
  train.state parameter @w : tensor<4xf32> init #train.constant<1.0>
  // expected-error @below {{gradient @w.grad belongs to @w, which is no trainable parameter}}
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A gradient is f32 and has the shape of its parameter.
module @shape {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  // expected-error @below {{gradient @w.grad has type 'tensor<2x2xf32>', expected f32 and the shape of 'tensor<4xf32>'}}
  train.state gradient @w.grad of @w : tensor<2x2xf32> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Accumulated twice, a gradient would count double.
module @twice {
  // expected-error @below {{the gradient of trainable parameter @w is accumulated 2 times in @micro_step, expected once}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Never accumulated, it would stay zero.
module @never {
  // expected-error @below {{the gradient of trainable parameter @w is accumulated 0 times in @micro_step, expected once}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}
