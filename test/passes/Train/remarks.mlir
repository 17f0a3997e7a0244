// RUN: ciuic-opt %s --ciuic-train-differentiate \
// RUN:   --ciuic-train-append-optimizer="decay=0.1 no-decay=norm,bias" \
// RUN:   --ciuic-train-lower-precision="compute-type=f16" --ciuic-verify-precision \
// RUN:   --remarks-filter=train --verify-diagnostics

// Each choice is said where it was made: at the state or function it is about.

// expected-remark @below {{OptimizerAppended | Category:train | Remark="3 parameters, 416 bytes of moments"}}
// expected-remark @below {{MastersAdded | Category:train | Remark="3 parameters keep an f32 master, 208 bytes in all"}}
// expected-remark @below {{LossScaled | Category:train | Remark="the loss is scaled by 65536.00 at first"}}
module @remarks {
  train.state trainable parameter @embed.weight : tensor<8x4xf32> init #train.normal<std = 0.02>
  // expected-remark @below {{DecayExcluded | Category:train | Remark="@input_layernorm.weight takes no weight decay: it matches 'norm'"}}
  train.state trainable parameter @input_layernorm.weight : tensor<4xf32> init #train.constant<1.0>
  // Two dimensions: "norm" in a name is not enough.
  train.state trainable parameter @norm.proj : tensor<4x4xf32> init #train.normal<std = 0.02>
  // expected-remark @below {{ParameterFrozen | Category:train | Remark="@proj.bias takes no gradient"}}
  train.state parameter @proj.bias : tensor<4xf32> init #train.constant<0.0>
  // expected-warning @below {{the loss does not depend on trainable parameter @unused.weight}}
  // expected-remark @below {{ParameterUnused | Category:train | Reason="@unused.weight has no path to the loss"}}
  train.state trainable parameter @unused.weight : tensor<4x4xf32> init #train.normal<std = 0.02>
  // expected-remark @below {{Differentiated | Category:train | Remark="19 ops in the backward; 8 values of the forward, 480 bytes, are kept for it"}}
  // expected-remark @below {{RoundTripsDropped | Category:train | Remark="@eval_step: 2 values stay f32 between two pointwise ops"}}
  // expected-remark @below {{RoundTripsDropped | Category:train | Remark="@micro_step: 6 values stay f32 between two pointwise ops"}}
  func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %embed = train.read @embed.weight : tensor<8x4xf32>
    %x = train.embedding %tokens in %embed : (tensor<1x4xi32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %norm = train.read @input_layernorm.weight : tensor<4xf32>
    %n, %rstd = train.rms_norm %x, %norm eps 1.0e-5 : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %proj = train.read @norm.proj : tensor<4x4xf32>
    %bias = train.read @proj.bias : tensor<4xf32>
    %gate = train.linear %n, %proj bias %bias : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %s = train.sigmoid %gate : tensor<4x4xf32>
    %silu = arith.mulf %gate, %s : tensor<4x4xf32>
    %y = arith.addf %x, %silu : tensor<4x4xf32>
    %logits = train.linear %y, %embed : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<4x8xf32>, tensor<1x4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
