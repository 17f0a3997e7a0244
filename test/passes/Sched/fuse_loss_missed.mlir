// Where a loss and its gradient stay two tasks, and why.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-fuse-loss | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-fuse-loss --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-NOT: cross_entropy_with_grad
// REMARK-NOT: LossFused

// Something else reads the statistics.
// REMARK: LossNotFused {{.*}}"look" uses lse too
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
  %1 = sched.task square_sum "look" on compute [#sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @total [0] : tensor<f32>>]
}

// -----

// Other labels make another gradient.
// REMARK: LossNotFused {{.*}}no loss of the same logits and labels makes its lse
sched.buffer @others 64 bytes in device
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @others [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// So does a gradient whose loss is in no program: evaluated earlier.
// REMARK: LossNotFused {{.*}}no loss of the same logits and labels makes its lse
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// The logits are read before the gradient replaces them, by what needs the loss.
// REMARK: LossNotFused {{.*}}"both" needs the loss, or what the gradient replaces, before
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task sum_slots "both" on compute [#sched.view<read @logits [0] : tensor<8xf64>>, #sched.view<write @loss [0] : tensor<f32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// The seed follows from the loss.
// REMARK: LossNotFused {{.*}}"seed" needs the loss, or what the gradient replaces, before
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task accumulate "seed" on compute [#sched.view<read @loss [0] : tensor<f32>>, #sched.view<write @seed [0] : tensor<f32>>] ints [0]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// The order of collectives stays as it is.
// REMARK: LossNotFused {{.*}}"sum" on reduce needs the loss before
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %1 = sched.task all_reduce "sum" on reduce [#sched.view<read @loss [0] : tensor<f32>>, #sched.view<write @total [0] : tensor<f32>>] ints [0]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// Another stream has its reason.
// REMARK: LossNotFused {{.*}}it runs under other conditions than the loss
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on reduce [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}

// -----

// One that is skipped has, too.
// REMARK: LossNotFused {{.*}}it runs under other conditions than the loss
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] skip #sched.view<read @seed [0] : tensor<f32>> {train.backward}
}

// -----

// Events are not taken apart.
// REMARK: LossNotFused {{.*}}the tasks are ordered already
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
  %2 = sched.task zero "z" on reduce after (%9) [#sched.view<write @total [0] : tensor<f32>>]
}

// -----

// Nobody knows what else needs the loss.
// REMARK: LossNotFused {{.*}}between them is what is no task
sched.buffer @logits 512 bytes in device of @p
sched.buffer @labels 64 bytes in device
sched.buffer @loss 4 bytes in device of @p
sched.buffer @count 4 bytes in device of @p
sched.buffer @lse 16 bytes in device of @p
sched.buffer @seed 4 bytes in device
sched.buffer @total 4 bytes in device
sched.program @p {
  %0 = sched.task cross_entropy "loss" on compute [#sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<write @loss [0] : tensor<f32>>, #sched.view<write @count [0] : tensor<f32>>, #sched.view<write @lse [0] : tensor<4xf32>>]
  %5 = builtin.unrealized_conversion_cast to i32
  %9 = sched.task cross_entropy_grad "loss.bwd" on compute [#sched.view<read @seed [0] : tensor<f32>>, #sched.view<read @logits [0] : tensor<4x16xbf16>>, #sched.view<read @labels [0] : tensor<1x4xi32>>, #sched.view<read @lse [0] : tensor<4xf32>>, #sched.view<write @logits [0] : tensor<4x16xbf16>>] {train.backward}
}
