// Work on the other streams does not run ahead of the one that uses it by more
// than it is told.
//
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=prefetch=0 --ciuic-verify-scheduled | FileCheck %s --check-prefix=ZERO
// RUN: ciuic-opt %s --ciuic-sched-order-tasks --ciuic-verify-scheduled | FileCheck %s --check-prefix=ONE
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=prefetch=2 --ciuic-verify-scheduled | FileCheck %s --check-prefix=TWO
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=depth=1 --ciuic-verify-scheduled | FileCheck %s --check-prefix=DEPTH1
// RUN: not ciuic-opt %s --ciuic-sched-order-tasks="prefetch=-1" 2>&1 | FileCheck %s --check-prefix=REFUSE
// RUN: not ciuic-opt %s --ciuic-sched-order-tasks="depth=0" 2>&1 | FileCheck %s --check-prefix=REFUSE0

// RUN: not ciuic-opt %s --ciuic-sched-order-tasks="slack=-1" 2>&1 | FileCheck %s --check-prefix=REFUSE1

// REFUSE: prefetch is -1, depth 2 and slack 3.000000e+00, expected at least 0, 1 and 0
// REFUSE0: prefetch is 1, depth 0 and slack 3.000000e+00, expected at least 0, 1 and 0
// REFUSE1: prefetch is 1, depth 2 and slack -1.000000e+00, expected at least 0, 1 and 0

sched.buffer @chunk 256 bytes in device state @p
sched.buffer @grad 1024 bytes in device state @g
sched.buffer @full.0 256 bytes in device of @gathers
sched.buffer @full.1 256 bytes in device of @gathers
sched.buffer @full.2 256 bytes in device of @gathers
sched.buffer @full.3 256 bytes in device of @gathers

// Without prefetch a gather starts when all work before its use is done. With
// one, while the block before is in use; and not before the block before that
// is used up, so that two are held. With two, three are held.

// ZERO-LABEL: sched.program @gathers
// ZERO: %[[G0:.+]] = sched.task all_gather "0" on gather [
// ZERO: %[[U0:.+]] = sched.task square_sum "0" on compute after(%[[G0]])
// ZERO: %[[G1:.+]] = sched.task all_gather "1" on gather after(%[[U0]])
// ZERO: %[[U1:.+]] = sched.task square_sum "1" on compute after(%[[G1]])
// ZERO: %[[G2:.+]] = sched.task all_gather "2" on gather after(%[[U1]])
// ZERO: %[[U2:.+]] = sched.task square_sum "2" on compute after(%[[G2]])
// ZERO: sched.task all_gather "3" on gather after(%[[U2]])

// ONE-LABEL: sched.program @gathers
// ONE: %[[G0:.+]] = sched.task all_gather "0" on gather [
// ONE: %[[U0:.+]] = sched.task square_sum "0" on compute after(%[[G0]])
// ONE: %[[G1:.+]] = sched.task all_gather "1" on gather [
// ONE: %[[U1:.+]] = sched.task square_sum "1" on compute after(%[[G1]])
// ONE: %[[G2:.+]] = sched.task all_gather "2" on gather after(%[[U0]])
// ONE: %[[U2:.+]] = sched.task square_sum "2" on compute after(%[[G2]])
// ONE: sched.task all_gather "3" on gather after(%[[U1]])

// TWO-LABEL: sched.program @gathers
// TWO: %[[G0:.+]] = sched.task all_gather "0" on gather [
// TWO: %[[U0:.+]] = sched.task square_sum "0" on compute after(%[[G0]])
// TWO: sched.task all_gather "1" on gather [
// TWO: sched.task all_gather "2" on gather [
// TWO: sched.task all_gather "3" on gather after(%[[U0]])
sched.program @gathers {
  %g0 = sched.task all_gather "0" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.0 [0] : tensor<64xf32>>]
  %u0 = sched.task square_sum "0" on compute [#sched.view<read @full.0 [0] : tensor<64xf32>>, #sched.view<write @chunk [128] : tensor<f64>>]
  %g1 = sched.task all_gather "1" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.1 [0] : tensor<64xf32>>]
  %u1 = sched.task square_sum "1" on compute [#sched.view<read @full.1 [0] : tensor<64xf32>>, #sched.view<write @chunk [136] : tensor<f64>>]
  %g2 = sched.task all_gather "2" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.2 [0] : tensor<64xf32>>]
  %u2 = sched.task square_sum "2" on compute [#sched.view<read @full.2 [0] : tensor<64xf32>>, #sched.view<write @chunk [144] : tensor<f64>>]
  %g3 = sched.task all_gather "3" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.3 [0] : tensor<64xf32>>]
  %u3 = sched.task square_sum "3" on compute [#sched.view<read @full.3 [0] : tensor<64xf32>>, #sched.view<write @chunk [152] : tensor<f64>>]
}

