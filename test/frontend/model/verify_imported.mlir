// RUN: ciuic-opt %s --ciuic-verify-imported --split-input-file --verify-diagnostics

// A small model of one's own passes, constants without a block included.

module @fine {
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.5>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %w = train.read @w {train.block = "embed"} : tensor<8x4xf32>
    %x = train.embedding %tokens in %w {train.block = "embed"} : (tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %two = arith.constant dense<2.0> : tensor<6x4xf32>
    %y = arith.mulf %x, %two {train.block = "head"} : tensor<6x4xf32>
    %logits = train.linear %y, %w {train.block = "head"} : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels {train.block = "head"} : (tensor<6x8xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Without @forward there is no model.

// expected-error @below {{module has no function @forward with a body}}
module @no_forward {
}

// -----

// A declaration has no graph.

// expected-error @below {{module has no function @forward with a body}}
module @declared {
  func.func private @forward(tensor<2x3xi32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>)
}

// -----

// Tokens and labels have one shape, and there are two results.

module @signature {
  // expected-error @below {{has type '(tensor<2x3xi32>, tensor<3x2xi32>) -> tensor<f32>', expected (tensor<BxTxi32>, tensor<BxTxi32>) -> (tensor<f32>, tensor<f32>)}}
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<3x2xi32>) -> tensor<f32> {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The loss is f32.

module @f64_loss {
  // expected-error @below {{expected (tensor<BxTxi32>, tensor<BxTxi32>) -> (tensor<f32>, tensor<f32>)}}
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f64>, tensor<f32>) {
    %a = arith.constant dense<1.0> : tensor<f64>
    %b = arith.constant dense<1.0> : tensor<f32>
    return %a, %b : tensor<f64>, tensor<f32>
  }
}

// -----

// Other functions do not belong to a model.

module @helper {
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  // expected-error @below {{'func.func' op is not expected in an imported module}}
  func.func @helper() { return }
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// Gradients come later.

module @gradient {
  // expected-error @below {{@g is a gradient; an imported module has parameters and tables}}
  train.state gradient @g of @w : tensor<4xf32> init #train.constant<0.0>
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// Precision is chosen later.

module @half {
  // expected-error @below {{@w has type 'tensor<4xbf16>', expected elements of f32}}
  train.state trainable parameter @w : tensor<4xbf16> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// So is the layout.

module @in_bucket {
  // expected-error @below {{@w is laid out already; an imported state is a whole tensor}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0> in @b at 0
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// There must be something to train.

// expected-error @below {{module has no trainable parameter}}
module @frozen {
  train.state parameter @w : tensor<4xf32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}

// -----

// A state that nobody reads is a mistake.

module @unused {
  // expected-error @below {{@w is read by no train.read of @forward}}
  train.state trainable parameter @w : tensor<4xf32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %loss = arith.constant dense<1.0> : tensor<f32>
    return %loss, %loss : tensor<f32>, tensor<f32>
  }
}
