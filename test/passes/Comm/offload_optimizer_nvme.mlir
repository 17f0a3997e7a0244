// Optimizer states in files.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-optimizer=device=nvme --ciuic-verify-placed | FileCheck %s
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-offload-optimizer=device=tape 2>&1 | FileCheck %s --check-prefix=REFUSE
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-optimizer=device=nvme --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// REFUSE: option device is "tape", expected cpu or nvme

// The states come to the host for the update and go back to their files; the
// gradient goes to the host, the new parameter to the device.
// CHECK: train.state master @b.master of @b : tensor<128xf32> init #train.constant<0.000000e+00> space nvme
// CHECK: train.state moment @b.m {{.*}} space nvme
// CHECK-LABEL: func.func @apply_step
// CHECK-DAG: %[[GH:.+]] = comm.transfer %b.grad to host : tensor<128xf32>
// CHECK-DAG: %[[PH:.+]] = comm.transfer %b.master to host : tensor<128xf32>
// CHECK-DAG: %[[MH:.+]] = comm.transfer %b.m to host : tensor<128xf32>
// CHECK: %[[NEXT:.+]], %[[M:.+]] = train.sgd %[[PH]], %[[GH]], %[[MH]]
// CHECK-DAG: %[[NEW:.+]] = comm.transfer %[[NEXT]] to device : tensor<128xf32>
// CHECK-DAG: train.write %[[NEW]], @b.param
// CHECK-DAG: %[[KEPT:.+]] = comm.transfer %[[NEXT]] to nvme : tensor<128xf32>
// CHECK-DAG: train.write %[[KEPT]], @b.master
// CHECK-DAG: %[[MKEPT:.+]] = comm.transfer %[[M]] to nvme : tensor<128xf32>
// CHECK-DAG: train.write %[[MKEPT]], @b.m

// A remark counts what goes to the host and back with them.
// REMARK: OptimizerOffloaded {{.*}}"b keeps 1024 bytes a rank in files; a step moves 1536 bytes there and 1536 back"
comm.bucket @b over <"dp" = 1> elements 128 chunk 128 trainable
train.state parameter @b.param of @b : tensor<128xf32> init #train.constant<0.0>
train.state gradient @b.grad of @b : tensor<128xf32> init #train.constant<0.0>
train.state moment @b.m of @b slot "m" : tensor<128xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %p = train.read @b.param : tensor<128xf32>
  %g = train.read @b.grad : tensor<128xf32>
  %m = train.read @b.m : tensor<128xf32>
  %s = train.read @s : tensor<f32>
  %a:2 = train.sgd %p, %g, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  train.write %a#0, @b.param : tensor<128xf32>
  train.write %a#1, @b.m : tensor<128xf32>
  return
}
