// RUN: ciuic-opt %s --verify-roundtrip | FileCheck %s

// Every role, as it is written and printed.

// CHECK-LABEL: module @roles
module @roles {
  // CHECK: train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 2.000000e-02>
  train.state trainable parameter @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state parameter @frozen : tensor<4xbf16> init #train.constant<1.000000e+00>
  train.state parameter @frozen : tensor<4xbf16> init #train.constant<1.0>
  // CHECK: train.state gradient @w.grad of @w : tensor<8x4xf32> init #train.constant<0.000000e+00>
  train.state gradient @w.grad of @w : tensor<8x4xf32> init #train.constant<0.0>
  // CHECK: train.state master @w.master of @w : tensor<8x4xf32>
  train.state master @w.master of @w : tensor<8x4xf32> init #train.normal<std = 0.02>
  // CHECK: train.state moment @w.exp_avg of @w slot "exp_avg" : tensor<8x4xf32>
  train.state moment @w.exp_avg of @w slot "exp_avg" : tensor<8x4xf32> init #train.constant<0.0>
  // CHECK: train.state metric @metric.loss : tensor<f32>
  train.state metric @metric.loss : tensor<f32> init #train.constant<0.0>
  // CHECK: train.state scalar @step : tensor<i32>
  train.state scalar @step : tensor<i32> init #train.constant<0.0>
}

// What a rotary table's scaling does not use is not printed.

// CHECK-LABEL: module @tables
module @tables {
  // CHECK: train.state table @rope.cos : tensor<16x8xf32> init #train.rope<part = cos, dim = 16, theta = 1.000000e+04, scaling = none>
  train.state table @rope.cos : tensor<16x8xf32> init #train.rope<part = cos, dim = 16, theta = 1.0e4, scaling = none, factor = 1.0>
  // CHECK: init #train.rope<part = sin, dim = 16, theta = 1.000000e+04, scaling = linear, factor = 4.000000e+00>
  train.state table @rope.sin : tensor<16x8xf32> init #train.rope<part = sin, dim = 16, theta = 1.0e4, scaling = linear, factor = 4.0>
  // CHECK: init #train.rope<part = cos, dim = 16, theta = 5.000000e+05, scaling = llama3, factor = 8.000000e+00, low = 2.000000e+00, high = 3.000000e+00, original = 4096>
  train.state table @llama3 : tensor<16x8xf32> init #train.rope<part = cos, dim = 16, theta = 5.0e5, scaling = llama3, factor = 8.0, low = 2.0, high = 3.0, original = 4096>
}

// A parameter in a bucket, and the states that hold the bucket's data.

// CHECK-LABEL: module @sharded
module @sharded {
  // CHECK: train.state trainable parameter @a : tensor<8x4xbf16> init #train.normal<std = 2.000000e-02> in @layers.0 at 128
  train.state trainable parameter @a : tensor<8x4xbf16> init #train.normal<std = 0.02> in @layers.0 at 128
  // CHECK: train.state parameter @layers.0.param of @layers.0 sharded : tensor<128xbf16>
  train.state parameter @layers.0.param of @layers.0 sharded : tensor<128xbf16> init #train.constant<0.0>
  // CHECK: train.state master @layers.0.master of @layers.0 sharded : tensor<128xf32> init #train.constant<0.000000e+00> space host
  train.state master @layers.0.master of @layers.0 sharded : tensor<128xf32> init #train.constant<0.0> space host
}

// A standard deviation reads back as the same double.

// CHECK-LABEL: module @exact
module @exact {
  // CHECK: std = 0.041666666666666664
  train.state parameter @w : tensor<4xf32> init #train.normal<std = 0.041666666666666664>
}
