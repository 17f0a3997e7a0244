// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) what is read is declared,
func.func @read_nothing() {
  // expected-error @below {{names @w, which is no train.state of this module}}
  %0 = train.read @w : tensor<4xf32>
  return
}

// -----

// (C1) as a state,
func.func @read_function() {
  // expected-error @below {{names @read_function, which is no train.state of this module}}
  %0 = train.read @read_function : tensor<4xf32>
  return
}

// -----

// (C1) in the same type.
// expected-note @below {{the state is declared here}}
train.state parameter @w : tensor<4xf32> init #train.constant<0.0>
func.func @read_other_type() {
  // expected-error @below {{has type 'tensor<4xbf16>', but state @w has 'tensor<4xf32>'}}
  %0 = train.read @w : tensor<4xbf16>
  return
}

// -----

// (C1) So is what is written.
// expected-note @below {{the state is declared here}}
train.state parameter @w : tensor<4xf32> init #train.constant<0.0>
func.func @write_other_type(%x: tensor<5xf32>) {
  // expected-error @below {{has type 'tensor<5xf32>', but state @w has 'tensor<4xf32>'}}
  train.write %x, @w : tensor<5xf32>
  return
}

// -----

// (C1) Only gradients and metrics add up,
train.state parameter @w : tensor<4xf32> init #train.constant<0.0>
func.func @accumulate_parameter(%x: tensor<4xf32>) {
  // expected-error @below {{adds to @w, a parameter; expected a gradient or metric}}
  train.accumulate %x, @w : tensor<4xf32>
  return
}

// -----

// (C1) in one shape,
train.state gradient @g of @w : tensor<4xf32> init #train.constant<0.0>
func.func @accumulate_shape(%x: tensor<5xf32>) {
  // expected-error @below {{adds 'tensor<5xf32>' to state @g of 'tensor<4xf32>'; expected the same shape and no wider elements}}
  train.accumulate %x, @g : tensor<5xf32>
  return
}

// -----

// (C1) and never from wider to narrower.
train.state gradient @g of @w : tensor<4xbf16> init #train.constant<0.0>
func.func @accumulate_wider(%x: tensor<4xf32>) {
  // expected-error @below {{expected the same shape and no wider elements}}
  train.accumulate %x, @g : tensor<4xf32>
  return
}

// -----

// (C1) A recompute region takes what it is given,
func.func @recompute_operands(%x: tensor<4xf32>) {
  // expected-error @below {{has 1 operands whose types differ from its block's 1 arguments}}
  %0 = train.recompute "a"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%y: tensor<5xf32>):
    %z = arith.constant dense<0.0> : tensor<4xf32>
    train.yield %z : tensor<4xf32>
  }
  return
}

// -----

// (C1) and yields its results.
func.func @recompute_results(%x: tensor<4xf32>) {
  // expected-error @below {{yields other types than its results}}
  %0 = train.recompute "a"(%x) : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%y: tensor<4xf32>):
    train.yield %y : tensor<4xf32>
  }
  return
}

// -----

// Nothing else comes into a recompute region.
func.func @recompute_captures(%x: tensor<4xf32>) {
  // expected-note @below {{required by region isolation constraints}}
  %0 = train.recompute "a"() : () -> tensor<4xf32> {
    // expected-error @below {{using value defined outside the region}}
    train.yield %x : tensor<4xf32>
  }
  return
}

// -----

// A recompute region is not empty.
func.func @recompute_empty() {
  // expected-error @below {{expects a non-empty block}}
  "train.recompute"() <{label = "a"}> ({
  ^bb0:
  }) : () -> ()
  return
}

// -----

// A yield ends nothing else.
func.func @yield_outside(%x: tensor<4xf32>) {
  // expected-error @below {{expects parent op 'train.recompute'}}
  train.yield %x : tensor<4xf32>
}
