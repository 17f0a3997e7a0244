// RUN: ciuic-opt %s --split-input-file --ciuic-comm-keep-gathered --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-keep-gathered=count=1 | FileCheck %s --check-prefix=LAST
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-keep-gathered=count=0 | FileCheck %s --check-prefix=NONE
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks --ciuic-comm-keep-gathered --ciuic-verify-placed | FileCheck %s --check-prefix=AGAIN
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-keep-gathered=count=-2 2>&1 | FileCheck %s --check-prefix=COUNT

// COUNT: error: option count is -2, expected a number of blocks, or -1 for all of them

// The backward uses what the forward gathered. With a count the last blocks
// do, and with recompute the region too: still one gather a bucket.

// CHECK-LABEL: @two_blocks
// CHECK: %[[A:.+]] = comm.all_gather {{.+}} for "a.fwd"
// CHECK: %[[B:.+]] = comm.all_gather {{.+}} for "b.fwd"
// CHECK-NOT: comm.all_gather
// CHECK: %[[V:.+]] = comm.unpack %[[B]] at 0 {train.backward
// CHECK-NEXT: train.matmul %{{.+}}, %[[V]]
// CHECK: %[[W:.+]] = comm.unpack %[[A]] at 0 {train.backward
// CHECK-NEXT: train.matmul %{{.+}}, %[[W]]
// LAST-LABEL: @two_blocks
// LAST: comm.all_gather {{.+}} for "a.fwd"
// LAST: comm.all_gather {{.+}} for "b.fwd"
// LAST-NOT: comm.all_gather {{.+}} for "b.bwd"
// LAST: comm.all_gather {{.+}} for "a.bwd"
// NONE-LABEL: @two_blocks
// NONE: comm.all_gather {{.+}} for "b.bwd"
// NONE: comm.all_gather {{.+}} for "a.bwd"
// AGAIN-LABEL: @two_blocks
// AGAIN: comm.all_gather {{.+}} for "a.fwd"
// AGAIN: comm.all_gather {{.+}} for "b.fwd"
// AGAIN-NOT: comm.all_gather
// AGAIN: train.recompute "b"
// AGAIN: train.recompute "a"
// AGAIN-NOT: comm.all_gather
// AGAIN: return
module @two_blocks {
  train.state parameter @w : tensor<8x8xf32> init #train.constant<0.0> in @a at 0
  train.state parameter @v : tensor<8x8xf32> init #train.constant<0.0> in @b at 0
  comm.bucket @a over <"dp" = 2> elements 256 chunk 128
  train.state parameter @a.param of @a sharded : tensor<128xf32> init #train.constant<0.0>
  comm.bucket @b over <"dp" = 2> elements 256 chunk 128
  train.state parameter @b.param of @b sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.read @a.param : tensor<128xf32>
    %b = train.read @b.param : tensor<128xf32>
    %af = comm.all_gather %a over <"dp" = 2> for "a.fwd" {train.block = "a"} : tensor<128xf32> -> tensor<256xf32>
    %w = comm.unpack %af at 0 {train.block = "a"} : tensor<256xf32> -> tensor<8x8xf32>
    %h = train.linear %x, %w {train.block = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %i = train.sigmoid %h {train.block = "a"} : tensor<4x8xf32>
    %bf = comm.all_gather %b over <"dp" = 2> for "b.fwd" {train.block = "b"} : tensor<128xf32> -> tensor<256xf32>
    %v = comm.unpack %bf at 0 {train.block = "b"} : tensor<256xf32> -> tensor<8x8xf32>
    %u = train.linear %i, %v {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %y = train.sigmoid %u {train.block = "b"} : tensor<4x8xf32>
    %du = arith.mulf %dy, %u {train.backward, train.block = "b"} : tensor<4x8xf32>
    %bb = comm.all_gather %b over <"dp" = 2> for "b.bwd" {train.backward, train.block = "b"} : tensor<128xf32> -> tensor<256xf32>
    %vb = comm.unpack %bb at 0 {train.backward, train.block = "b"} : tensor<256xf32> -> tensor<8x8xf32>
    %di = train.matmul %du, %vb {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dh = arith.mulf %di, %h {train.backward, train.block = "a"} : tensor<4x8xf32>
    %ab = comm.all_gather %a over <"dp" = 2> for "a.bwd" {train.backward, train.block = "a"} : tensor<128xf32> -> tensor<256xf32>
    %wb = comm.unpack %ab at 0 {train.backward, train.block = "a"} : tensor<256xf32> -> tensor<8x8xf32>
    %dx = train.matmul %dh, %wb {train.backward, train.block = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// A bucket that two blocks share is gathered for each of them: what one keeps
// is not the other's.

// CHECK-LABEL: @shared
// CHECK: comm.all_gather {{.+}} for "a.fwd"
// CHECK: comm.all_gather {{.+}} for "b.bwd"
// CHECK-NOT: comm.all_gather
module @shared {
  train.state parameter @w : tensor<8x8xf32> init #train.constant<0.0> in @a at 0
  comm.bucket @a over <"dp" = 2> elements 256 chunk 128
  train.state parameter @a.param of @a sharded : tensor<128xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.read @a.param : tensor<128xf32>
    %af = comm.all_gather %a over <"dp" = 2> for "a.fwd" {train.block = "a"} : tensor<128xf32> -> tensor<256xf32>
    %w = comm.unpack %af at 0 {train.block = "a"} : tensor<256xf32> -> tensor<8x8xf32>
    %h = train.linear %x, %w {train.block = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %bb = comm.all_gather %a over <"dp" = 2> for "b.bwd" {train.backward, train.block = "b"} : tensor<128xf32> -> tensor<256xf32>
    %v = comm.unpack %bb at 0 {train.backward, train.block = "b"} : tensor<256xf32> -> tensor<8x8xf32>
    %dx = train.matmul %dy, %v {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %h, %dx : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
