// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-comm-shard-states="ranks=2 stage=1"

// A step updates a parameter once.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %w = train.read @w : tensor<8xf32>
    %m = train.read @w.m : tensor<8xf32>
    %w2, %m2 = train.sgd %w, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    // expected-error @+1 {{is the second update of @w}}
    %w3, %m3 = train.sgd %w, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    train.write %m2, @w.m : tensor<8xf32>
    return
  }
}

// -----

// What is updated is read from a state.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step(%w: tensor<8xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    // expected-error @+1 {{updates a value that is no parameter's, expected train.read of one}}
    %w2, %m2 = train.sgd %w, %w, %w lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    return
  }
}

// -----

// Where there is a master, the update is of the master.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state master @w.master of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %w = train.read @w : tensor<8xf32>
    %m = train.read @w.m : tensor<8xf32>
    // expected-error @+1 {{does not update @w.master, the most precise copy of @w}}
    %w2, %m2 = train.sgd %w, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    train.write %m2, @w.m : tensor<8xf32>
    return
  }
}

// -----

// A moment is written, and nothing else is made of it.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<8xf32> {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @w.grad : tensor<8xf32>
    %w = train.read @w : tensor<8xf32>
    %m = train.read @w.m : tensor<8xf32>
    %w2, %m2 = train.sgd %w, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    train.write %w2, @w : tensor<8xf32>
    // expected-error @+1 {{uses the updated @w.m, expected only a write of it}}
    return %m2 : tensor<8xf32>
  }
}

// -----

// The norm is over what is trained.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @w.grad of @w : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step() -> tensor<f64> {
    %g = train.read @w.grad : tensor<8xf32>
    // expected-error @+1 {{sums the gradient of @w, which no optimizer updates}}
    %sq = train.square_sum %g : (tensor<8xf32>) -> tensor<f64>
    return %sq : tensor<f64>
  }
}
