// RUN: ciuic-opt %s --ciuic-verify-precision --split-input-file --verify-diagnostics

// All is well in bf16.
module @good {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %w = train.read @w : tensor<4xbf16>
    %wide = arith.extf %w : tensor<4xbf16> to tensor<4xf32>
    %s = train.sigmoid %wide : tensor<4xf32>
    %g = arith.truncf %s : tensor<4xf32> to tensor<4xbf16>
    train.accumulate %g, @w.grad : tensor<4xbf16>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Parameters share one type.
module @mixed {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  // expected-error @below {{parameter @v has type 'tensor<4xf16>', expected one of f32, bf16 and f16 for all parameters}}
  train.state parameter @v : tensor<4xf16> init #train.constant<1.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// What follows a parameter is f32.
module @narrow_moment {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  // expected-error @below {{moment @w.exp_avg has type 'tensor<4xbf16>', expected elements of f32}}
  train.state moment @w.exp_avg of @w slot "exp_avg" : tensor<4xbf16> init #train.constant<0.0>
  func.func @micro_step() {
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A 16-bit parameter that trains needs a master.
module @no_master {
  // expected-error @below {{parameter @w has 0 masters, expected 1}}
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
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

// A frozen one has none: nothing would read it.
module @frozen_master {
  // expected-error @below {{parameter @w has 1 masters, expected 0}}
  train.state parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
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

// A master starts with its parameter's values.
module @other_init {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  // expected-error @below {{master @w.master differs in shape or initialiser from @w}}
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<0.0>
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

// Pointwise ops compute in f32.
module @narrow_pointwise {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %w = train.read @w : tensor<4xbf16>
    // expected-error @below {{'arith.addf' has operand 0 of type 'tensor<4xbf16>', expected elements of 'f32'}}
    %g = arith.addf %w, %w : tensor<4xbf16>
    train.accumulate %g, @w.grad : tensor<4xbf16>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// An op takes the type that it declares, and the message names it.
// expected-error @unknown {{'train.sigmoid' (mlp.act) has operand 0 of type 'tensor<4xbf16>', expected elements of 'f32'}}
module @narrow_sigmoid {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %w = train.read @w : tensor<4xbf16>
    %g = train.sigmoid %w : tensor<4xbf16> loc("mlp.act")
    train.accumulate %g, @w.grad : tensor<4xbf16>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// A signature's other operands are f32: row statistics.
module @wide_linear {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %x = arith.constant dense<1.0> : tensor<2x4xf32>
    // expected-error @below {{'train.linear' has operand 0 of type 'tensor<2x4xf32>', expected elements of 'bf16'}}
    %y = train.linear %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Gradients travel in 16 bits.
module @wide_gradient {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %g = arith.constant dense<1.0> : tensor<4xf32>
    // expected-error @below {{'train.accumulate' has a value of type 'tensor<4xf32>', expected elements of 'bf16'}}
    train.accumulate %g, @w.grad : tensor<4xf32>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}

// -----

// Casts go between the two types of the job and no others.
module @other_cast {
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  train.state master @w.master of @w : tensor<4xf32> init #train.constant<1.0>
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
  func.func @micro_step() {
    %w = train.read @w : tensor<4xbf16>
    // expected-error @below {{'arith.extf' has its result of type 'tensor<4xf64>', expected elements of 'f32'}}
    %x = arith.extf %w : tensor<4xbf16> to tensor<4xf64>
    return
  }
  func.func @apply_step() {
    %m = train.read @w.master : tensor<4xf32>
    train.write %m, @w.master : tensor<4xf32>
    %p = arith.truncf %m : tensor<4xf32> to tensor<4xbf16>
    train.write %p, @w : tensor<4xbf16>
    return
  }
  func.func @eval_step() {
    return
  }
}
