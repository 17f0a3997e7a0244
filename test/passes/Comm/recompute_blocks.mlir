// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks --cse --canonicalize --cse --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks=count=0 | FileCheck %s --check-prefix=NONE
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks=count=1 | FileCheck %s --check-prefix=COUNTED
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks=count=-2 2>&1 | FileCheck %s --check-prefix=COUNT

// NONE-NOT: train.recompute

// COUNT: error: option count is -2, expected a number of blocks, or -1 for all of them

// The block's backward reads %h, which comes from the block's input: it is
// computed again, fenced off from the forward. The block's input is kept.

// CHECK-LABEL: @chain
// CHECK: func.func @micro_step(%[[X:.+]]: tensor<4x8xf32>, %[[DY:.+]]: tensor<4x8xf32>)
module @chain {
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    // CHECK: train.sigmoid %[[X]]
    %h = train.sigmoid %x {train.block = "b"} : tensor<4x8xf32>
    %y = train.sigmoid %h {train.block = "b"} : tensor<4x8xf32>
    // The last op of the block is not needed by its backward: left out.
    // CHECK: %[[AGAIN:.+]] = train.recompute "b"(%[[X]]) {train.backward, train.block = "b"}
    // CHECK-NEXT: ^bb0(%[[IN:.+]]: tensor<4x8xf32>)
    // CHECK-NEXT: %[[H:.+]] = train.sigmoid %[[IN]]
    // CHECK-NEXT: train.yield %[[H]]
    // CHECK: arith.mulf %[[DY]], %[[AGAIN]]
    %dh = arith.mulf %dy, %h {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %y, %dh : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// What another block uses lives on: it is neither computed again nor taken
// from the region.

// CHECK-LABEL: @kept
module @kept {
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    // CHECK: %[[Y:.+]] = train.sigmoid
    %y = train.sigmoid %x {train.block = "b"} : tensor<4x8xf32>
    %z = train.sigmoid %y {train.block = "c"} : tensor<4x8xf32>
    // CHECK-NOT: train.recompute
    // CHECK: arith.mulf %{{.+}}, %[[Y]]
    %dx = arith.mulf %dy, %y {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %z, %dx : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Weights come from the gather of the backward, which is made where there is
// none yet and moved up where it comes later. Nothing is gathered a third time.

// CHECK-LABEL: @weights
module @weights {
  train.state parameter @w : tensor<8x8xf32> init #train.constant<0.0> in @b at 0
  train.state parameter @v : tensor<8x8xf32> init #train.constant<0.0> in @c at 0
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0>
  comm.bucket @c over <"dp" = 2> elements 256 chunk 128
  train.state parameter @c.param of @c sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %b = train.read @b.param : tensor<128xf32>
    %c = train.read @c.param : tensor<128xf32>
    // CHECK-DAG: comm.all_gather %{{.+}} over #axis for "blk.fwd"
    // CHECK-DAG: comm.all_gather %{{.+}} over #axis for "blk.fwd"
    %bf = comm.all_gather %b over <"dp" = 2> for "blk.fwd" {train.block = "blk"} : tensor<128xf32> -> tensor<256xf32>
    %w = comm.unpack %bf at 0 {train.block = "blk"} : tensor<256xf32> -> tensor<8x8xf32>
    %h = train.linear %x, %w {train.block = "blk"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %cf = comm.all_gather %c over <"dp" = 2> for "blk.fwd" {train.block = "blk"} : tensor<128xf32> -> tensor<256xf32>
    %v = comm.unpack %cf at 0 {train.block = "blk"} : tensor<256xf32> -> tensor<8x8xf32>
    %u = train.linear %h, %v {train.block = "blk"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = train.sigmoid %u {train.block = "blk"} : tensor<4x8xf32>
    // CHECK-DAG: %[[CB:.+]] = comm.all_gather %c.param over #axis for "blk.bwd"
    // CHECK-DAG: %[[V:.+]] = comm.unpack %[[CB]] at 0
    // CHECK-DAG: %[[BB:.+]] = comm.all_gather %b.param over #axis for "blk.bwd"
    // CHECK-DAG: %[[W:.+]] = comm.unpack %[[BB]] at 0
    // CHECK: train.recompute "blk"(%{{.+}}, %[[W]], %[[V]])
    %g = arith.mulf %dy, %u {train.backward, train.block = "blk"} : tensor<4x8xf32>
    %cb = comm.all_gather %c over <"dp" = 2> for "blk.bwd" {train.backward, train.block = "blk"} : tensor<128xf32> -> tensor<256xf32>
    %vb = comm.unpack %cb at 0 {train.backward, train.block = "blk"} : tensor<256xf32> -> tensor<8x8xf32>
    // CHECK-NOT: comm.all_gather
    // CHECK: train.matmul %{{.+}}, %[[V]]
    %dh = train.matmul %g, %vb {train.backward, train.block = "blk"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y, %dh : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// With a count the first blocks are computed again, and the others keep what
// they have. A block of which nothing can be computed again is not counted.

// COUNTED-LABEL: @counted
// COUNTED-NOT: train.recompute "a"
// COUNTED: train.recompute "b"
// COUNTED-NOT: train.recompute "c"
module @counted {
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.sigmoid %x {train.block = "a"} : tensor<4x8xf32>
    %b = train.sigmoid %a {train.block = "b"} : tensor<4x8xf32>
    %c0 = train.sigmoid %b {train.block = "b"} : tensor<4x8xf32>
    %c = train.sigmoid %c0 {train.block = "c"} : tensor<4x8xf32>
    %y = train.sigmoid %c {train.block = "c"} : tensor<4x8xf32>
    %dc = arith.mulf %dy, %c {train.backward, train.block = "c"} : tensor<4x8xf32>
    %db = arith.mulf %dc, %b {train.backward, train.block = "b"} : tensor<4x8xf32>
    %da = arith.mulf %db, %a {train.backward, train.block = "a"} : tensor<4x8xf32>
    return %y, %db, %da : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
