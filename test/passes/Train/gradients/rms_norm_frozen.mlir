// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-verify-differentiated -o %t
// RUN: ciuic-run --check-gradients %t --random-inputs --seed 3 | FileCheck %s

// With a frozen weight only the input has a gradient.
// CHECK: table {{.*}} off by
// CHECK: checked {{[1-9]}} parameters

module @rms_norm_frozen {
  train.state trainable parameter @table : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @head : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state parameter @w : tensor<4xf32> init #train.normal<std = 1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %table = train.read @table : tensor<7x4xf32>
    %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<6x4xf32>
    %w = train.read @w : tensor<4xf32>
    %y, %rstd = train.rms_norm %x, %w eps 0.25 : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
    %head = train.read @head : tensor<7x4xf32>
    %logits = train.linear %y, %head : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<6x7xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
