// RUN: ciuic-opt %s --ciuic-train-differentiate --split-input-file --verify-diagnostics

// An op without a derivative is refused with the user's name for it and the
// parameter that needs it.
// expected-error @unknown {{'math.atan' (layers.0.mlp.act) has no derivative, but the loss depends on parameter @w through it}}
module @unknown_op {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %y = math.atan %x : tensor<4x4xf32> loc("layers.0.mlp.act")
    %logits = train.linear %y, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A derivative that an op does not have in one operand is refused too.
module @exponent {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    // expected-error @below {{'math.powf' has no derivative in its exponent}}
    %y = math.powf %x, %x : tensor<4x4xf32>
    %logits = train.linear %y, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Rotary tables are constants: a trained one is refused, not ignored.
module @trained_table {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  train.state trainable parameter @cos : tensor<4x2xf32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %cos = train.read @cos : tensor<4x2xf32>
    // expected-error @below {{'train.rotary' op has no derivative in its tables}}
    %y = train.rotary %x, %cos, %cos : (tensor<4x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
    %logits = train.linear %y, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Row statistics are for the backward, not for the model.
module @statistics {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  train.state parameter @n : tensor<4xf32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %n = train.read @n : tensor<4xf32>
    // expected-error @below {{'train.rms_norm' op has no derivative through rstd}}
    %y, %rstd = train.rms_norm %x, %n eps 1.0e-5 : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %z, %r = train.rms_norm %y, %rstd eps 1.0e-5 : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %logits = train.linear %z, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Nothing to differentiate.
// expected-error @below {{holds no function @forward; expected an imported model}}
module @no_forward {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
}

// -----

// The forward's type is the contract with the importer.
module @wrong_type {
  // expected-error @below {{@forward has type '(tensor<1x4xi32>) -> tensor<f32>', expected (tensor<BxTxi32>, tensor<BxTxi32>) -> ('tensor<f32>', 'tensor<f32>')}}
  func.func @forward(%tokens: tensor<1x4xi32>) -> tensor<f32> {
    %zero = arith.constant dense<0.0> : tensor<f32>
    return %zero : tensor<f32>
  }
}

// -----

// A job without a trainable parameter trains nothing.
module @frozen {
  train.state parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // expected-error @below {{the loss depends on no trainable parameter; there is nothing to train}}
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %logits = train.linear %x, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A state of the user's may not have the name of one that is added.
module @taken {
  // expected-error @below {{needs the name @w.grad for a gradient state, but it is taken}}
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // expected-note @below {{by this train.state}}
  train.state table @w.grad : tensor<8x4xf32> init #train.constant<0.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %logits = train.linear %x, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Precision comes later: a 16-bit parameter is refused.
module @narrow {
  // expected-error @below {{trainable parameter @w has type 'tensor<8x4xbf16>', expected elements of f32; precision is lowered after differentiation}}
  train.state trainable parameter @w : tensor<8x4xbf16> init #train.normal<std = 0.02>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<0.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// A forward changes no state.
module @writes {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  train.state metric @m : tensor<f32> init #train.constant<0.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %one = arith.constant dense<1.0> : tensor<f32>
    // expected-error @below {{'train.accumulate' changes a state, which a forward does not}}
    train.accumulate %one, @m : tensor<f32>
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %logits = train.linear %x, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A parameter that the loss does not read is warned about and frozen.
module @unused {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // expected-warning @below {{the loss does not depend on trainable parameter @v; it stays as it is}}
  train.state trainable parameter @v : tensor<4x4xf32> init #train.constant<0.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %logits = train.linear %x, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A path through an integer or a comparison is none.
module @through_comparison {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // expected-warning @below {{the loss does not depend on trainable parameter @v; it stays as it is}}
  train.state trainable parameter @v : tensor<4x4xf32> init #train.constant<0.0>
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w : tensor<8x4xf32>
    %x = train.embedding %tokens in %w : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %v = train.read @v : tensor<4x4xf32>
    %above = arith.cmpf ogt, %x, %v : tensor<4x4xf32>
    %y = arith.select %above, %x, %x : tensor<4x4xi1>, tensor<4x4xf32>
    %logits = train.linear %y, %w : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
