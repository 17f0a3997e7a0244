// A gather starts as late as it still is in time: when the work before its use
// takes `slack` times as long as it does. By the rates here a gather takes 384 us
// (128 bytes read, 256 written) and each use of it 264.
//
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=slack=1 --ciuic-verify-scheduled | FileCheck %s --check-prefix=ONCE
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=slack=2 --ciuic-verify-scheduled | FileCheck %s --check-prefix=TWICE
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=slack=3 --ciuic-verify-scheduled | FileCheck %s --check-prefix=NEVER
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=slack=0 --ciuic-verify-scheduled | FileCheck %s --check-prefix=NEVER
// RUN: ciuic-opt %s --ciuic-sched-order-tasks="slack=1 prefetch=0" --ciuic-verify-scheduled | FileCheck %s --check-prefix=ZERO
// RUN: ciuic-opt %s --ciuic-sched-order-tasks=slack=1 --remarks-filter=time 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// REMARK: remark{{.*}}Category:time{{.*}}program p: {{[0-9]+}}.{{[0-9]}} us, compute {{[0-9.]+}} %, gather {{[0-9.]+}} %

module attributes {sched.ranks = 2 : i64, sched.rates = "memory=1e6,devices=1e6,launch_us=0.001,collective_us=0.001"} {
sched.buffer @chunk 256 bytes in device state @p
sched.buffer @out 256 bytes in device state @g
sched.buffer @full.0 256 bytes in device of @p
sched.buffer @full.1 256 bytes in device of @p
sched.buffer @full.2 256 bytes in device of @p

// The third bucket may be gathered once the second is in use; of the four
// tasks that use it, two hide a gather, three hide it twice over.
// ONCE: %[[U12:.+]] = sched.task square_sum "1.2" on compute [
// ONCE: sched.task all_gather "2" on gather after(%[[U12]])
// TWICE: %[[U11:.+]] = sched.task square_sum "1.1" on compute after
// TWICE: sched.task all_gather "2" on gather after(%[[U11]])
// NEVER: %[[U0:.+]] = sched.task square_sum "0" on compute after
// NEVER: sched.task all_gather "2" on gather after(%[[U0]])
// ZERO: %[[U14:.+]] = sched.task square_sum "1.4" on compute [
// ZERO: sched.task all_gather "2" on gather after(%[[U14]])
sched.program @p {
  %g0 = sched.task all_gather "0" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.0 [0] : tensor<64xf32>>]
  %u0 = sched.task square_sum "0" on compute [#sched.view<read @full.0 [0] : tensor<64xf32>>, #sched.view<write @out [0] : tensor<f64>>]
  %g1 = sched.task all_gather "1" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.1 [0] : tensor<64xf32>>]
  %u1 = sched.task square_sum "1.1" on compute [#sched.view<read @full.1 [0] : tensor<64xf32>>, #sched.view<write @out [8] : tensor<f64>>]
  %u2 = sched.task square_sum "1.2" on compute [#sched.view<read @full.1 [0] : tensor<64xf32>>, #sched.view<write @out [16] : tensor<f64>>]
  %u3 = sched.task square_sum "1.3" on compute [#sched.view<read @full.1 [0] : tensor<64xf32>>, #sched.view<write @out [24] : tensor<f64>>]
  %u4 = sched.task square_sum "1.4" on compute [#sched.view<read @full.1 [0] : tensor<64xf32>>, #sched.view<write @out [32] : tensor<f64>>]
  %g2 = sched.task all_gather "2" on gather [#sched.view<read @chunk [0] : tensor<32xf32>>, #sched.view<write @full.2 [0] : tensor<64xf32>>]
  %u5 = sched.task square_sum "2" on compute [#sched.view<read @full.2 [0] : tensor<64xf32>>, #sched.view<write @out [40] : tensor<f64>>]
}
}
