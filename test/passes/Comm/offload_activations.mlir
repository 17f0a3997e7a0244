// What a block keeps for its backward waits on the host.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-activations --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-activations --cse --canonicalize --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-activations=blocks=0 | FileCheck %s --check-prefix=NONE
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-activations=blocks=1 | FileCheck %s --check-prefix=FIRST
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-offload-activations=ahead=0 | FileCheck %s --check-prefix=LATE
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-offload-activations=ahead=-1 2>&1 | FileCheck %s --check-prefix=AHEAD
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-offload-activations=blocks=-2 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: ciuic-opt %S/Inputs/two_blocks.mlir --ciuic-comm-shard-states="ranks=2 stage=3" --ciuic-comm-recompute-blocks --ciuic-comm-offload-parameters --ciuic-comm-offload-activations --ciuic-verify-placed --remarks-filter=comm 2>&1 | FileCheck %s --check-prefix=INPUTS

// NONE-NOT: comm.transfer
// AHEAD: error: option ahead is -1, expected 0 or more
// OPTION: error: option blocks is -2, expected -1 (all) or more

// %h goes down once it is there and comes back for the block's backward, from
// where the backward before begins, or no block ahead. The forward goes on with
// the device's. Between what one kernel computes, the
// product and the norm that follows it, comes no copy.

// CHECK-LABEL: @chain
// FIRST-LABEL: @chain
// LATE-LABEL: @chain
module @chain {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    // CHECK: %[[H:.+]] = train.linear {{.*}}{train.block = "b"}
    %h = train.linear %x, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[A:.+]] = arith.addf %[[H]]
    %a = arith.addf %h, %x {train.block = "b"} : tensor<4x8xf32>
    // CHECK-NEXT: %[[HH:.+]] = comm.transfer %[[H]] to host for "b.fwd" {train.block = "b"} : tensor<4x8xf32>
    // CHECK-NEXT: %[[AH:.+]] = comm.transfer %[[A]] to host for "c.fwd"
    // CHECK-NEXT: train.linear %[[A]]
    %y = train.linear %a, %w {train.block = "c"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[AD:.+]] = comm.transfer %[[AH]] to device for "c.bwd" {train.backward, train.block = "c"} : tensor<4x8xf32>
    // CHECK-NEXT: %[[HD:.+]] = comm.transfer %[[HH]] to device for "b.bwd"
    // CHECK-NEXT: train.matmul %{{.+}} transposed, %[[AD]]
    // LATE: to device for "c.bwd"
    // LATE-NEXT: train.matmul
    // LATE-NEXT: to device for "b.bwd"
    // LATE-NEXT: train.matmul
    %dw = train.matmul %dy transposed, %a {train.backward, train.block = "c"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // CHECK-NEXT: train.matmul %{{.+}} transposed, %[[HD]]
    // FIRST: comm.transfer %{{.+}} to host for "b.fwd"
    // FIRST-NOT: for "c
    // FIRST: comm.transfer %{{.+}} to device for "b.bwd"
    %dv = train.matmul %dy transposed, %h {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %y, %dw, %dv : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// What two blocks keep goes down once and up for each; where one of them stays,
// so does the value.

// CHECK-LABEL: @shared
// FIRST-LABEL: @shared
module @shared {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %h = train.linear %x, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = train.linear %h, %w {train.block = "c"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: to host for "b.fwd"
    // CHECK-NOT: to host
    // CHECK: to device for "c.bwd"
    // CHECK: to device for "b.bwd"
    // FIRST-NOT: comm.transfer
    %dw = train.matmul %dy transposed, %h {train.backward, train.block = "c"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %dv = train.matmul %dy transposed, %h {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %y, %dw, %dv : tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// A pointwise value that kernels compute where they need it has no storage to
// free; a scalar is not worth a copy.

// CHECK-LABEL: @unstored
module @unstored {
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // CHECK-NOT: comm.transfer
    %h = train.sigmoid %x {train.block = "b"} : tensor<4x8xf32>
    %y = arith.mulf %h, %x {train.block = "b"} : tensor<4x8xf32>
    %dx = arith.mulf %dy, %h {train.backward, train.block = "b"} : tensor<4x8xf32>
    %dz = arith.mulf %dx, %y {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %dz : tensor<4x8xf32>
  }
}

// With recompute a block's input is what it keeps; the block of the loss keeps
// its own on the device.

// INPUTS-DAG: ActivationsNotOffloaded {{.*}}head holds the loss: its backward follows at once
// INPUTS-DAG: ActivationsOffloaded {{.*}}"layers.0 keeps 1 values on the host until its backward: a micro-step copies 128 bytes down and 128 up
// INPUTS: %[[X:.+]] = train.embedding
// INPUTS: %[[DOWN:.+]] = comm.transfer %[[X]] to host for "layers.0.fwd"
// INPUTS: %[[UP:.+]] = comm.transfer %[[DOWN]] to device for "layers.0.bwd"
// INPUTS: train.recompute "layers.0"({{.*}}%[[UP]]
