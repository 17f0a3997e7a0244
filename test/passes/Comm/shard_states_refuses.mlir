// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-comm-shard-states="ranks=2 stage=1"

// All ranks run the same collectives in the same order: no branches.
module {
  // expected-error @+1 {{@micro_step has 2 basic blocks, expected straight-line code}}
  func.func @micro_step() {
    return
  ^bb1:
    return
  }
}

// -----

// Sharding twice would put buckets into buckets.
module {
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  // expected-error @+1 {{parameter @w lies in a bucket already: the module is sharded}}
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0> in @b at 0
}

// -----

// A gradient follows a parameter.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  // expected-error @+1 {{gradient @w.grad belongs to @v, which is no parameter}}
  train.state gradient @w.grad of @v : tensor<8xf32> init #train.constant<0.0>
}

// -----

// What follows a parameter has its shape.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  // expected-error @+1 {{gradient @w.grad of 'tensor<4xf32>' belongs to @w of 'tensor<8xf32>'; expected one shape}}
  train.state gradient @w.grad of @w : tensor<4xf32> init #train.constant<0.0>
}

// -----

// A parameter has one gradient.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  // expected-error @+1 {{is the second gradient of @w, after @w.grad}}
  train.state gradient @w.grad2 of @w : tensor<8xf32> init #train.constant<0.0>
}

// -----

// Sizes that overflow are refused before anything is laid out.
module {
  // expected-error @+1 {{has too many elements to lay out}}
  train.state trainable parameter @w : tensor<4294967296x4294967296xf32> init #train.constant<0.0>
}

// -----

// A tensor without elements has no place.
module {
  // expected-error @+1 {{parameter @w of 'tensor<0x8xf32>' has no elements}}
  train.state trainable parameter @w : tensor<0x8xf32> init #train.constant<0.0>
}

// -----

// Buckets hold floating-point parameters.
module {
  // expected-error @+1 {{parameter @w of 'tensor<8xi32>' is of no type that a bucket can hold, expected f32, bf16 or f16}}
  train.state parameter @w : tensor<8xi32> init #train.constant<0.0>
}

// -----

// A use of a parameter belongs to a block.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>) {
    %w = train.read @w : tensor<8xf32>
    // expected-error @+1 {{uses parameter @w but belongs to no block; expected the attribute train.block}}
    %y, %r = train.rms_norm %x, %w eps 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return
  }
}

// -----

// Gradients of one parameter come as one sum.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  func.func @micro_step(%g: tensor<8xf32>) {
    train.accumulate %g, @w.grad : tensor<8xf32>
    // expected-error @+1 {{is the second to add to @w.grad in @micro_step, expected one sum}}
    train.accumulate %g, @w.grad : tensor<8xf32>
    return
  }
}

// -----

// Only what is updated has a gradient to keep.
module {
  train.state parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  func.func @micro_step(%g: tensor<8xf32>) {
    // expected-error @+1 {{adds to the gradient of @w, which no optimizer updates}}
    train.accumulate %g, @w.grad : tensor<8xf32>
    return
  }
}

// -----

// Names that buckets need are free.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  // expected-error @+1 {{@unused.grad is the name of what bucket @unused needs}}
  train.state metric @unused.grad : tensor<f32> init #train.constant<0.0>
}

// -----

// A step that reads a parameter for anything but an update has no counterpart
// on chunks.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<8xf32> {
    // expected-error @+1 {{of @w has no counterpart on buckets}}
    %w = train.read @w : tensor<8xf32>
    return %w : tensor<8xf32>
  }
}

// -----

// The norm is over gradients, not over what was made of them.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<f64> {
    %g = train.read @w.grad : tensor<8xf32>
    %n = arith.negf %g : tensor<8xf32>
    // expected-error @+1 {{sums a value that is not train.read of a gradient}}
    %sq = train.square_sum %n : (tensor<8xf32>) -> tensor<f64>
    return %sq : tensor<f64>
  }
}

// -----

// The norm of a bucket has all of its members.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @v : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @v.grad of @v : tensor<8xf32> init #train.constant<0.0>
  train.state moment @v.m of @v slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<f64> {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %h = train.read @v.grad : tensor<8xf32>
    // expected-error @+1 {{leaves out the gradient of @v, which shares bucket @unused with gradients that it sums}}
    %sq = train.square_sum %g : (tensor<8xf32>) -> tensor<f64>
    %w = train.read @w : tensor<8xf32>
    %wm = train.read @w.m : tensor<8xf32>
    %w2, %wm2 = train.sgd %w, %g, %wm lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    train.write %wm2, @w.m : tensor<8xf32>
    %v = train.read @v : tensor<8xf32>
    %vm = train.read @v.m : tensor<8xf32>
    %v2, %vm2 = train.sgd %v, %h, %vm lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %v2, @v : tensor<8xf32>
    train.write %vm2, @v.m : tensor<8xf32>
    return %sq : tensor<f64>
  }
}

// -----

// One update serves a bucket: its members agree on all but decay.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @v : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @v.grad of @v : tensor<8xf32> init #train.constant<0.0>
  train.state moment @v.m of @v slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %h = train.read @v.grad : tensor<8xf32>
    %w = train.read @w : tensor<8xf32>
    %wm = train.read @w.m : tensor<8xf32>
    %w2, %wm2 = train.sgd %w, %g, %wm lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    train.write %wm2, @w.m : tensor<8xf32>
    %v = train.read @v : tensor<8xf32>
    %vm = train.read @v.m : tensor<8xf32>
    // expected-error @+1 {{updates @v with other hyperparameters than @w, which shares bucket @unused}}
    %v2, %vm2 = train.sgd %v, %h, %vm lr %s coef %s skip %s {momentum = 0.5, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %v2, @v : tensor<8xf32>
    train.write %vm2, @v.m : tensor<8xf32>
    return
  }
}

// -----

// An update takes its own parameter's gradient.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step(%g: tensor<8xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    %w = train.read @w : tensor<8xf32>
    %wm = train.read @w.m : tensor<8xf32>
    // expected-error @+1 {{takes for @w a gradient that is not train.read of its gradient state}}
    %w2, %wm2 = train.sgd %w, %g, %wm lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    train.write %wm2, @w.m : tensor<8xf32>
    return
  }
}

// -----

// The updated value is written, and nothing else.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<8xf32> {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %w = train.read @w : tensor<8xf32>
    %wm = train.read @w.m : tensor<8xf32>
    %w2, %wm2 = train.sgd %w, %g, %wm lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %wm2, @w.m : tensor<8xf32>
    // expected-error @+1 {{uses the updated @w, expected only writes of it and of its rounded copy}}
    return %w2 : tensor<8xf32>
  }
}