// The buffer of the third reduction is filled when the first is done; with a
// depth of one, each waits for the one before.

// ONE-LABEL: sched.program @reductions
// ONE: sched.task zero "0" on compute [
// ONE: %[[R0:.+]] = sched.task reduce_scatter "0" on reduce after
// ONE: sched.task zero "1" on compute [
// ONE: %[[R1:.+]] = sched.task reduce_scatter "1" on reduce after
// ONE: sched.task zero "2" on compute after(%[[R0]]) [
// ONE: sched.task reduce_scatter "2" on reduce after
// ONE: sched.task zero "3" on compute after(%[[R1]]) [

// DEPTH1-LABEL: sched.program @reductions
// DEPTH1: sched.task zero "0" on compute [
// DEPTH1: %[[R0:.+]] = sched.task reduce_scatter "0" on reduce after
// DEPTH1: sched.task zero "1" on compute after(%[[R0]]) [
// DEPTH1: %[[R1:.+]] = sched.task reduce_scatter "1" on reduce after
// DEPTH1: sched.task zero "2" on compute after(%[[R1]]) [
sched.program @reductions {
  %z0 = sched.task zero "0" on compute [#sched.view<write @whole.0 [0] : tensor<64xf32>>]
  %r0 = sched.task reduce_scatter "0" on reduce [#sched.view<read @whole.0 [0] : tensor<64xf32>>, #sched.view<write @grad [0] : tensor<32xf32>>] ints [1]
  %z1 = sched.task zero "1" on compute [#sched.view<write @whole.1 [0] : tensor<64xf32>>]
  %r1 = sched.task reduce_scatter "1" on reduce [#sched.view<read @whole.1 [0] : tensor<64xf32>>, #sched.view<write @grad [128] : tensor<32xf32>>] ints [1]
  %z2 = sched.task zero "2" on compute [#sched.view<write @whole.2 [0] : tensor<64xf32>>]
  %r2 = sched.task reduce_scatter "2" on reduce [#sched.view<read @whole.2 [0] : tensor<64xf32>>, #sched.view<write @grad [256] : tensor<32xf32>>] ints [1]
  %z3 = sched.task zero "3" on compute [#sched.view<write @whole.3 [0] : tensor<64xf32>>]
  %r3 = sched.task reduce_scatter "3" on reduce [#sched.view<read @whole.3 [0] : tensor<64xf32>>, #sched.view<write @grad [384] : tensor<32xf32>>] ints [1]
}
sched.buffer @whole.0 256 bytes in device of @reductions
sched.buffer @whole.1 256 bytes in device of @reductions
sched.buffer @whole.2 256 bytes in device of @reductions
sched.buffer @whole.3 256 bytes in device of @reductions

// States stay where they are: nothing throttles a gather into one.
// ONE-LABEL: sched.program @into_states
// ONE: sched.task all_gather "0" on gather [
// ONE: sched.task all_gather "1" on gather [
// ONE: sched.task all_gather "2" on gather [
sched.program @into_states {
  %g0 = sched.task all_gather "0" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @grad [0] : tensor<64xf32>>]
  %g1 = sched.task all_gather "1" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @grad [256] : tensor<64xf32>>]
  %g2 = sched.task all_gather "2" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @grad [512] : tensor<64xf32>>]
}

// Copies of states to the device are held back as gathers are; those for one
// use run together. Block 1's two start while block 0 is in use.

sched.buffer @host 1024 bytes in host state @p
sched.buffer @up.0 256 bytes in device of @copies_up
sched.buffer @up.1a 256 bytes in device of @copies_up
sched.buffer @up.1b 256 bytes in device of @copies_up
sched.buffer @up.2 256 bytes in device of @copies_up

// ZERO-LABEL: sched.program @copies_up
// ZERO: sched.task copy "0" on h2d [
// ZERO: %[[U0:.+]] = sched.task square_sum "0" on compute
// ZERO: sched.task copy "1a" on h2d after(%[[U0]])
// ZERO: sched.task copy "1b" on h2d [
// ZERO: %[[U1:.+]] = sched.task square_sum "1b" on compute
// ZERO: sched.task copy "2" on h2d after(%[[U1]])

// ONE-LABEL: sched.program @copies_up
// ONE: sched.task copy "0" on h2d [
// ONE: %[[U0:.+]] = sched.task square_sum "0" on compute
// ONE: sched.task copy "1a" on h2d [
// ONE: sched.task copy "1b" on h2d [
// ONE: sched.task copy "2" on h2d after(%[[U0]])
sched.program @copies_up {
  %c0 = sched.task copy "0" on h2d [#sched.view<read @host [0] : tensor<64xf32>>, #sched.view<write @up.0 [0] : tensor<64xf32>>] {sched.use = "0.fwd"}
  %u0 = sched.task square_sum "0" on compute [#sched.view<read @up.0 [0] : tensor<64xf32>>, #sched.view<write @chunk [128] : tensor<f64>>]
  %c1 = sched.task copy "1a" on h2d [#sched.view<read @host [256] : tensor<64xf32>>, #sched.view<write @up.1a [0] : tensor<64xf32>>] {sched.use = "1.fwd"}
  %c2 = sched.task copy "1b" on h2d [#sched.view<read @host [512] : tensor<64xf32>>, #sched.view<write @up.1b [0] : tensor<64xf32>>] {sched.use = "1.fwd"}
  %u1 = sched.task square_sum "1a" on compute [#sched.view<read @up.1a [0] : tensor<64xf32>>, #sched.view<write @chunk [136] : tensor<f64>>]
  %u2 = sched.task square_sum "1b" on compute [#sched.view<read @up.1b [0] : tensor<64xf32>>, #sched.view<write @chunk [144] : tensor<f64>>]
  %c3 = sched.task copy "2" on h2d [#sched.view<read @host [768] : tensor<64xf32>>, #sched.view<write @up.2 [0] : tensor<64xf32>>] {sched.use = "2.fwd"}
  %u3 = sched.task square_sum "2" on compute [#sched.view<read @up.2 [0] : tensor<64xf32>>, #sched.view<write @chunk [152] : tensor<f64>>]
}

// What the compute stream makes for the host is made only when the one two
// before it is there.

sched.buffer @down.0 256 bytes in device of @copies_down
sched.buffer @down.1 256 bytes in device of @copies_down
sched.buffer @down.2 256 bytes in device of @copies_down
sched.buffer @kept 1024 bytes in host state @p

// ONE-LABEL: sched.program @copies_down
// ONE: sched.task zero "0" on compute [
// ONE: %[[D0:.+]] = sched.task copy "0" on d2h
// ONE: sched.task zero "1" on compute [
// ONE: sched.task copy "1" on d2h
// ONE: sched.task zero "2" on compute after(%[[D0]]) [
sched.program @copies_down {
  %z0 = sched.task zero "0" on compute [#sched.view<write @down.0 [0] : tensor<64xf32>>]
  %d0 = sched.task copy "0" on d2h [#sched.view<read @down.0 [0] : tensor<64xf32>>, #sched.view<write @kept [0] : tensor<64xf32>>] {sched.use = "0.fwd"}
  %z1 = sched.task zero "1" on compute [#sched.view<write @down.1 [0] : tensor<64xf32>>]
  %d1 = sched.task copy "1" on d2h [#sched.view<read @down.1 [0] : tensor<64xf32>>, #sched.view<write @kept [256] : tensor<64xf32>>] {sched.use = "1.fwd"}
  %z2 = sched.task zero "2" on compute [#sched.view<write @down.2 [0] : tensor<64xf32>>]
  %d2 = sched.task copy "2" on d2h [#sched.view<read @down.2 [0] : tensor<64xf32>>, #sched.view<write @kept [512] : tensor<64xf32>>] {sched.use = "2.fwd"}
}

// An activation comes back from the host when the work before the copy is done,
// although nothing that it touches is in the way.

sched.buffer @again.0 256 bytes in device of @comes_back
sched.buffer @kept.0 256 bytes in host of @comes_back
sched.buffer @first.0 256 bytes in device of @comes_back

// ONE-LABEL: sched.program @comes_back
// ONE: %[[DOWN:.+]] = sched.task copy "down" on d2h
// ONE: %[[WORK:.+]] = sched.task square_sum "work" on compute [
// ONE: sched.task copy "up" on h2d after({{.*}}%[[WORK]]
sched.program @comes_back {
  %z = sched.task zero "first" on compute [#sched.view<write @first.0 [0] : tensor<64xf32>>]
  %d = sched.task copy "down" on d2h [#sched.view<read @first.0 [0] : tensor<64xf32>>, #sched.view<write @kept.0 [0] : tensor<64xf32>>] {sched.use = "0.fwd"}
  %w = sched.task square_sum "work" on compute [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @chunk [128] : tensor<f64>>]
  %b = sched.task copy "up" on h2d [#sched.view<read @kept.0 [0] : tensor<64xf32>>, #sched.view<write @again.0 [0] : tensor<64xf32>>] {sched.use = "0.bwd"}
  %u = sched.task square_sum "use" on compute [#sched.view<read @again.0 [0] : tensor<64xf32>>, #sched.view<write @chunk [136] : tensor<f64>>]
}
