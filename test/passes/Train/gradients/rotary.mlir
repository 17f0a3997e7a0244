// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-verify-differentiated -o %t
// RUN: ciuic-run --check-gradients %t --random-inputs --seed 3 | FileCheck %s

// A rotation and an inverse one, over positions of two sequences.
// CHECK: table {{.*}} off by
// CHECK: checked {{[1-9]}} parameters

module @rotary {
  train.state trainable parameter @table : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @head : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state table @cos : tensor<3x2xf32> init #train.rope<part = cos, dim = 4, theta = 10.0, scaling = none>
  train.state table @sin : tensor<3x2xf32> init #train.rope<part = sin, dim = 4, theta = 10.0, scaling = none>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %table = train.read @table : tensor<7x4xf32>
    %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<6x4xf32>
    %cos = train.read @cos : tensor<3x2xf32>
    %sin = train.read @sin : tensor<3x2xf32>
    %there = train.rotary %x, %cos, %sin : (tensor<6x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x4xf32>
    %bent = math.tanh %there : tensor<6x4xf32>
    %y = train.rotary inverse %bent, %cos, %sin : (tensor<6x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x4xf32>
    %head = train.read @head : tensor<7x4xf32>
    %logits = train.linear %y, %head : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<6x7xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
