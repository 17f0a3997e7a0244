// RUN: ciuic-opt %s --ciuic-verify-differentiated --split-input-file --verify-diagnostics

// Only the optimizer writes.
module @micro_writes {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    // expected-error @below {{'train.write' in @micro_step: only @apply_step writes states}}
    train.write %g, @w : tensor<4xf32>
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

// An evaluation leaves gradients alone.
module @eval_accumulates {
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
    %g = arith.constant dense<1.0> : tensor<4xf32>
    // expected-error @below {{'train.accumulate' in @eval_step: an evaluation accumulates only metrics}}
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
}

// -----

// An evaluation has no backward.
module @eval_backward {
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
    // expected-error @below {{'arith.constant' in @eval_step: an evaluation has no backward}}
    %g = arith.constant {train.backward} dense<1.0> : tensor<4xf32>
    return
  }
}

// -----

// A trainable parameter that is never written does not train.
module @not_written {
  // expected-error @below {{trainable parameter @w is written 0 times in @apply_step, expected once}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
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

// A frozen one that is written is not frozen.
module @frozen_written {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  // expected-error @below {{parameter @v is written 1 times in @apply_step, expected never}}
  train.state parameter @v : tensor<4xf32> init #train.constant<1.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    train.write %w, @v : tensor<4xf32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A moment that is not written would forget.
module @moment {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  // expected-error @below {{moment @w.exp_avg is written 0 times in @apply_step, expected once}}
  train.state moment @w.exp_avg of @w slot "exp_avg" : tensor<4xf32> init #train.constant<0.0>
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

// The optimizer sees no data, so it accumulates nothing.
module @apply_accumulates {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  train.state metric @m : tensor<f32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %w = train.read @w : tensor<4xf32>
    train.write %w, @w : tensor<4xf32>
    %one = arith.constant dense<1.0> : tensor<f32>
    // expected-error @below {{'train.accumulate' in @apply_step: only steps over data accumulate}}
    train.accumulate %one, @m : tensor<f32>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Where the forward names blocks the backward does too.
module @blockless {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %x = arith.constant {train.block = "head"} dense<1.0> : tensor<4xf32>
    // expected-error @below {{'arith.addf' in @micro_step: it names no block}}
    %g = arith.addf %x, %x {train.backward} : tensor<4xf32>
    train.accumulate %g, @w.grad {train.backward, train.block = "head"} : tensor<4xf32>
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
