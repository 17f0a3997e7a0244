// Device tasks for CUDA get memory of their own, by kind and shape.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-add-scratch | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-add-scratch --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s --check-prefix=REMARK

// A tiny product needs 1 MiB, a larger one a copy of its result, a large one
// what the library wants: 4 MiB up to sm_89.
// CHECK-LABEL: sched.architectures = "sm_80,sm_89"
// CHECK: sched.buffer @buf.p.small.scratch 1048576 bytes in device of @p
// CHECK: sched.buffer @buf.p.middle.scratch 2097152 bytes in device of @p
// CHECK: sched.buffer @buf.p.large.scratch 4194304 bytes in device of @p
// CHECK: sched.task gemm "small" {{.*}}ints [0, 0, 0] scratch <write @buf.p.small.scratch[0] : tensor<262144xi32>>
// REMARK: Scratch {{.*}}Category:memory{{.*}}program p: 3 tasks have scratch, the largest 4194304 bytes
module attributes {sched.target = "cuda", sched.architectures = "sm_80,sm_89"} {
sched.buffer @b 67108864 bytes in device
sched.program @p {
  %0 = sched.task gemm "small" on compute [#sched.view<read @b [0] : tensor<64x8xf32>>, #sched.view<read @b [0] : tensor<8x64xf32>>, #sched.view<write @b [0] : tensor<64x64xf32>>] ints [0, 0, 0]
  %1 = sched.task gemm "middle" on compute [#sched.view<read @b [0] : tensor<1024x8xf32>>, #sched.view<read @b [0] : tensor<8x512xf32>>, #sched.view<write @b [0] : tensor<1024x512xf32>>] ints [0, 0, 0]
  %2 = sched.task gemm "large" on compute [#sched.view<read @b [0] : tensor<4096x8xf32>>, #sched.view<read @b [0] : tensor<8x4096xf32>>, #sched.view<write @b [0] : tensor<4096x4096xf32>>] ints [0, 0, 0]
}
}

// -----

// The newest architecture decides: 32 MiB from sm_90 on.
// CHECK: sched.buffer @buf.p.large.scratch 33554432 bytes
module attributes {sched.target = "cuda", sched.architectures = "sm_80,sm_90a"} {
sched.buffer @b 67108864 bytes in device
sched.program @p {
  %0 = sched.task gemm "large" on compute [#sched.view<read @b [0] : tensor<4096x8xf32>>, #sched.view<read @b [0] : tensor<8x4096xf32>>, #sched.view<write @b [0] : tensor<4096x4096xf32>>] ints [0, 0, 0]
}
}

// -----

// The kernels' own: the gradient of attention of 96 rows and 4 heads, sums over
// 70 rows in 3 parts and over 8192 in 128, a sort of 6 tokens of 50, and losses
// of 6 rows. Two tasks of one name have two buffers.
// CHECK: sched.buffer @buf.p.attention.scratch 1536 bytes
// CHECK: sched.buffer @buf.p.bias.scratch 192 bytes
// CHECK: sched.buffer @[[WEIGHT:[^ ]+]] 8192 bytes
// CHECK: sched.buffer @buf.p.embed.scratch 4348 bytes
// CHECK: sched.buffer @buf.p.norm.scratch 8192 bytes
// CHECK: sched.buffer @buf.p.loss.scratch 48 bytes
// CHECK: sched.buffer @[[SECOND:[^ ]+]] 48 bytes
// CHECK: task norm_weight_grad "bias" {{.*}}scratch <write @[[WEIGHT]][0] : tensor<2048xi32>>
// CHECK: task cross_entropy "loss" {{.*}}scratch <write @buf.p.loss.scratch[0] : tensor<12xi32>>
// CHECK: task cross_entropy_with_grad "loss" {{.*}}scratch <write @[[SECOND]][0] : tensor<12xi32>>
module attributes {sched.target = "cuda", sched.architectures = "sm_80"} {
sched.buffer @b 67108864 bytes in device
sched.program @p {
  %0 = sched.task attention_grad "attention" on compute [#sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x4xf32>>, #sched.view<write @b [0] : tensor<96x32xbf16>>, #sched.view<write @b [0] : tensor<96x32xbf16>>, #sched.view<write @b [0] : tensor<96x32xbf16>>] ints [32, 4, 4] reals [0.125]
  %1 = sched.task column_sum "bias" on compute [#sched.view<read @b [0] : tensor<70x16xf32>>, #sched.view<write @b [0] : tensor<16xf32>>]
  %2 = sched.task norm_weight_grad "bias" on compute [#sched.view<read @b [0] : tensor<8192x16xf32>>, #sched.view<read @b [0] : tensor<8192x16xf32>>, #sched.view<read @b [0] : tensor<8192xf32>>, #sched.view<write @b [0] : tensor<16xf32>>]
  %3 = sched.task embedding_grad "embed" on compute [#sched.view<read @b [0] : tensor<6x16xf32>>, #sched.view<read @b [0] : tensor<2x3xi32>>, #sched.view<write @b [0] : tensor<50x16xf32>>] ints [0]
  %4 = sched.task square_sum "norm" on compute [#sched.view<read @b [0] : tensor<100xf32>>, #sched.view<write @b [0] : tensor<f64>>]
  %5 = sched.task cross_entropy "loss" on compute [#sched.view<read @b [0] : tensor<6x50xf32>>, #sched.view<read @b [0] : tensor<2x3xi32>>, #sched.view<write @b [0] : tensor<f32>>, #sched.view<write @b [0] : tensor<f32>>, #sched.view<write @b [0] : tensor<6xf32>>]
  %6 = sched.task cross_entropy_with_grad "loss" on compute [#sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<6x50xf32>>, #sched.view<read @b [0] : tensor<2x3xi32>>, #sched.view<write @b [0] : tensor<f32>>, #sched.view<write @b [0] : tensor<f32>>, #sched.view<write @b [0] : tensor<6x50xf32>>]
}
}

// -----

// What cuDNN may ask for to compute attention, which it does in 16 bits only.
// CHECK: sched.buffer @buf.p.half.scratch 65536 bytes
// CHECK: task attention "half" {{.*}}scratch <write @buf.p.half.scratch[0] : tensor<16384xi32>>
// CHECK: task attention "single"
// CHECK-NOT: scratch
module attributes {sched.target = "cuda", sched.architectures = "sm_80"} {
sched.buffer @b 67108864 bytes in device
sched.program @p {
  %0 = sched.task attention "half" on compute [#sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<read @b [0] : tensor<96x32xbf16>>, #sched.view<write @b [0] : tensor<96x32xbf16>>, #sched.view<write @b [0] : tensor<96x4xf32>>] ints [32, 4, 4] reals [0.125]
  %1 = sched.task attention "single" on compute [#sched.view<read @b [0] : tensor<96x32xf32>>, #sched.view<read @b [0] : tensor<96x32xf32>>, #sched.view<read @b [0] : tensor<96x32xf32>>, #sched.view<write @b [0] : tensor<96x32xf32>>, #sched.view<write @b [0] : tensor<96x4xf32>>] ints [32, 4, 4] reals [0.125]
}
}

// -----

// Tasks of the host and kinds that need none have none.
// CHECK-LABEL: sched.program @none {
// CHECK-NOT: scratch
module attributes {sched.target = "cuda", sched.architectures = "sm_80"} {
sched.buffer @b 512 bytes in device
sched.buffer @h 512 bytes in host
sched.program @none {
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>]
  %1 = sched.task square_sum "h" on host [#sched.view<read @h [0] : tensor<4xf32>>, #sched.view<write @h [256] : tensor<f64>>]
}
}

// -----

// On CPUs no task has any.
// CHECK-LABEL: sched.program @cpu {
// CHECK-NOT: scratch
// CHECK: {{^}}}
module attributes {sched.target = "cpu"} {
sched.buffer @b 67108864 bytes in device
sched.program @cpu {
  %0 = sched.task gemm "large" on compute [#sched.view<read @b [0] : tensor<4096x8xf32>>, #sched.view<read @b [0] : tensor<8x4096xf32>>, #sched.view<write @b [0] : tensor<4096x4096xf32>>] ints [0, 0, 0]
}
}
