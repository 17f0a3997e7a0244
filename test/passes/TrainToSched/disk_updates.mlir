// Updates of states that lie in files: part by part, each read while the one
// before it is updated.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched="disk-part=4096" --ciuic-sched-order-tasks --ciuic-verify-scheduled | FileCheck %s
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched="disk-part=4096 disk-buffers=1" | FileCheck %s --check-prefix=ONE
// RUN: not ciuic-opt %s --split-input-file --ciuic-lower-to-sched="disk-part=0" 2>&1 | FileCheck %s --check-prefix=REFUSE

// REFUSE: options disk-part and disk-buffers are 0 and 2, expected 1 to 2^40 and 1 to 64

// Three parts of 1024, 1024 and 512 elements. States in files, and what is
// brought from there, are whole blocks of 4096 bytes.
// CHECK: module attributes {{.*}}sched.disk_alignment = 4096
// CHECK: sched.buffer @buf.b.master 12288 bytes in nvme state @b.master

// The first two parts are read at once; the third when the first has been
// written, which is before the second is updated.
// CHECK-LABEL: sched.program @apply {
// CHECK-NEXT: sched.task copy "b.master.read[0]" on disk [#sched.view<read @buf.b.master[0] : tensor<1024xf32>>, #sched.view<write @buf.apply.b.master.staged.0[0] : tensor<1024xf32>>]
// CHECK-NEXT: %[[R0:.+]] = sched.task copy "b.m.read[0]" on disk
// CHECK-NEXT: sched.task copy "b.master.read[1]" on disk
// CHECK-NEXT: %[[R1:.+]] = sched.task copy "b.m.read[1]" on disk
// CHECK: %[[G0:.+]] = sched.task copy "sgd.grad.to_host[0]" on d2h [#sched.view<read @buf.g[0] : tensor<1024xf32>>
// CHECK: %[[A0:.+]] = sched.task sgd "sgd[0]" on host after({{.*}}) [#sched.view<update @buf.apply.b.master.staged.0[0] : tensor<1024xf32>>, #sched.view<read @buf.apply.sgd.grad.staged.0[0] : tensor<1024xf32>>, #sched.view<update @buf.apply.b.m.staged.0[0] : tensor<1024xf32>>
// Elements without decay are counted from the part's first.
// CHECK-SAME: ints [0, 2560, 100, 200, 1000, 2000]
// CHECK-SAME: skip <read @buf.apply.host.s[0] : tensor<f32>>
// CHECK: sched.task copy "sgd.to_device[0]" on h2d after(%[[A0]])
// CHECK: %[[W0:.+]] = sched.task copy "b.master.write[0]" on disk after(%[[A0]])
// CHECK-SAME: skip <read @buf.apply.host.s[0] : tensor<f32>>
// CHECK: sched.task copy "b.m.write[0]" on disk
// CHECK: sched.task copy "b.master.read[2]" on disk
// CHECK-SAME: #sched.view<read @buf.b.master[8192] : tensor<1024xf32>>
// CHECK: sched.task sgd "sgd[1]" on host
// CHECK-SAME: ints [0, 2560, 0, 976]
// CHECK: sched.task sgd "sgd[2]" on host
// CHECK-SAME: ints [0, 2560] reals
// CHECK-NOT: .read[
// The last part of the gradient and of the rounded parameter is no whole block.
// CHECK: sched.buffer @buf.apply.b.master.staged.2 4096 bytes in host of @apply
// CHECK: sched.buffer @buf.apply.sgd.grad.staged.2 2048 bytes in host of @apply
// CHECK: sched.buffer @buf.apply.sgd.half.staged.2 1024 bytes in host of @apply

// With one buffer a part is read when the one before is written.
// ONE-LABEL: sched.program @apply {
// ONE: "b.m.write[0]"
// ONE: "b.master.read[1]"
comm.bucket @b over <"dp" = 2> elements 5120 chunk 2560 trainable
train.state parameter @b.param of @b sharded : tensor<2560xbf16> init #train.constant<0.0>
train.state master @b.master of @b sharded : tensor<2560xf32> init #train.constant<0.0> space nvme
train.state moment @b.m of @b slot "m" sharded : tensor<2560xf32> init #train.constant<0.0> space nvme
train.state scalar @g : tensor<2560xf32> init #train.constant<0.0>
train.state scalar @s : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %p = train.read @b.master : tensor<2560xf32>
  %g = train.read @g : tensor<2560xf32>
  %m = train.read @b.m : tensor<2560xf32>
  %s = train.read @s : tensor<f32>
  %gh = comm.transfer %g to host : tensor<2560xf32>
  %ph = comm.transfer %p to host : tensor<2560xf32>
  %mh = comm.transfer %m to host : tensor<2560xf32>
  %a:2 = train.sgd %ph, %gh, %mh lr %s coef %s skip %s {momentum = 0.9, decay = 0.1, undecayed = array<i64: 100, 200, 1000, 2000>}
    : (tensor<2560xf32>, tensor<2560xf32>, tensor<2560xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<2560xf32>, tensor<2560xf32>)
  %half = arith.truncf %a#0 : tensor<2560xf32> to tensor<2560xbf16>
  %new = comm.transfer %half to device : tensor<2560xbf16>
  %kept = comm.transfer %a#0 to nvme : tensor<2560xf32>
  %mkept = comm.transfer %a#1 to nvme : tensor<2560xf32>
  train.write %kept, @b.master : tensor<2560xf32>
  train.write %mkept, @b.m : tensor<2560xf32>
  train.write %new, @b.param : tensor<2560xbf16>
  return
}
