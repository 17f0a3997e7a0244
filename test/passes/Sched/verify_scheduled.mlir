// The gate finds what nothing orders, and names both tasks.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-verify-scheduled --verify-diagnostics

// A use that does not wait for its gather.
sched.buffer @s 512 bytes in device
sched.buffer @w 512 bytes in device
sched.program @missing {
  // expected-note @+1 {{the other task is here}}
  %0 = sched.task all_gather "layers.0.fwd" on gather [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @w [0] : tensor<128xf32>>]
  // expected-error @+1 {{"q_proj" on compute touches bytes of "w" that "layers.0.fwd" on gather touches too, and nothing orders them}}
  %1 = sched.task square_sum "q_proj" on compute [#sched.view<read @w [0] : tensor<128xf32>>, #sched.view<write @s [256] : tensor<f64>>]
}

// -----

// Waiting for the wrong task is not enough.
sched.buffer @s 512 bytes in device
sched.program @wrong {
  %0 = sched.task zero "early" on gather [#sched.view<write @s [256] : tensor<64xf32>>]
  // expected-note @+1 {{the other task is here}}
  %1 = sched.task zero "late" on gather [#sched.view<write @s [0] : tensor<64xf32>>]
  // expected-error @+1 {{"use" on compute touches bytes of "s" that "late" on gather touches too}}
  %2 = sched.task zero "use" on compute after (%0) [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// Waiting for a later one of that stream is.
sched.buffer @s 512 bytes in device
sched.program @later {
  %0 = sched.task zero "early" on gather [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "late" on gather [#sched.view<write @s [256] : tensor<64xf32>>]
  %2 = sched.task zero "use" on compute after (%1) [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// So is waiting for one that waited.
sched.buffer @s 512 bytes in device
sched.buffer @t 512 bytes in device
sched.program @through_another {
  %0 = sched.task zero "first" on gather [#sched.view<write @s [0] : tensor<64xf32>>]
  %1 = sched.task zero "between" on reduce after (%0) [#sched.view<write @t [0] : tensor<64xf32>>]
  %2 = sched.task zero "last" on compute after (%1) [#sched.view<write @s [0] : tensor<64xf32>>]
}

// -----

// Two readers need no order.
sched.buffer @s 512 bytes in device
sched.buffer @t 512 bytes in device
sched.program @readers {
  %0 = sched.task copy "one" on gather [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @t [0] : tensor<64xf32>>]
  %1 = sched.task copy "other" on compute [#sched.view<read @s [0] : tensor<64xf32>>, #sched.view<write @t [256] : tensor<64xf32>>]
}

// -----

// A skip that is written at the same time.
sched.buffer @s 512 bytes in device
sched.buffer @flag 4 bytes in device
sched.program @skip {
  // expected-note @+1 {{the other task is here}}
  %0 = sched.task zero "flag" on compute [#sched.view<write @flag [0] : tensor<f32>>]
  // expected-error @+1 {{"update" on reduce touches bytes of "flag" that "flag" on compute touches too}}
  %1 = sched.task zero "update" on reduce [#sched.view<write @s [0] : tensor<64xf32>>] skip #sched.view<read @flag [0] : tensor<f32>>
}

// -----

// Chunks of different ranks: rank 1 writes what rank 0's task reads whole.
module attributes {sched.ranks = 2 : i64} {
sched.buffer @s 512 bytes in device
sched.buffer @t 8 bytes in device
sched.program @ranks {
  // expected-note @+1 {{the other task is here}}
  %0 = sched.task zero "own" on compute [#sched.view<write @s [0 + rank * 256] : tensor<64xf32>>]
  // expected-error @+1 {{"norm" on reduce touches bytes of "s" that "own" on compute touches too}}
  %1 = sched.task square_sum "norm" on reduce [#sched.view<read @s [256] : tensor<64xf32>>, #sched.view<write @t [0] : tensor<f64>>]
}
}

// -----

// Two tasks may not work in the same scratch at the same time.
sched.buffer @s 512 bytes in device
sched.buffer @t 512 bytes in device of @scratch
sched.program @scratch {
  // expected-note @+1 {{the other task is here}}
  %0 = sched.task zero "one" on compute [#sched.view<write @s [0] : tensor<64xf32>>] scratch #sched.view<write @t [0] : tensor<64xi32>>
  // expected-error @+1 {{"other" on reduce touches bytes of "t" that "one" on compute touches too}}
  %1 = sched.task zero "other" on reduce [#sched.view<write @s [256] : tensor<64xf32>>] scratch #sched.view<write @t [128] : tensor<64xi32>>
}

// -----

// Copies go between the two memories, each one way.
sched.buffer @d 512 bytes in device
sched.buffer @h 512 bytes in host
sched.program @crosses {
  %0 = sched.task copy "down" on d2h [#sched.view<read @d [0] : tensor<64xf32>>, #sched.view<write @h [0] : tensor<64xf32>>]
  %1 = sched.task copy "up" on h2d [#sched.view<read @h [256] : tensor<64xf32>>, #sched.view<write @d [256] : tensor<64xf32>>] skip #sched.view<read @d [0] : tensor<f32>>
}

// -----

// A host task cannot read the device's memory.
sched.buffer @d 512 bytes in device
sched.buffer @h 512 bytes in host
sched.program @host_reads {
  // expected-error @+1 {{"norm" on host views @d in device memory, expected host}}
  %0 = sched.task square_sum "norm" on host [#sched.view<read @d [0] : tensor<64xf32>>, #sched.view<write @h [0] : tensor<f64>>]
}

// -----

// Not even whether to run.
sched.buffer @d 512 bytes in device
sched.buffer @h 512 bytes in host
sched.program @host_skips {
  // expected-error @+1 {{"z" on host views @d in device memory, expected host}}
  %0 = sched.task zero "z" on host [#sched.view<write @h [0] : tensor<64xf32>>] skip #sched.view<read @d [0] : tensor<f32>>
}

// -----

// A device task cannot write the host's.
sched.buffer @h 512 bytes in host
sched.program @device_writes {
  // expected-error @+1 {{"z" on compute views @h in host memory, expected device}}
  %0 = sched.task zero "z" on compute [#sched.view<write @h [0] : tensor<64xf32>>]
}

// -----

// Nor use it as scratch.
sched.buffer @d 512 bytes in device
sched.buffer @h 512 bytes in host of @device_scratch
sched.program @device_scratch {
  // expected-error @+1 {{"z" on compute views @h in host memory, expected device}}
  %0 = sched.task zero "z" on compute [#sched.view<write @d [0] : tensor<64xf32>>] scratch #sched.view<write @h [0] : tensor<64xi32>>
}

// -----

// A copy to the host does not start there.
sched.buffer @h 512 bytes in host
sched.program @wrong_way {
  // expected-error @+1 {{"down" on d2h views @h in host memory, expected device}}
  %0 = sched.task copy "down" on d2h [#sched.view<read @h [0] : tensor<64xf32>>, #sched.view<write @h [256] : tensor<64xf32>>]
}

// -----

// What copies between the memories does nothing else.
sched.buffer @d 512 bytes in device
sched.program @no_copy {
  // expected-error @+1 {{"z" of kind zero is on h2d, which only copies}}
  %0 = sched.task zero "z" on h2d [#sched.view<write @d [0] : tensor<64xf32>>]
}
