// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-ops --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-ops --cse --canonicalize --cse --ciuic-verify-placed | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-ops=count=1 | FileCheck %s --check-prefix=FIRST
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-blocks=count=1 --ciuic-comm-recompute-ops=count=1 --ciuic-verify-placed | FileCheck %s --check-prefix=MIXED
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-recompute-ops --remarks-filter=comm -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: not ciuic-opt %s --split-input-file --ciuic-comm-recompute-ops=count=-2 2>&1 | FileCheck %s --check-prefix=COUNT

// COUNT: error: option count is -2, expected a number of blocks, or -1 for all of them

// The product %h is kept; the sigmoid of it, which the backward reads, is
// computed again just before that.

// CHECK-LABEL: @cheap
// CHECK: func.func @micro_step(%[[X:.+]]: tensor<4x8xf32>, %[[W:.+]]: tensor<8x8xf32>, %[[DY:.+]]: tensor<4x8xf32>)
module @cheap {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
    // CHECK: %[[H:.+]] = train.linear %[[X]], %[[W]]
    %h = train.linear %x, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %s = train.sigmoid %h {train.block = "b"} : tensor<4x8xf32>
    %y = train.linear %s, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[DS:.+]] = train.matmul %[[DY]], %[[W]]
    %ds = train.matmul %dy, %w {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[S:.+]] = train.recompute "b.sigmoid"(%[[H]]) {train.backward, train.block = "b"}
    // CHECK-NEXT: ^bb0(%[[IN:.+]]: tensor<4x8xf32>)
    // CHECK-NEXT: %[[AGAIN:.+]] = train.sigmoid %[[IN]]
    // CHECK-NEXT: train.yield %[[AGAIN]]
    // CHECK: train.matmul %[[DY]] transposed, %[[S]]
    %dw = train.matmul %dy transposed, %s {train.backward, train.block = "b"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // CHECK: arith.mulf %[[DS]], %[[H]]
    %dh = arith.mulf %ds, %h {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %y, %dw, %dh : tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Nothing is gained by an op whose operand would be kept in its place.

// CHECK-LABEL: @no_gain
// CHECK-NOT: train.recompute
// REMARK: OpNotRecomputed {{.*}}"b.sigmoid keeps 128 bytes: 128 flops and 128 bytes kept instead would free them; the whole block frees 128 bytes by 640 flops"
module @no_gain {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %h = train.linear %x, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %s = train.sigmoid %h {train.block = "b"} : tensor<4x8xf32>
    %y = train.linear %s, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %ds = arith.mulf %dy, %s {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %y, %ds : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Attention over few tokens costs fewer flops a byte than the products of its
// block, and is repeated; both of its results are.

// CHECK-LABEL: @short_attention
// CHECK: %{{.+}}:2 = train.recompute "b.attention"(%{{[0-9a-z]+}})
module @short_attention {
  func.func @micro_step(%x: tensor<4x32xf32>, %w: tensor<32x32xf32>, %dy: tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<32x32xf32>, tensor<4x32xf32>) {
    %q = train.linear %x, %w {train.block = "b"} : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
    %a, %lse = train.attention %q, %q, %q seq 4 heads 2 of 2 scale 0.25 {train.block = "b"} : (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<4x2xf32>)
    %y = train.linear %a, %w {train.block = "b"} : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
    %dw = train.matmul %dy transposed, %a {train.backward, train.block = "b"} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<32x32xf32>
    %dq, %dk, %dv = train.attention_grad %dy, %q, %q, %q, %a, %lse seq 4 heads 2 of 2 scale 0.25 {train.backward, train.block = "b"} : (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x2xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>)
    return %y, %dw, %dq : tensor<4x32xf32>, tensor<32x32xf32>, tensor<4x32xf32>
  }
}

// -----

// Over a long sequence of a narrow model it costs more, and is kept.

// CHECK-LABEL: @long_attention
// CHECK-NOT: train.recompute
module @long_attention {
  func.func @micro_step(%x: tensor<64x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<64x8xf32>) -> (tensor<64x8xf32>, tensor<8x8xf32>, tensor<64x8xf32>) {
    %q = train.linear %x, %w {train.block = "b"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    %a, %lse = train.attention %q, %q, %q seq 64 heads 2 of 2 scale 0.5 {train.block = "b"} : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>) -> (tensor<64x8xf32>, tensor<64x2xf32>)
    %y = train.linear %a, %w {train.block = "b"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    %dw = train.matmul %dy transposed, %a {train.backward, train.block = "b"} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
    %dq, %dk, %dv = train.attention_grad %dy, %q, %q, %q, %a, %lse seq 64 heads 2 of 2 scale 0.5 {train.backward, train.block = "b"} : (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x2xf32>) -> (tensor<64x8xf32>, tensor<64x8xf32>, tensor<64x8xf32>)
    return %y, %dw, %dq : tensor<64x8xf32>, tensor<8x8xf32>, tensor<64x8xf32>
  }
}

// -----

// An op that reads what is repeated repeats it too: what is computed again for
// one reader is not kept for the other.

// CHECK-LABEL: @chain
// CHECK: train.recompute "b.sigmoid"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[S:.+]] = train.sigmoid
// CHECK-NEXT: %[[T:.+]] = train.sigmoid %[[S]]
// CHECK-NEXT: train.yield %[[T]]
// CHECK: arith.mulf
// CHECK-NEXT: train.recompute "b.sigmoid"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: %[[U:.+]] = train.sigmoid
// CHECK-NEXT: train.yield %[[U]]
module @chain {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %h = train.linear %x, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %s = train.sigmoid %h {train.block = "b"} : tensor<4x8xf32>
    %t = train.sigmoid %s {train.block = "b"} : tensor<4x8xf32>
    %y = train.linear %t, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dt = arith.mulf %dy, %t {train.backward, train.block = "b"} : tensor<4x8xf32>
    %ds = arith.mulf %dt, %s {train.backward, train.block = "b"} : tensor<4x8xf32>
    %dh = arith.mulf %ds, %h {train.backward, train.block = "b"} : tensor<4x8xf32>
    return %y, %dh : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Blocks are counted from the first; after whole blocks the count goes on.

// FIRST-LABEL: @counted
// FIRST-NOT: train.recompute "b
// FIRST: train.recompute "a.sigmoid"
// MIXED-LABEL: @counted
// MIXED: train.recompute "b.sigmoid"
// MIXED: train.recompute "a"
module @counted {
  func.func @micro_step(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %h = train.linear %x, %w {train.block = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %s = train.sigmoid %h {train.block = "a"} : tensor<4x8xf32>
    %i = train.linear %s, %w {train.block = "a"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %j = train.linear %i, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %t = train.sigmoid %j {train.block = "b"} : tensor<4x8xf32>
    %y = train.linear %t, %w {train.block = "b"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %dt = arith.mulf %dy, %t {train.backward, train.block = "b"} : tensor<4x8xf32>
    %dj = arith.mulf %dt, %j {train.backward, train.block = "b"} : tensor<4x8xf32>
    %ds = arith.mulf %dj, %s {train.backward, train.block = "a"} : tensor<4x8xf32>
    %dh = arith.mulf %ds, %h {train.backward, train.block = "a"} : tensor<4x8xf32>
    return %y, %dh : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
