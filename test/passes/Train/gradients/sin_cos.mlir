// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-verify-differentiated -o %t
// RUN: ciuic-run --check-gradients %t --random-inputs --seed 3 | FileCheck %s

// Each is the other's derivative, up to a sign.
// CHECK: table {{.*}} off by
// CHECK: checked {{[1-9]}} parameters

module @sin_cos {
  train.state trainable parameter @table : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @head : tensor<7x4xf32> init #train.normal<std = 0.7>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %table = train.read @table : tensor<7x4xf32>
    %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<6x4xf32>
    %sin = math.sin %x : tensor<6x4xf32>
    %cos = math.cos %x : tensor<6x4xf32>
    %y = arith.mulf %sin, %cos : tensor<6x4xf32>
    %head = train.read @head : tensor<7x4xf32>
    %logits = train.linear %y, %head : (tensor<6x4xf32>, tensor<7x4xf32>) -> tensor<6x7xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<6x7xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
