// RUN: ciuic-opt %s --ciuic-train-differentiate --ciuic-train-append-optimizer \
// RUN:   --ciuic-verify-differentiated -o %t
// RUN: ciuic-run --check-gradients %t --random-inputs --seed 3 | FileCheck %s

// Four query heads over two key/value heads, two sequences of three.
// CHECK: table {{.*}} off by
// CHECK: checked {{[1-9]}} parameters

module @attention {
  train.state trainable parameter @table : tensor<7x4xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @head : tensor<7x8xf32> init #train.normal<std = 0.7>
  train.state trainable parameter @q : tensor<8x4xf32> init #train.normal<std = 1.0>
  train.state trainable parameter @k : tensor<4x4xf32> init #train.normal<std = 1.0>
  train.state trainable parameter @v : tensor<4x4xf32> init #train.normal<std = 1.0>
  func.func @forward(%tokens: tensor<2x3xi32>, %labels: tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>) {
    %table = train.read @table : tensor<7x4xf32>
    %x = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<7x4xf32>) -> tensor<6x4xf32>
    %wq = train.read @q : tensor<8x4xf32>
    %wk = train.read @k : tensor<4x4xf32>
    %wv = train.read @v : tensor<4x4xf32>
    %q = train.linear %x, %wq : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
    %k = train.linear %x, %wk : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
    %v = train.linear %x, %wv : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
    %y, %scores = train.attention %q, %k, %v seq 3 heads 4 of 2 scale 0.9 : (tensor<6x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x8xf32>, tensor<6x4xf32>)
    %head = train.read @head : tensor<7x8xf32>
    %logits = train.linear %y, %head : (tensor<6x8xf32>, tensor<7x8xf32>) -> tensor<6x7xf32>
    %loss, %count, %lse = train.cross_entropy %logits, %labels : (tensor<6x7xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
