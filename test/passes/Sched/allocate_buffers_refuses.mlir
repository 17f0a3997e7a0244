// A job that is too large is refused with what it needs, what there is, where it
// needs most, and who holds that.
//
// RUN: not ciuic-opt %s --ciuic-sched-allocate-buffers=device-limit=1023 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: ciuic-opt %s --ciuic-sched-allocate-buffers=device-limit=1024 | FileCheck %s --check-prefix=FITS
// RUN: not ciuic-opt %s --ciuic-sched-allocate-buffers=host-limit=3999999999 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: ciuic-opt %s --ciuic-sched-allocate-buffers=host-limit=4000000000 | FileCheck %s --check-prefix=FITS
// RUN: not ciuic-opt %s --ciuic-sched-allocate-buffers=shared-limit=4000002047 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: ciuic-opt %s --ciuic-sched-allocate-buffers=shared-limit=4000002048 | FileCheck %s --check-prefix=FITS

// The last byte counts. Holders come largest first; @late is not held at the
// peak and not named.
// DEVICE: error: {{.*}}does not fit: needs 1024 bytes on each device at "b", has 1023 bytes
// DEVICE: note: {{.*}}exactly 1024 bytes, of which there are 1023; most at the task "b" of p
// DEVICE: note: {{.*}}512 bytes for w, all the time
// DEVICE: note: {{.*}}256 bytes for b
// DEVICE: note: {{.*}}256 bytes for a
// DEVICE-NOT: late

// The host's memory is that of all ranks.
// HOST: error: {{.*}}does not fit: needs 4000000000 bytes of host memory, has 3999999999 bytes
// HOST: note: {{.*}}2.0 GB for master, all the time, for each rank

// Where devices have no memory of their own, all arenas together count: twice
// 1024 and 2000000000 bytes.
// SHARED: error: {{.*}}does not fit: needs 4000002048 bytes of memory for all 2 ranks, devices and host together, at "b", has 4000002047 bytes
// SHARED: note: {{.*}}2.0 GB for master, all the time, for each rank
// SHARED: note: {{.*}}512 bytes for w, all the time, for each rank

// Of a whole host what processes hold beside their arenas counts too, and the
// part of a run in which that is most is told. Of two processes each has it.
// RUN: not ciuic-opt %s --ciuic-sched-allocate-buffers="host-limit=4300000000 whole-host processes=2 threads=4 process-bytes=100000000 thread-bytes=5000000" 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: ciuic-opt %s --ciuic-sched-allocate-buffers="host-limit=4310000000 whole-host processes=2 threads=4 process-bytes=100000000 thread-bytes=5000000" | FileCheck %s --check-prefix=FITS
// RUN: ciuic-opt %s --ciuic-sched-allocate-buffers="host-limit=4000000000 processes=2 threads=4 process-bytes=100000000 thread-bytes=5000000" | FileCheck %s --check-prefix=FITS
// WHOLE: error: {{.*}}does not fit: needs 4307121152 bytes of host memory at start, has 4300000000 bytes
// WHOLE: note: {{.*}}exactly 4307121152 bytes, of which there are 4300000000
// WHOLE: note: {{.*}}153560576 bytes of them beside the arenas of each of 2 processes: 100.0 MB for libraries and start-up, 20.0 MB for stacks and packed matrices, 6144 bytes for tasks, 33.6 MB for staging of values
// WHOLE: note: {{.*}}2.0 GB for master, all the time, for each rank
// RUN: not ciuic-opt %s --ciuic-sched-allocate-buffers="shared-limit=4000003000 whole-host process-bytes=100000000" 2>&1 | FileCheck %s --check-prefix=TOGETHER
// TOGETHER: error: {{.*}}does not fit: needs 4.1 GB of memory for all 2 ranks, devices and host together, at start, has 4.0 GB

// FITS: module attributes {sched.arena.device = 1024 : i64, sched.arena.host = 2000000000 : i64
module attributes {sched.ranks = 2 : i64} {
sched.buffer @buf.w 512 bytes in device state @w
sched.buffer @buf.master 2000000000 bytes in host state @master
sched.buffer @buf.a 256 bytes in device of @p
sched.buffer @b 256 bytes in device of @p
sched.buffer @buf.late 128 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @buf.a [0] : tensor<64xf32>>]
  %1 = sched.task copy "b" on compute [#sched.view<read @buf.a [0] : tensor<64xf32>>, #sched.view<write @b [0] : tensor<64xf32>>]
  %2 = sched.task zero "late" on compute [#sched.view<write @buf.late [0] : tensor<32xf32>>]
}
}
