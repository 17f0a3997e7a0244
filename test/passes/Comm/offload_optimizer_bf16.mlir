// With 16-bit parameters the master copy is there already: it moves to the
// host, the update rounds there, and half the bytes come back.
//
// RUN: ciuic-opt %s --ciuic-comm-offload-optimizer --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --ciuic-comm-offload-optimizer --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: train.state master @b.master of @b sharded : tensor<128xf32> {{.*}} space host
// CHECK: %[[NEXT:.+]], %{{.+}} = train.sgd
// CHECK: train.write %[[NEXT]], @b.master
// CHECK: %[[NARROW:.+]] = arith.truncf %[[NEXT]] : tensor<128xf32> to tensor<128xbf16>
// CHECK: %[[NEW:.+]] = comm.transfer %[[NARROW]] to device : tensor<128xbf16>
// CHECK: train.write %[[NEW]], @b.param : tensor<128xbf16>
// REMARK: OptimizerOffloaded {{.*}}"b keeps 1024 bytes a rank on the host; a step moves 512 bytes there and 256 back
module @bf16 {
  train.state trainable parameter @w : tensor<8xbf16> init #train.constant<0.0> in @b at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
  train.state parameter @b.param of @b sharded : tensor<128xbf16> init #train.constant<0.0>
  train.state gradient @b.grad of @b sharded : tensor<128xf32> init #train.constant<0.0>
  train.state master @b.master of @b sharded : tensor<128xf32> init #train.constant<0.0>
  train.state moment @b.m of @b slot "momentum_buffer" sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @apply_step() {
    %s = arith.constant dense<1.0> : tensor<f32>
    %g = train.read @b.grad : tensor<128xf32>
    %p = train.read @b.master : tensor<128xf32>
    %m = train.read @b.m : tensor<128xf32>
    %p2, %m2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0} : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
    train.write %p2, @b.master : tensor<128xf32>
    %n = arith.truncf %p2 : tensor<128xf32> to tensor<128xbf16>
    train.write %n, @b.param : tensor<128xbf16>
    train.write %m2, @b.m : tensor<128xf32>
    return
  }
}
