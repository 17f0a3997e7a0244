// RUN: ciuic-opt %s --ciuic-verify-imported --split-input-file --verify-diagnostics

// A second read of a state names the first.

module @twice {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    // expected-note @below {{it is read here first}}
    %a = train.read @w {train.block = "a"} : tensor<f32>
    // expected-error @below {{reads @w again; a state is read once}}
    %b = train.read @w {train.block = "a"} : tensor<f32>
    return %a, %b : tensor<f32>, tensor<f32>
  }
}

// -----

// The forward writes nothing.

module @writes {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %a = train.read @w {train.block = "a"} : tensor<f32>
    // expected-error @below {{has a region or an effect; @forward is plain mathematics}}
    train.write %a, @w {train.block = "a"} : tensor<f32>
    return %a, %a : tensor<f32>, tensor<f32>
  }
}

// -----

// Regions come with recomputation, later.

module @region {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %a = train.read @w {train.block = "a"} : tensor<f32>
    // expected-error @below {{has a region or an effect; @forward is plain mathematics}}
    %b = train.recompute "a"(%a) : (tensor<f32>) -> tensor<f32> {
    ^bb0(%c: tensor<f32>):
      train.yield %c : tensor<f32>
    }
    return %a, %b : tensor<f32>, tensor<f32>
  }
}

// -----

// There is no control flow.

module @several_blocks {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  // expected-error @below {{has several blocks, expected one}}
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %a = train.read @w {train.block = "a"} : tensor<f32>
    return %a, %a : tensor<f32>, tensor<f32>
  ^bb1:
    %b = arith.constant dense<1.0> : tensor<f32>
    return %b, %b : tensor<f32>, tensor<f32>
  }
}

// -----

// Only f32 and i32 before precision is chosen.

module @types {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %a = train.read @w {train.block = "a"} : tensor<f32>
    // expected-error @below {{has a result of type 'tensor<f16>', expected a static tensor of f32 or i32}}
    %b = arith.truncf %a {train.block = "a"} : tensor<f32> to tensor<f16>
    return %a, %a : tensor<f32>, tensor<f32>
  }
}

// -----

// Each op says where it belongs.

module @no_block {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    // expected-error @below {{names no block of the model; expected train.block = "..."}}
    %a = train.read @w : tensor<f32>
    return %a, %a : tensor<f32>, tensor<f32>
  }
}

// -----

// A block that was left is not entered again.

module @scattered {
  train.state trainable parameter @w : tensor<f32> init #train.constant<1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    // expected-note @below {{it ended here}}
    %a = train.read @w {train.block = "a"} : tensor<f32>
    %b = arith.addf %a, %a {train.block = "b"} : tensor<f32>
    // expected-error @below {{is in block "a", which ended before; the ops of a block stand together}}
    %c = arith.addf %b, %a {train.block = "a"} : tensor<f32>
    return %c, %a : tensor<f32>, tensor<f32>
  }
}
