// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-comm-offload-optimizer

// States of parameters are laid out in buckets before.
module {
  train.state trainable parameter @w : tensor<8xf32> init #train.constant<0.0>
  train.state moment @w.m of @w slot "momentum_buffer" : tensor<8xf32> init #train.constant<0.0>
  func.func @apply_step(%g: tensor<8xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    %p = train.read @w : tensor<8xf32>
    %m = train.read @w.m : tensor<8xf32>
    // expected-error @+1 {{updates what lies in no bucket; expected sharded IR}}
    %p2, %m2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    return
  }
}

// -----

// What is on the host stays there.
module {
  train.state moment @b.m of @b slot "momentum_buffer" : tensor<128xf32> init #train.constant<0.0> space host
  func.func @apply_step(%p: tensor<128xf32>, %g: tensor<128xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    %m = train.read @b.m : tensor<128xf32>
    // expected-error @+1 {{runs on the host already: @b.m lives there}}
    %p2, %m2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
    return
  }
}

// -----

// A moment is a state.
module {
  func.func @apply_step(%p: tensor<128xf32>, %g: tensor<128xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    // expected-error @+1 {{takes a moment that is not train.read of one}}
    %p2, %m2 = train.sgd %p, %g, %g lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
    return
  }
}
