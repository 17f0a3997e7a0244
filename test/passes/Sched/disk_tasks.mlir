// Files: what the gates ask of tasks on disk, and where buffers lie then.
//
// RUN: split-file %s %t
// RUN: ciuic-opt %t/good.mlir --ciuic-sched-order-tasks --ciuic-verify-scheduled --ciuic-sched-allocate-buffers=nvme-limit=24576 --ciuic-verify-allocated | FileCheck %t/good.mlir
// RUN: not ciuic-opt %t/good.mlir --ciuic-sched-order-tasks --ciuic-sched-allocate-buffers=nvme-limit=24575 2>&1 | FileCheck %t/good.mlir --check-prefix=REFUSE
// RUN: ciuic-opt %t/bad.mlir --split-input-file --ciuic-verify-scheduled --verify-diagnostics

//--- good.mlir
// Places in files and in host memory are multiples of the alignment; a device's
// are not. The third read waits until the first update, which is before it in
// program order, is done; so two parts are held at once.
// CHECK: module attributes {sched.arena.device = 512 : i64, sched.arena.host = 12288 : i64, sched.arena.nvme = 12288 : i64, sched.disk_alignment = 4096
// CHECK: sched.buffer @kept 12288 bytes in nvme state @s at 0
// CHECK: sched.buffer @skip 4 bytes in host state @k at 0
// CHECK: sched.buffer @part.0 4096 bytes in host of @p at [[A:[0-9]+]]
// CHECK: sched.buffer @part.1 4096 bytes in host of @p at
// CHECK: sched.buffer @part.2 4096 bytes in host of @p at [[A]]
// CHECK: sched.task copy "read 0" on disk [
// CHECK: sched.task copy "read 1" on disk [
// CHECK: %[[U:.+]] = sched.task square_sum "use 0" on host
// CHECK: sched.task copy "read 2" on disk after(%[[U]])

// All ranks' files count.
// REFUSE: does not fit: needs 24576 bytes of NVMe, has 24575 bytes
// REFUSE: 12288 bytes for kept, all the time, for each rank
module attributes {sched.ranks = 2 : i64, sched.disk_alignment = 4096 : i64} {
sched.buffer @kept 12288 bytes in nvme state @s
sched.buffer @skip 4 bytes in host state @k
sched.buffer @x 4 bytes in device state @x
sched.buffer @y 4 bytes in device state @y
sched.buffer @part.0 4096 bytes in host of @p
sched.buffer @part.1 4096 bytes in host of @p
sched.buffer @part.2 4096 bytes in host of @p
sched.program @p {
  %r0 = sched.task copy "read 0" on disk [#sched.view<read @kept [0] : tensor<1024xf32>>, #sched.view<write @part.0 [0] : tensor<1024xf32>>]
  %r1 = sched.task copy "read 1" on disk [#sched.view<read @kept [4096] : tensor<1024xf32>>, #sched.view<write @part.1 [0] : tensor<1024xf32>>]
  %u0 = sched.task square_sum "use 0" on host [#sched.view<read @part.0 [0] : tensor<1024xf32>>, #sched.view<write @part.0 [0] : tensor<f64>>]
  %r2 = sched.task copy "read 2" on disk [#sched.view<read @kept [8192] : tensor<1024xf32>>, #sched.view<write @part.2 [0] : tensor<1024xf32>>]
  %u1 = sched.task square_sum "use 1" on host [#sched.view<read @part.1 [0] : tensor<1024xf32>>, #sched.view<write @part.1 [0] : tensor<f64>>]
  %u2 = sched.task square_sum "use 2" on host [#sched.view<read @part.2 [0] : tensor<1024xf32>>, #sched.view<write @part.2 [0] : tensor<f64>>]
}
}

//--- bad.mlir
// Nothing but copies.
sched.buffer @kept 4096 bytes in nvme state @s
sched.program @p {
  // expected-error @+1 {{"z" of kind zero is on disk, which only copies}}
  %0 = sched.task zero "z" on disk [#sched.view<write @kept [0] : tensor<1024xf32>>]
}

// -----

// Between a file and host memory.
sched.buffer @kept 8192 bytes in nvme state @s
sched.program @p {
  // expected-error @+1 {{"c" on disk has 2 views of nvme memory, expected 1 and 1 of host memory}}
  %0 = sched.task copy "c" on disk [#sched.view<read @kept [0] : tensor<1024xf32>>, #sched.view<write @kept [4096] : tensor<1024xf32>>]
}

// -----

// No device's.
sched.buffer @kept 4096 bytes in nvme state @s
sched.buffer @x 4096 bytes in device state @x
sched.program @p {
  // expected-error @+1 {{"c" on disk views @x in device memory, expected host or nvme}}
  %0 = sched.task copy "c" on disk [#sched.view<read @kept [0] : tensor<1024xf32>>, #sched.view<write @x [0] : tensor<1024xf32>>]
}

// -----

// As they are.
sched.buffer @kept 4096 bytes in nvme state @s
sched.buffer @x 4096 bytes in host state @x
sched.program @p {
  // expected-error @+1 {{"c" on disk copies 'tensor<1024xf32>' to 'tensor<1024xf16>', expected one type}}
  %0 = sched.task copy "c" on disk [#sched.view<read @kept [0] : tensor<1024xf32>>, #sched.view<write @x [0] : tensor<1024xf16>>]
}

// -----

// In whole blocks.
module attributes {sched.disk_alignment = 4096 : i64} {
sched.buffer @kept 8192 bytes in nvme state @s
sched.buffer @x 4096 bytes in host state @x
sched.program @p {
  // expected-error @+1 {{"c" on disk views 4096 bytes at 2048 of @kept, expected multiples of 4096 that are the same for all ranks}}
  %0 = sched.task copy "c" on disk [#sched.view<read @kept [2048] : tensor<1024xf32>>, #sched.view<write @x [0] : tensor<1024xf32>>]
}
}

// -----

// Other tasks touch no file.
sched.buffer @kept 4096 bytes in nvme state @s
sched.program @p {
  // expected-error @+1 {{"z" on host views @kept in nvme memory, expected host}}
  %0 = sched.task zero "z" on host [#sched.view<write @kept [0] : tensor<1024xf32>>]
}
