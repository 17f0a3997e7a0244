// A loss and its gradient become one task where nothing stands between them.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-fuse-loss | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-fuse-loss --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s --check-prefix=REMARK

// What adds up the loss comes after it. The statistics of the rows need no
// buffer any more.
// CHECK: sched.buffer @count
// CHECK-NOT: sched.buffer @lse
// CHECK-LABEL: sched.program @p {
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss" on compute [#sched.view<read @seed[0] : tensor<f32>>, #sched.view<read @logits[0] : tensor<4x16xbf16>>, #sched.view<read @labels[0] : tensor<1x4xi32>>, #sched.view<write @loss[0] : tensor<f32>>, #sched.view<write @count[0] : tensor<f32>>, #sched.view<write @logits[0] : tensor<4x16xbf16>>]{{$}}
// CHECK-NEXT: sched.task accumulate "loss.metric"
// CHECK-NEXT: }
// REMARK: LossFused {{.*}}Category:sched{{.*}}loss: a pass less over 128 bytes of logits
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task accumulate "loss.metric" on compute [#sched.view<read @loss [0] : tensor<f32>>, #sched.view<update @total [0] : tensor<f32>>] ints [1]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// What makes the seed comes before, and so does what has nothing to do with
// either; what needs the loss keeps its order.
// CHECK-LABEL: sched.program @p {
// CHECK-NEXT: sched.task accumulate "seed"
// CHECK-NEXT: sched.task zero "other" on reduce
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss"
// CHECK-NEXT: sched.task accumulate "loss.metric"
// CHECK-NEXT: sched.task zero "total"
// CHECK-NEXT: sched.task zero "last"
// CHECK-NEXT: }
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task accumulate "loss.metric" on compute [#sched.view<read @loss [0] : tensor<f32>>, #sched.view<update @total [0] : tensor<f32>>] ints [1]
  %2 = sched.task accumulate "seed" on compute [#sched.view<read @labels [0] : tensor<f32>>, #sched.view<write @seed [0] : tensor<f32>>] ints [0]
  %3 = sched.task zero "total" on compute [#sched.view<write @total [0] : tensor<f32>>]
  %4 = sched.task zero "other" on reduce [#sched.view<write @logits [256] : tensor<8xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
  %5 = sched.task zero "last" on compute [#sched.view<write @total [0] : tensor<f32>>]
}

// -----

// The gradient may go elsewhere: then the logits may be read in between.
// CHECK-LABEL: sched.program @p {
// CHECK-NEXT: sched.task square_sum "look"
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss" {{.*}}#sched.view<write @logits[256] : tensor<4x16xbf16>>]
// CHECK-NEXT: }
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task square_sum "look" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<write @total [0] : tensor<f32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [256] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// Two losses of one program, each with its gradient.
// CHECK-LABEL: sched.program @p {
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss"
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss"
// CHECK-NEXT: }
sched.buffer @lse2 16 bytes in device of @p
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
  %10 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [256] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse2 [0] : tensor<4xf32>>]
  %11 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [256] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse2 [0] : tensor<4xf32>>, #sched.view<write @logits [256] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// A loss that is fused uses its buffers on: here what is another's lse.
// CHECK-LABEL: sched.program @p {
// CHECK-NEXT: sched.task cross_entropy_with_grad "loss"
// CHECK-NEXT: sched.task cross_entropy "loss.2"
// CHECK-NEXT: sched.task cross_entropy_grad "loss.bwd2"
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @both 32 bytes in device of @p
sched.buffer @loss2 4 bytes in device of @p
sched.buffer @count2 4 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @both [16] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
  %1 = sched.task cross_entropy "loss.2" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss2 [0] : tensor<f32>>, #sched.view<write @count2 [0] : tensor<f32>>, #sched.view<write @both [0] : tensor<4xf32>>]
  %2 = sched.task cross_entropy_grad "loss.bwd2" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @both [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}
