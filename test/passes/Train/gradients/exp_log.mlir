// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-verify-differentiated -o %t
// RUN: ciuic-run --check-gradients %t --random-inputs --seed 3 | FileCheck %s

// Exponential and logarithm: g * y and g / x.
// CHECK: table {{.*}} off by
// CHECK: checked {{[1-9]}} parameters

module @exp_log {
  train.state trainable parameter @table : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @head : tensor<7x4xf32> init #train.normal<std = 0.7>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %table = train.read @table : tensor<7x4xf32>
    %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<6x4xf32>
    %one = arith.constant dense<1.0> : tensor<6x4xf32>
    %square = arith.mulf %x, %x : tensor<6x4xf32>
    %positive = arith.addf %square, %one : tensor<6x4xf32>
    %log = math.log %positive : tensor<6x4xf32>
    %exp = math.exp %x : tensor<6x4xf32>
    %y = arith.addf %log, %exp : tensor<6x4xf32>
    %head = train.read @head : tensor<7x4xf32>
    %logits = train.linear %y, %head : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<6x7xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
