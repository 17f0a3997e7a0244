// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) of buffer: it holds something.
// expected-error @+1 {{has 0 bytes, expected 1 to 2^48}}
sched.buffer @b 0 bytes in device

// -----

// (C1) of buffer: no number of bytes is negative.
// expected-error @+1 {{has -8 bytes, expected 1 to 2^48}}
sched.buffer @b -8 bytes in device

// -----

// (C1) of buffer: sizes stay where sums do not overflow.
// expected-error @+1 {{has 281474976710657 bytes, expected 1 to 2^48}}
sched.buffer @b 281474976710657 bytes in device

// -----

// (C1) of buffer: the largest one is accepted.
sched.buffer @b 281474976710656 bytes in device

// -----

// (C1) of buffer: offsets are aligned.
// expected-error @+1 {{lies at 128, expected a multiple of 256 from 0 to 2^60}}
sched.buffer @b 64 bytes in device at 128

// -----

// (C1) of buffer: nor do offsets come near where sums overflow.
// expected-error @+1 {{lies at 9223372036854775552, expected a multiple of 256 from 0 to 2^60}}
sched.buffer @b 512 bytes in device at 9223372036854775552

// -----

// (C2) of buffer: a state outlives every program.
// expected-error @+1 {{belongs to state @w and to program @apply, expected one of them at most}}
sched.buffer @b 64 bytes in device state @w of @apply

// -----

// (C2) of buffer: a constant is no state.
// expected-error @+1 {{is a constant and belongs to @w, expected one of them at most}}
sched.buffer @b 4 bytes in device state @w constant 1.0

// -----

// (C2) of buffer: a constant is not reused either.
// expected-error @+1 {{is a constant and belongs to @apply, expected one of them at most}}
sched.buffer @b 4 bytes in device of @apply constant 1.0

// -----

// (C1) of kernel: it is told its row.
// expected-error @+1 {{takes no row; expected an index first}}
sched.kernel @k outputs 1 {
^bb0(%in: memref<4xf32>):
}

// -----

// (C1) of kernel: a body without a block has no row either.
// expected-error @+1 {{takes no row; expected an index first}}
sched.kernel @k outputs 1 {
}

// -----

// (C1) of kernel: scalars are memrefs, too.
// expected-error @+1 {{argument 1 has type 'f32', expected a dense memref of static shape}}
sched.kernel @k outputs 1 {
^bb0(%row: index, %x: f32):
}

// -----

// (C1) of kernel: shapes are part of its text.
// expected-error @+1 {{argument 1 has type 'memref<?xf32>', expected a dense memref of static shape}}
sched.kernel @k outputs 1 {
^bb0(%row: index, %x: memref<?xf32>):
}

// -----

// (C1) of kernel: layouts are not.
// expected-error @+1 {{expected a dense memref of static shape}}
sched.kernel @k outputs 1 {
^bb0(%row: index, %x: memref<4xf32, strided<[2]>>):
}

// -----

// A kernel without outputs does nothing.
// expected-error @+1 {{has 0 outputs among 1 memrefs, expected at least 1 and no more}}
sched.kernel @k outputs 0 {
^bb0(%row: index, %x: memref<4xf32>):
}

// -----

// There are no more outputs than memrefs.
// expected-error @+1 {{has 2 outputs among 1 memrefs, expected at least 1 and no more}}
sched.kernel @k outputs 2 {
^bb0(%row: index, %x: memref<4xf32>):
}

// -----

// (C2) of kernel: inputs are only read.
sched.kernel @k outputs 1 {
^bb0(%row: index, %in: memref<4xf32>, %out: memref<4xf32>):
  %x = memref.load %in[%row] : memref<4xf32>
  // expected-error @+1 {{stores to a memref that is not among the 1 outputs of kernel @k}}
  memref.store %x, %in[%row] : memref<4xf32>
}

// -----

// (C2) of kernel: also inside of loops, and to memory of its own.
sched.kernel @k outputs 1 {
^bb0(%row: index, %in: memref<4xf32>, %out: memref<4xf32>):
  %own = memref.alloca() : memref<4xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %j = %zero to %row step %one {
    %x = memref.load %in[%j] : memref<4xf32>
    // expected-error @+1 {{stores to a memref that is not among the 1 outputs of kernel @k}}
    memref.store %x, %own[%j] : memref<4xf32>
  }
}

// -----

// Ranks are at least one.
// expected-error @+1 {{has "sched.ranks" = 0 : i64, expected an i64 from 1 to 65536 on the module}}
module attributes {sched.ranks = 0 : i64} {}

// -----

// Ranks are a number.
// expected-error @+1 {{has "sched.ranks" = "two", expected an i64 from 1 to 65536 on the module}}
module attributes {sched.ranks = "two"} {}

// -----

// No arena has a negative size.
// expected-error @+1 {{has "sched.arena.device" = -1 : i64, expected an i64 from 0 to 9223372036854775807 on the module}}
module attributes {sched.arena.device = -1 : i64} {}

// -----

// Only a module has ranks.
// expected-error @+1 {{has "sched.ranks" = 2 : i64, expected an i64 from 1 to 65536 on the module}}
sched.program @p attributes {sched.ranks = 2 : i64} {
}
