// Buffers share bytes only where the order of tasks allows it.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-sched-allocate-buffers --ciuic-verify-allocated | FileCheck %s

// States, inputs and constants come first, each for itself, at multiples of 256
// bytes. The host has an arena of its own.
// CHECK: module attributes {sched.arena.device = 1024 : i64, sched.arena.host = 512 : i64}
// CHECK: sched.buffer @w 300 bytes in device state @w at 0
// CHECK: sched.buffer @tokens 64 bytes in device at 512
// CHECK: sched.buffer @one 4 bytes in device constant 1.000000e+00 at 768
// CHECK: sched.buffer @master 300 bytes in host state @master at 0
sched.buffer @w 300 bytes in device state @w
sched.buffer @tokens 64 bytes in device
sched.buffer @one 4 bytes in device constant 1.0
sched.buffer @master 300 bytes in host state @master

// -----

// On one stream the third buffer takes the first one's bytes.
// CHECK: module attributes {sched.arena.device = 512 : i64
// CHECK: sched.buffer @a 256 bytes in device of @p at 0
// CHECK: sched.buffer @b 256 bytes in device of @p at 256
// CHECK: sched.buffer @c 256 bytes in device of @p at 0
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 256 bytes in device of @p
sched.buffer @c 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task copy "b" on compute [#sched.view<read @a [0] : tensor<64xf32>>, #sched.view<write @b [0] : tensor<64xf32>>]
  %2 = sched.task copy "c" on compute [#sched.view<read @b [0] : tensor<64xf32>>, #sched.view<write @c [0] : tensor<64xf32>>]
}

// -----

// The same on two streams without an event: nothing may be shared.
// CHECK: module attributes {sched.arena.device = 512 : i64
// CHECK: sched.buffer @a 256 bytes in device of @p at 0
// CHECK: sched.buffer @b 256 bytes in device of @p at 256
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task zero "b" on reduce [#sched.view<write @b [0] : tensor<64xf32>>]
}

// -----

// With the event it may.
// CHECK: module attributes {sched.arena.device = 256 : i64
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task zero "b" on reduce after (%0) [#sched.view<write @b [0] : tensor<64xf32>>]
}

// -----

// Every task of the one comes before every task of the other: here @a is used
// once more, on its own stream, after @b may have started.
// CHECK: module attributes {sched.arena.device = 512 : i64
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 256 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task zero "b" on reduce after (%0) [#sched.view<write @b [0] : tensor<64xf32>>]
  %2 = sched.task zero "a again" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
}

// -----

// Programs never run at the same time, so theirs share bytes above the states.
// CHECK: module attributes {sched.arena.device = 768 : i64
// CHECK: sched.buffer @w 256 bytes in device state @w at 0
// CHECK: sched.buffer @a 256 bytes in device of @p at 256
// CHECK: sched.buffer @b 512 bytes in device of @q at 256
sched.buffer @w 256 bytes in device state @w
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 512 bytes in device of @q
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
}
sched.program @q {
  %0 = sched.task zero "b" on compute [#sched.view<write @b [0] : tensor<64xf32>>]
}

// -----

// No single order of size, first or last task is best for all: here the largest
// first would put @d on top, at 768 (1280 in all), but 1024 bytes will do.
// CHECK: module attributes {sched.arena.device = 1024 : i64
sched.buffer @a 256 bytes in device of @p
sched.buffer @b 512 bytes in device of @p
sched.buffer @c 512 bytes in device of @p
sched.buffer @d 512 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @a [0] : tensor<64xf32>>]
  %1 = sched.task copy "b" on compute [#sched.view<read @a [0] : tensor<64xf32>>, #sched.view<write @b [0] : tensor<64xf32>>]
  %2 = sched.task copy "c" on compute [#sched.view<read @a [0] : tensor<64xf32>>, #sched.view<write @c [0] : tensor<64xf32>>]
  %3 = sched.task copy "d" on compute [#sched.view<read @c [0] : tensor<64xf32>>, #sched.view<write @d [0] : tensor<64xf32>>]
}

// -----

// Largest first: two small ones fit side by side where the large one was.
// CHECK: module attributes {sched.arena.device = 1024 : i64
// CHECK: sched.buffer @small.0 512 bytes in device of @p at 0
// CHECK: sched.buffer @small.1 512 bytes in device of @p at 512
// CHECK: sched.buffer @large 1024 bytes in device of @p at 0
sched.buffer @small.0 512 bytes in device of @p
sched.buffer @small.1 512 bytes in device of @p
sched.buffer @large 1024 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "large" on compute [#sched.view<write @large [0] : tensor<64xf32>>]
  %1 = sched.task zero "small 0" on compute [#sched.view<write @small.0 [0] : tensor<64xf32>>]
  %2 = sched.task copy "small 1" on compute [#sched.view<read @small.0 [0] : tensor<64xf32>>, #sched.view<write @small.1 [0] : tensor<64xf32>>]
}

// -----

// A module of nothing needs no memory.
// CHECK: module attributes {sched.arena.device = 0 : i64, sched.arena.host = 0 : i64}
module {}

// -----

// Scratch takes its place like any buffer, and gives it back when its task is
// done.
// CHECK: module attributes {sched.arena.device = 768 : i64
// CHECK: sched.buffer @one 512 bytes in device of @p at 256
// CHECK: sched.buffer @two 512 bytes in device of @p at 256
sched.buffer @w 256 bytes in device state @w
sched.buffer @one 512 bytes in device of @p
sched.buffer @two 512 bytes in device of @p
sched.program @p {
  %0 = sched.task zero "a" on compute [#sched.view<write @w [0] : tensor<64xf32>>] scratch #sched.view<write @one [0] : tensor<128xi32>>
  %1 = sched.task zero "b" on compute [#sched.view<write @w [0] : tensor<64xf32>>] scratch #sched.view<write @two [0] : tensor<128xi32>>
}
