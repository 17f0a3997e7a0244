// Both passes tell what they decided.
//
// RUN: ciuic-opt %s --ciuic-sched-order-tasks --ciuic-sched-allocate-buffers --remark-format=emitRemark --remarks-filter=.* 2>&1 | FileCheck %s
// CHECK-DAG: Ordered {{.*}}Category:sched{{.*}}program p: 2 tasks, 1 events
// CHECK-DAG: Allocated {{.*}}Category:memory{{.*}}program p, device: 256 bytes in 1 buffers over 512 bytes of state, 256 live at once
// CHECK-DAG: Fragmentation {{.*}}Category:memory{{.*}}device arena: 768 bytes, 768 live at once, 0 lost (0.00 %)
sched.buffer @w 512 bytes in device state @w
sched.buffer @a 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task copy "w" on host [#sched.view<read @a [0] : tensor<64xf32>>, #sched.view<write @w [0] : tensor<64xf32>>]
}
