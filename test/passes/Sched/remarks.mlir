// Both passes tell what they decided.
//
// RUN: ciuic-opt %s --ciuic-sched-order-tasks --ciuic-sched-allocate-buffers --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s
// CHECK-DAG: Ordered {{.*}}Category:sched{{.*}}program p: 2 tasks, 1 events
// CHECK-DAG: Allocated {{.*}}Category:memory{{.*}}program p, device: 256 bytes in 1 buffers over 512 bytes of state, 256 live at once
// CHECK-DAG: Allocated {{.*}}Category:memory{{.*}}program q, device: 512 bytes in 2 buffers over 512 bytes of state, 512 live at once
// CHECK-DAG: Fragmentation {{.*}}Category:memory{{.*}}device arena: 1024 bytes, 1024 live at once, 0 lost (0.00 %)

// A bound for which there was no time is told as what it is. Program order has
// @b and @c one after the other. What a packing reaches is no less than exact.
//
// RUN: ciuic-opt %s --ciuic-sched-order-tasks --ciuic-sched-allocate-buffers=bound-work=0 --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s --check-prefix=INEXACT
// INEXACT-DAG: Allocated {{.*}}program p, device: 256 bytes in 1 buffers over 512 bytes of state, 256 live at once
// INEXACT-DAG: Allocated {{.*}}program q, device: 512 bytes in 2 buffers over 512 bytes of state, at least 256 live at once
// INEXACT-DAG: Fragmentation {{.*}}device arena: 1024 bytes, at least 768 live at once, 256 lost (33.33 %)
sched.buffer @w 512 bytes in device state @w
sched.buffer @a 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task copy "w" on host [#sched.view<read @a [0] : tensor<64xf32>>, #sched.view<write @w [0] : tensor<64xf32>>]
}
sched.buffer @b 256 bytes in device of @q
sched.buffer @c 256 bytes in device of @q
sched.program @q {
  %0 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
  %1 = sched.task zero "c" on host [#sched.view<write @c [0] : tensor<64xf32>>]
}
