// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=1" --ciuic-comm-offload-optimizer --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=1" --ciuic-comm-offload-optimizer=ratio=0.2 --ciuic-verify-placed | FileCheck %s --check-prefix=SHARE
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-offload-optimizer=ratio=0 | FileCheck %s --check-prefix=NONE

// Under f32 training a master copy is made on the host; no parameter goes
// there. It is of the chunk that the rank updates.

// CHECK: train.state master @embed.master of @embed sharded : tensor<128xf32> init #train.constant<0.000000e+00> space host
// CHECK: train.state parameter @embed.param of @embed : tensor<256xf32> init #train.constant<0.000000e+00>{{$}}
// CHECK: train.state gradient @embed.grad of @embed : tensor<256xf32> init #train.constant<0.000000e+00>{{$}}
// CHECK: train.state moment @embed.exp_avg of @embed slot "exp_avg" sharded : tensor<128xf32> init #train.constant<0.000000e+00> space host

// The norm is of the device's gradient; the update's goes to the host after
// it was reduced. The new values come back before they are gathered.

// CHECK-LABEL: func.func @apply_step
// CHECK: %[[G:.+]] = comm.reduce_scatter mean %embed.grad
// CHECK: train.square_sum %[[G]]
// CHECK-NOT: comm.chunk
// CHECK-NOT: train.read @embed.param
// CHECK: %[[P:.+]] = train.read @embed.master : tensor<128xf32>
// CHECK: %[[GH:.+]] = comm.transfer %[[G]] to host : tensor<128xf32>
// CHECK: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[P]], %[[GH]], %embed.exp_avg, %embed.exp_avg_sq
// CHECK-DAG: train.write %[[NEXT]], @embed.master
// CHECK-DAG: %[[NEW:.+]] = comm.transfer %[[NEXT]] to device : tensor<128xf32>
// CHECK: %[[FULL:.+]] = comm.all_gather %[[NEW]]
// CHECK: train.write %[[FULL]], @embed.param

// A share takes whole buckets, in order, until it is reached.

// SHARE: train.state moment @embed.exp_avg {{.*}} space host
// SHARE: train.state moment @layers.0.exp_avg {{.*}} init #train.constant<0.000000e+00>{{$}}

// NONE-NOT: space host
// NONE-NOT: comm.transfer
