// Parameters on the host: each use-group copies what it needs to the device.
//
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-offload-parameters --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-offload-parameters --cse --canonicalize --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=0" --ciuic-comm-offload-parameters --cse --ciuic-verify-placed | FileCheck %s --check-prefix=WHOLE
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=1" --ciuic-comm-offload-parameters --ciuic-verify-placed | FileCheck %s --check-prefix=CHUNK
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-offload-parameters --ciuic-comm-offload-optimizer --ciuic-verify-placed | FileCheck %s --check-prefix=BOTH
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=2" --ciuic-comm-offload-parameters --ciuic-comm-offload-optimizer --ciuic-verify-placed | FileCheck %s --check-prefix=GATHER
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-recompute-blocks --ciuic-comm-offload-parameters --cse --canonicalize --ciuic-verify-placed | FileCheck %s --check-prefix=AGAIN
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3 persistence-threshold=16" --ciuic-comm-offload-parameters --ciuic-verify-placed --remarks-filter=comm 2>&1 | FileCheck %s --check-prefix=PERSISTENT

// A chunk is copied, then gathered; CSE keeps the copies of forward and
// backward apart. The update takes the old value up and sends the new one
// down.

// CHECK: train.state parameter @layers.0.param of @layers.0 sharded : tensor<256xf32> {{.*}} space host
// CHECK-LABEL: func.func @micro_step
// CHECK: %[[OWN:.+]] = train.read @layers.0.param
// CHECK: %[[UP:.+]] = comm.transfer %[[OWN]] to device for "layers.0.fwd"
// CHECK-NEXT: comm.all_gather %[[UP]] over {{.*}} for "layers.0.fwd"
// CHECK: %[[UP2:.+]] = comm.transfer %[[OWN]] to device for "layers.0.bwd"
// CHECK-NEXT: comm.all_gather %[[UP2]] over {{.*}} for "layers.0.bwd"
// CHECK-LABEL: func.func @apply_step
// CHECK: %[[P:.+]] = train.read @layers.0.param
// CHECK: %[[PD:.+]] = comm.transfer %[[P]] to device : tensor<256xf32>
// CHECK: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[PD]],
// CHECK: %[[NEW:.+]] = comm.transfer %[[NEXT]] to host : tensor<256xf32>
// CHECK: train.write %[[NEW]], @layers.0.param

// Whole buckets are copied for forward and backward, each with views of its
// own.

// WHOLE: train.state parameter @layers.0.param of @layers.0 : tensor<{{.*}}> {{.*}} space host
// WHOLE-LABEL: func.func @micro_step
// WHOLE: %[[OWN:.+]] = train.read @layers.0.param
// WHOLE: %[[UP:.+]] = comm.transfer %[[OWN]] to device for "layers.0.fwd"
// WHOLE: comm.unpack %[[UP]] at
// WHOLE: %[[UP2:.+]] = comm.transfer %[[OWN]] to device for "layers.0.bwd"
// WHOLE: comm.unpack %[[UP2]] at

// A rank that updates a chunk takes no more than that up; the gathered whole
// goes down.

// CHUNK-LABEL: func.func @apply_step
// CHUNK: %[[P:.+]] = train.read @embed.param : tensor<256xf32>
// CHUNK: %[[OWN:.+]] = comm.chunk %[[P]] of
// CHUNK: %[[UP:.+]] = comm.transfer %[[OWN]] to device : tensor<128xf32>
// CHUNK: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[UP]],
// CHUNK: %[[FULL:.+]] = comm.all_gather %[[NEXT]]
// CHUNK: %[[DOWN:.+]] = comm.transfer %[[FULL]] to host : tensor<256xf32>
// CHUNK: train.write %[[DOWN]], @embed.param

// An optimizer on the host updates parameters where they are: no master copy
// is made, and nothing goes up.

// BOTH-NOT: train.state master
// BOTH-LABEL: func.func @apply_step
// BOTH: %[[P:.+]] = train.read @embed.param
// BOTH-NOT: to device
// BOTH: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[P]],
// BOTH: train.write %[[NEXT]], @embed.param
// BOTH-NOT: to device

// Ranks that hold the whole gather on the device what each has updated.

// GATHER-NOT: train.state master
// GATHER-LABEL: func.func @apply_step
// GATHER: %[[OWN:.+]] = comm.chunk
// GATHER: %[[NEXT:.+]], %{{.+}}, %{{.+}} = train.adam %[[OWN]],
// GATHER: %[[UP:.+]] = comm.transfer %[[NEXT]] to device : tensor<128xf32>
// GATHER: %[[FULL:.+]] = comm.all_gather %[[UP]]
// GATHER: %[[DOWN:.+]] = comm.transfer %[[FULL]] to host : tensor<256xf32>
// GATHER: train.write %[[DOWN]], @embed.param

// What is computed again takes its weights from the backward's copy.

// AGAIN-LABEL: func.func @micro_step
// AGAIN: %[[UP:.+]] = comm.transfer %{{.+}} to device for "layers.0.bwd"
// AGAIN: %[[FULL:.+]] = comm.all_gather %[[UP]] over {{.*}} for "layers.0.bwd"
// AGAIN-NOT: comm.transfer
// AGAIN: train.recompute "layers.0"

// PERSISTENT-DAG: ParametersNotOffloaded {{.*}}layers.0.whole is persistent: its {{[0-9]+}} bytes stay on the device, whole
// PERSISTENT-DAG: ParametersOffloaded {{.*}}"layers.0 keeps 512 bytes of parameters a rank on the host; a micro-step copies 1024 bytes up, an update 512 up and 512 down
