// Every op, attribute and type of sched prints as it is read.
//
// RUN: ciuic-opt %s | ciuic-opt | FileCheck %s

// CHECK: module @job attributes {sched.arena.device = 4096 : i64, sched.arena.host = 0 : i64, sched.ranks = 2 : i64}
module @job attributes {
  sched.ranks = 2 : i64, sched.arena.device = 4096 : i64,
  sched.arena.host = 0 : i64
} {

// Buffers: of a state, of a program, an input, a constant, and with an offset.
// CHECK: sched.buffer @buf.w 1024 bytes in device state @w
// CHECK: sched.buffer @buf.x 512 bytes in host of @micro_first at 256
// CHECK: sched.buffer @buf.tokens 64 bytes in device{{$}}
// CHECK: sched.buffer @buf.one 4 bytes in device constant 1.000000e+00 at 0
// CHECK: sched.buffer @buf.y 512 bytes in device of @micro_first
sched.buffer @buf.w 1024 bytes in device state @w
sched.buffer @buf.x 512 bytes in host of @micro_first at 256
sched.buffer @buf.tokens 64 bytes in device
sched.buffer @buf.one 4 bytes in device constant 1.0 at 0
sched.buffer @buf.y 512 bytes in device of @micro_first

// A kernel says what one row does; `from` tells for what it was first made.
// CHECK: sched.kernel @scale_4x8 outputs 1 from "layers.0.mlp" {
// CHECK: ^bb0(%{{.+}}: index, %{{.+}}: memref<4x8xf32>, %{{.+}}: memref<4x8xf32>):
// CHECK: memref.load
// CHECK: memref.store
sched.kernel @scale_4x8 outputs 1 from "layers.0.mlp" {
^bb0(%row: index, %in: memref<4x8xf32>, %out: memref<4x8xf32>):
  %zero = arith.constant 0 : index
  %x = memref.load %in[%row, %zero] : memref<4x8xf32>
  %y = arith.addf %x, %x : f32
  memref.store %y, %out[%row, %zero] : memref<4x8xf32>
}

// Tasks: results are named after their kinds, views may depend on the rank.
// CHECK: sched.program @micro_first {
// CHECK: %all_gather = sched.task all_gather "layers.0.fwd" on gather
// CHECK-SAME: [#sched.view<read @buf.w[0 + rank * 512] : tensor<128xf32>>, #sched.view<write @buf.x[0] : tensor<128xf32>>]{{$}}
// CHECK: %launch = sched.task launch "layers.0.mlp" on compute after(%all_gather) kernel @scale_4x8
// CHECK-SAME: [#sched.view<read @buf.x[0] : tensor<4x8xf32>>, #sched.view<write @buf.y[128] : tensor<4x8xf32>>] ints [4, 2]
// CHECK: %sgd = sched.task sgd "w" on host after(%all_gather, %launch)
// CHECK-SAME: #sched.view<update @buf.w[0] : tensor<128xf32>>
// CHECK-SAME: ints [0, 1, 0, 64] reals [9.000000e-01, 0.000000e+00] skip <read @buf.one[0] : tensor<f32>>
sched.program @micro_first {
  %0 = sched.task all_gather "layers.0.fwd" on gather
    [#sched.view<read @buf.w [0 + rank * 512] : tensor<128xf32>>,
     #sched.view<write @buf.x [0] : tensor<128xf32>>]
  %1 = sched.task launch "layers.0.mlp" on compute after (%0) kernel @scale_4x8
    [#sched.view<read @buf.x [0] : tensor<4x8xf32>>,
     #sched.view<write @buf.y [128] : tensor<4x8xf32>>] ints [4, 2]
  %2 = sched.task sgd "w" on host after (%0, %1)
    [#sched.view<update @buf.w [0] : tensor<128xf32>>,
     #sched.view<read @buf.x [0] : tensor<128xf32>>,
     #sched.view<update @buf.w [512] : tensor<128xf32>>,
     #sched.view<read @buf.one [0] : tensor<f32>>,
     #sched.view<read @buf.one [0] : tensor<f32>>,
     #sched.view<read @buf.one [0] : tensor<f32>>]
    ints [0, 1, 0, 64] reals [0.9, 0.0]
    skip #sched.view<read @buf.one [0] : tensor<f32>>
}

// A task may have bytes of its own.
// CHECK: sched.program @scratch {
// CHECK: sched.task square_sum "w" on compute
// CHECK-SAME: skip <read @buf.one[0] : tensor<f32>> scratch <write @buf.scratch[0] : tensor<16xi32>>{{$}}
// CHECK: sched.task cross_entropy_with_grad "loss" on compute
// CHECK-SAME: tensor<4x8xf32>>] scratch <write @buf.scratch[64] : tensor<8xi32>>
sched.buffer @buf.scratch 96 bytes in device of @scratch
sched.buffer @buf.sum 8 bytes in device of @scratch
sched.program @scratch {
  %0 = sched.task square_sum "w" on compute
    [#sched.view<read @buf.w [0] : tensor<128xf32>>,
     #sched.view<write @buf.sum [0] : tensor<f64>>]
    skip #sched.view<read @buf.one [0] : tensor<f32>>
    scratch #sched.view<write @buf.scratch [0] : tensor<16xi32>>
  %1 = sched.task cross_entropy_with_grad "loss" on compute
    [#sched.view<read @buf.one [0] : tensor<f32>>,
     #sched.view<read @buf.w [0] : tensor<4x8xf32>>,
     #sched.view<read @buf.tokens [0] : tensor<2x2xi32>>,
     #sched.view<write @buf.sum [0] : tensor<f32>>,
     #sched.view<write @buf.sum [4] : tensor<f32>>,
     #sched.view<write @buf.w [0] : tensor<4x8xf32>>]
    scratch #sched.view<write @buf.scratch [64] : tensor<8xi32>>
}

// A program may do nothing.
// CHECK: sched.program @eval_first {
// CHECK-NEXT: }
sched.program @eval_first {
}
}
