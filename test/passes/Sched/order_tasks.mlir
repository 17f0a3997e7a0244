// Tasks that touch the same bytes keep their order; others stay free.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-order-tasks --ciuic-verify-scheduled | FileCheck %s

// A read waits for the write before it on another stream.
// CHECK-LABEL: sched.program @read_after_write
// CHECK: %[[G:.+]] = sched.task all_gather
// CHECK: sched.task column_sum "use" on compute after(%[[G]])
sched.buffer @s 512 bytes in device
sched.buffer @w 512 bytes in device
sched.program @read_after_write {
  %0 = sched.task all_gather "gather" on gather [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @w [0] : tensor<128xf32>>]
  %1 = sched.task column_sum "use" on compute [#sched.view<read @w [0] : tensor<4x8xf32>>, #sched.view<write @s [256] : tensor<8xf32>>]
}

// -----

// A write waits for the reads before it, and no read for another.
// CHECK-LABEL: sched.program @write_after_read
// CHECK: %[[A:.+]] = sched.task copy "first" on compute [
// CHECK: %[[B:.+]] = sched.task copy "second" on gather [
// CHECK: sched.task zero "clear" on reduce after(%[[B]], %[[A]])
sched.buffer @s 512 bytes in device
sched.buffer @t 512 bytes in device
sched.program @write_after_read {
  %0 = sched.task copy "first" on compute [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @t [0] : tensor<64xf32>>]
  %1 = sched.task copy "second" on gather [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @t [256] : tensor<64xf32>>]
  %2 = sched.task zero "clear" on reduce [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// A write waits for a write.
// CHECK-LABEL: sched.program @write_after_write
// CHECK: %[[A:.+]] = sched.task zero "first" on compute [
// CHECK: sched.task zero "second" on gather after(%[[A]])
sched.buffer @s 512 bytes in device
sched.program @write_after_write {
  %0 = sched.task zero "first" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "second" on gather [#sched.view<write @s [252] : tensor<64xf32>>]
}

// -----

// Bytes that only touch one another are not the same bytes.
// CHECK-LABEL: sched.program @neighbours
// CHECK-NOT: after
sched.buffer @s 512 bytes in device
sched.program @neighbours {
  %0 = sched.task zero "first" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "second" on gather [#sched.view<write @s [256] : tensor<64xf32>>]
}

// -----

// What another rank's view touches counts: rank 1's half is the second one.
// CHECK-LABEL: sched.program @ranks
// CHECK: %[[A:.+]] = sched.task zero "own" on compute [
// CHECK: sched.task zero "second" on gather after(%[[A]])
module attributes {sched.ranks = 2 : i64} {
sched.buffer @s 512 bytes in device
sched.program @ranks {
  %0 = sched.task zero "own" on compute [#sched.view<write @s [0 + rank * 256] : tensor<64xf32>>]
  %1 = sched.task zero "second" on gather [#sched.view<write @s [256] : tensor<64xf32>>]
}
}

// -----

// One stream is an order already.
// CHECK-LABEL: sched.program @one_stream
// CHECK-NOT: after
sched.buffer @s 512 bytes in device
sched.program @one_stream {
  %0 = sched.task zero "first" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "second" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// An event that another implies is left out: "last" waits for "middle", which
// waited for "first"; and "again" comes after "last" on its stream.
// CHECK-LABEL: sched.program @implied
// CHECK: %[[A:.+]] = sched.task zero "first" on compute [
// CHECK: %[[B:.+]] = sched.task zero "middle" on gather after(%[[A]]) [
// CHECK: sched.task zero "last" on reduce after(%[[B]]) [
// CHECK: sched.task zero "again" on reduce [
sched.buffer @s 512 bytes in device
sched.program @implied {
  %0 = sched.task zero "first" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "middle" on gather [#sched.view<write @s [0] : tensor<64xf32>>]
  %2 = sched.task zero "last" on reduce [#sched.view<write @s [0] : tensor<64xf32>>]
  %3 = sched.task zero "again" on reduce [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// A task's skip is read.
// CHECK-LABEL: sched.program @skip
// CHECK: %[[A:.+]] = sched.task zero "flag" on compute [
// CHECK: sched.task zero "skipped" on gather after(%[[A]]) [
sched.buffer @s 512 bytes in device
sched.buffer @flag 4 bytes in device
sched.program @skip {
  %0 = sched.task zero "flag" on compute [#sched.view<write @flag [0] : tensor<f32>>]
  %1 = sched.task zero "skipped" on gather [#sched.view<write @s [0] : tensor<64xf32>>] skip #sched.view<read @flag [0] : tensor<f32>>
}

// -----

// Events that were there are made anew: this one says nothing.
// CHECK-LABEL: sched.program @stale
// CHECK-NOT: after
sched.buffer @s 512 bytes in device
sched.buffer @t 512 bytes in device
sched.program @stale {
  %0 = sched.task zero "first" on compute [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "second" on gather after (%0) [#sched.view<write @t [0] : tensor<64xf32>>]
}

// -----

// A transfer stream may also hold work of one view.
// CHECK-LABEL: sched.program @one_view
// CHECK: sched.task zero "clear" on gather [
sched.buffer @s 512 bytes in device of @one_view
sched.program @one_view {
  %0 = sched.task zero "clear" on gather [#sched.view<write @s [0] : tensor<64xf32>>]
}
