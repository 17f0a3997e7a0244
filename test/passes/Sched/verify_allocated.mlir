// The gate finds buffers that are not placed, lie outside of their arena, or
// share bytes while both may be live.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-verify-allocated --verify-diagnostics

module attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
  // expected-error @+1 {{has no offset}}
  sched.buffer @a 256 bytes in device
}

// -----

// The arena ends a byte too early.
module attributes {sched.arena.device = 511 : i64, sched.arena.host = 0 : i64} {
  // expected-error @+1 {{ends at byte 512 of the device arena, which has 511}}
  sched.buffer @a 256 bytes in device at 256
}

// -----

// There is no arena at all.
module {
  // expected-error @+1 {{ends at byte 256 of the host arena, which has 0}}
  sched.buffer @a 256 bytes in host at 0
}

// -----

// Two buffers of one program without an order.
module attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @a 512 bytes in device of @p at 0
  // expected-error @+1 {{at bytes [256, 512) overlaps @a at [0, 512), and both may be live at once}}
  sched.buffer @b 256 bytes in device of @p at 256
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
    %1 = sched.task zero "b" on host [#sched.view<write @b [0] : tensor<64xf32>>]
  }
}

// -----

// The same with one.
module attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  sched.buffer @a 512 bytes in device of @p at 0
  sched.buffer @b 256 bytes in device of @p at 256
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
    %1 = sched.task zero "b" on host after (%0) [#sched.view<write @b [0] : tensor<64xf32>>]
  }
}

// -----

// A state is live while any program runs.
module attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @w 512 bytes in device state @w at 0
  // expected-error @+1 {{overlaps @w at [0, 512), and both may be live at once}}
  sched.buffer @b 256 bytes in device of @p at 256
  sched.program @p {
    %0 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
  }
}

// -----

// Two states live all the time, whatever order a program has.
module attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @w 256 bytes in device state @w at 0
  // expected-error @+1 {{overlaps @w at [0, 256), and both may be live at once}}
  sched.buffer @v 256 bytes in device state @v at 0
  sched.program @p {
    %0 = sched.task zero "w" on compute [#sched.view<write @w [0] : tensor<64xf32>>]
    %1 = sched.task zero "v" on compute [#sched.view<write @v [0] : tensor<64xf32>>]
  }
}

// -----

// A constant may not be overwritten by what no task touches, either.
module attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @one 4 bytes in device constant 1.0 at 0
  // expected-error @+1 {{overlaps @one at [0, 4), and both may be live at once}}
  sched.buffer @tokens 64 bytes in device at 0
}

// -----

// Buffers of different programs share bytes.
module attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
  sched.buffer @a 256 bytes in device of @p at 0
  sched.buffer @b 256 bytes in device of @q at 0
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  }
  sched.program @q {
    %0 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
  }
}

// -----

// So do the arenas' own offsets.
module attributes {sched.arena.device = 256 : i64, sched.arena.host = 256 : i64} {
  sched.buffer @a 256 bytes in device at 0
  sched.buffer @b 256 bytes in host at 0
}

// -----

// Scratch that lies in what its own task works on.
module attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @w 512 bytes in device of @p at 0
  // expected-error @+1 {{at bytes [256, 512) overlaps @w at [0, 512), and both may be live at once}}
  sched.buffer @scratch 256 bytes in device of @p at 256
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @w [0] : tensor<128xf32>>] scratch #sched.view<write @scratch [0] : tensor<64xi32>>
  }
}

// -----

// A buffer that no task touches may lie under others of its program, but not
// under a state.
module attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @w 256 bytes in device state @w at 0
  sched.buffer @a 256 bytes in device of @p at 256
  sched.buffer @unused 256 bytes in device of @p at 256
  // expected-error @+1 {{overlaps @w at [0, 256), and both may be live at once}}
  sched.buffer @unused.2 256 bytes in device of @p at 0
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  }
}

// -----

// Bytes that pass from one buffer to the next, part by part.
module attributes {sched.arena.device = 768 : i64, sched.arena.host = 0 : i64} {
  sched.buffer @a 768 bytes in device of @p at 0
  sched.buffer @b 256 bytes in device of @p at 256
  sched.buffer @c 512 bytes in device of @p at 256
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<192xf32>>]
    %1 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
    %2 = sched.task zero "c" on host after (%1) [#sched.view<write @c [0] : tensor<128xf32>>]
  }
}

// -----

// What lies behind bytes that others got is still the first one's.
module attributes {sched.arena.device = 768 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @a 768 bytes in device of @p at 0
  sched.buffer @b 256 bytes in device of @p at 256
  // expected-error @+1 {{at bytes [512, 768) overlaps @a at [0, 768), and both may be live at once}}
  sched.buffer @c 256 bytes in device of @p at 512
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<192xf32>>]
    %1 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
    %2 = sched.task zero "c" on host [#sched.view<write @c [0] : tensor<64xf32>>]
  }
}

// -----

// So is what lies in front of them.
module attributes {sched.arena.device = 768 : i64, sched.arena.host = 0 : i64} {
  // expected-note @+1 {{the other buffer is here}}
  sched.buffer @a 768 bytes in device of @p at 0
  sched.buffer @b 256 bytes in device of @p at 256
  // expected-error @+1 {{at bytes [0, 256) overlaps @a at [0, 768), and both may be live at once}}
  sched.buffer @c 256 bytes in device of @p at 0
  sched.program @p {
    %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<192xf32>>]
    %1 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
    %2 = sched.task zero "c" on host [#sched.view<write @c [0] : tensor<64xf32>>]
  }
}
