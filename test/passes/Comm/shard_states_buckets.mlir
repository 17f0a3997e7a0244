// How parameters are grouped, cut and padded.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-shard-states="ranks=4 stage=3 max-bucket-elements=256" --ciuic-verify-sharded | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-shard-states="ranks=4 stage=3 min-bucket-elements=300" --ciuic-verify-sharded | FileCheck %s --check-prefix=MERGE
// RUN: ciuic-opt %s --split-input-file --ciuic-comm-shard-states="ranks=4 stage=2 min-bucket-elements=300" --ciuic-verify-sharded | FileCheck %s --check-prefix=MERGE2

// A block above the limit is cut between parameters. A parameter above it is
// a bucket of its own, whole. Fewer than 128 elements a rank still make a
// chunk of 128: here all ranks but the first hold only padding of @blk.2.

// CHECK-LABEL: module @cut
module @cut {
  // CHECK: @a {{.*}} in @blk.0 at 0
  // CHECK: @b {{.*}} in @blk.0 at 128
  // CHECK: @big {{.*}} in @blk.1 at 0
  // CHECK: @c {{.*}} in @blk.2 at 0
  train.state trainable parameter @a : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @b : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @big : tensor<8x40xf32> init #train.constant<0.0>
  train.state trainable parameter @c : tensor<8xf32> init #train.constant<0.0>
  // CHECK: comm.bucket @blk.0 over #axis elements 512 chunk 128 trainable
  // CHECK: comm.bucket @blk.1 over #axis elements 512 chunk 128 trainable
  // CHECK: comm.bucket @blk.2 over #axis elements 512 chunk 128 trainable
  func.func @micro_step(%x: tensor<4x8xf32>, %h: tensor<4x40xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.read @a : tensor<8xf32>
    %b = train.read @b : tensor<8xf32>
    %big = train.read @big : tensor<8x40xf32>
    %c = train.read @c : tensor<8xf32>
    // Each part is gathered for itself, for the one group that uses them.
    // CHECK-COUNT-3: comm.all_gather {{.*}} for "blk.fwd"
    %y0, %r0 = train.rms_norm %x, %a eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y1, %r1 = train.rms_norm %x, %b eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y2 = train.linear %h, %big {train.block = "blk"} : (tensor<4x40xf32>, tensor<8x40xf32>) -> tensor<4x8xf32>
    %y3, %r3 = train.rms_norm %x, %c eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return %y0, %y1, %y2, %y3 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Small neighbours join until they are large enough, the last with what is
// before it; at stage 3 their ops become one block, so that one gather serves
// them. A block that is large enough stays alone.

// MERGE-LABEL: module @merge
// MERGE: @a {{.*}} in @b0.to.b2 at 0
// MERGE: @b {{.*}} in @b0.to.b2 at 128
// MERGE: @c {{.*}} in @b0.to.b2 at 256
// MERGE: @big {{.*}} in @b3.to.b4 at 0
// MERGE: @d {{.*}} in @b3.to.b4 at 384
// MERGE: comm.all_gather {{.*}} for "b0.to.b2.fwd"
// MERGE-NOT: comm.all_gather
// MERGE: train.block = "b0.to.b2"
// MERGE: comm.all_gather {{.*}} for "b3.to.b4.fwd"
// MERGE-NOT: comm.all_gather
// MERGE-LABEL: module @kinds

// Where nothing is gathered, blocks keep their names.

// MERGE2-LABEL: module @merge
// MERGE2: comm.bucket @b0.to.b2
// MERGE2: train.rms_norm {{.*}} {train.block = "b1"}
module @merge {
  train.state trainable parameter @a : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @b : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @c : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @big : tensor<8x40xf32> init #train.constant<0.0>
  train.state trainable parameter @d : tensor<8xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>, %h: tensor<4x40xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.read @a : tensor<8xf32>
    %b = train.read @b : tensor<8xf32>
    %c = train.read @c : tensor<8xf32>
    %big = train.read @big : tensor<8x40xf32>
    %d = train.read @d : tensor<8xf32>
    %y0, %r0 = train.rms_norm %x, %a eps 1.0e-5 {train.block = "b0"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y1, %r1 = train.rms_norm %x, %b eps 1.0e-5 {train.block = "b1"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y2, %r2 = train.rms_norm %x, %c eps 1.0e-5 {train.block = "b2"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y3 = train.linear %h, %big {train.block = "b3"} : (tensor<4x40xf32>, tensor<8x40xf32>) -> tensor<4x8xf32>
    %y4, %r4 = train.rms_norm %x, %d eps 1.0e-5 {train.block = "b4"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return %y0, %y1, %y2, %y3, %y4 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Frozen parameters have buckets of their own, without gradient or optimizer
// states, and are shared like others. A parameter that nothing uses is kept,
// for checkpoints. Element types do not mix.

// CHECK-LABEL: module @kinds
module @kinds {
  // CHECK: parameter @frozen {{.*}} in @blk.frozen at 0
  train.state parameter @frozen : tensor<8xf32> init #train.constant<0.0>
  // CHECK: parameter @idle {{.*}} in @unused.frozen at 0
  train.state parameter @idle : tensor<8xf32> init #train.constant<0.0>
  // CHECK: parameter @narrow {{.*}} in @blk at 0
  train.state trainable parameter @narrow : tensor<8xbf16> init #train.constant<0.0>
  // CHECK: parameter @wide {{.*}} in @blk.f32 at 0
  train.state trainable parameter @wide : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @wide.grad of @wide : tensor<8xf32> init #train.constant<0.0>
  train.state master @narrow.master of @narrow : tensor<8xf32> init #train.constant<0.0>
  // CHECK: comm.bucket @blk.frozen over #axis elements 512 chunk 128{{$}}
  // CHECK: train.state parameter @blk.frozen.param of @blk.frozen sharded : tensor<128xf32>
  // CHECK-NOT: @blk.frozen.grad
  // CHECK: comm.bucket @blk over
  // CHECK: train.state master @blk.master of @blk sharded : tensor<128xf32>
  // CHECK: comm.bucket @blk.f32 over
  // CHECK-NOT: @blk.f32.master
  // CHECK: comm.bucket @unused.frozen over
  func.func @micro_step(%x: tensor<4x8xf32>, %n: tensor<4x8xbf16>) -> (tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>) {
    %frozen = train.read @frozen : tensor<8xf32>
    %narrow = train.read @narrow : tensor<8xbf16>
    %wide = train.read @wide : tensor<8xf32>
    %y0, %r0 = train.rms_norm %x, %frozen eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y1, %r1 = train.rms_norm %n, %narrow eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xbf16>, tensor<8xbf16>) -> (tensor<4x8xbf16>, tensor<4xf32>)
    %y2, %r2 = train.rms_norm %x, %wide eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    return %y0, %y1, %y2 : tensor<4x8xf32>, tensor<4x8xbf16>, tensor<4x8xf32>
  }
}

// -----

// A member without gradient contributes nothing: zeros in the pack.

// CHECK-LABEL: module @no_gradient
module @no_gradient {
  train.state trainable parameter @a : tensor<8xf32> init #train.constant<0.0>
  train.state trainable parameter @b : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @a.grad of @a : tensor<8xf32> init #train.constant<0.0>
  train.state gradient @b.grad of @b : tensor<8xf32> init #train.constant<0.0>
  func.func @micro_step(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %a = train.read @a : tensor<8xf32>
    %b = train.read @b : tensor<8xf32>
    %y0, %r0 = train.rms_norm %x, %a eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    %y1, %r1 = train.rms_norm %x, %b eps 1.0e-5 {train.block = "blk"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    // CHECK: %[[DB:.+]] = train.column_sum
    %db = train.column_sum %x {train.backward, train.block = "blk"} : (tensor<4x8xf32>) -> tensor<8xf32>
    // CHECK: comm.pack %[[DB]] at [128]
    train.accumulate %db, @b.grad : tensor<8xf32>
    return %y0, %y1 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
