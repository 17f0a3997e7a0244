// RUN: ciuic-opt %s --ciuic-comm-offload-optimizer | FileCheck %s

// A chunk of what is no state's goes when its master takes its place; what it
// was cut from stays.

// CHECK: train.state master @b.master of @b sharded : tensor<128xf32>
// CHECK-LABEL: @apply_step
// CHECK-NOT: comm.chunk
// CHECK: %[[P:.+]] = train.read @b.master
// CHECK: train.sgd %[[P]],
module {
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state moment @b.m of @b slot "momentum_buffer" sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @apply_step(%whole: tensor<256xf32>, %g: tensor<128xf32>) {
    %s = arith.constant dense<1.0> : tensor<f32>
    %p = comm.chunk %whole of <"dp" = 2> : tensor<256xf32> -> tensor<128xf32>
    %m = train.read @b.m : tensor<128xf32>
    %p2, %m2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
    return
  }
}
