// RUN: ciuic-opt %s --split-input-file --verify-diagnostics --ciuic-verify-emitted

// A kernel that is launched and can be printed, and a library call, are fine.

module @good attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  sched.buffer @buf.x 256 bytes in device at 0
  sched.buffer @buf.y 256 bytes in device at 256
  sched.kernel @negate outputs 1 {
  ^bb0(%row: index, %x: memref<64xf32>, %y: memref<64xf32>):
    %value = memref.load %x[%row] : memref<64xf32>
    %minus = arith.negf %value : f32
    memref.store %minus, %y[%row] : memref<64xf32>
  }
  sched.program @apply {
    %0 = sched.task launch "negate" on compute kernel @negate [#sched.view<read @buf.x[0] : tensor<64xf32>>, #sched.view<write @buf.y[0] : tensor<64xf32>>] ints [64, 64]
    %1 = sched.task zero "zero" on compute [#sched.view<write @buf.x[0] : tensor<64xf32>>]
  }
}

// -----

// An op without a form in C++ and CUDA ends here, before anything is written.

module @unprintable attributes {sched.arena.device = 512 : i64, sched.arena.host = 0 : i64} {
  sched.buffer @buf.x 256 bytes in device at 0
  sched.buffer @buf.y 256 bytes in device at 256
  sched.kernel @sine outputs 1 {
  ^bb0(%row: index, %x: memref<64xf32>, %y: memref<64xf32>):
    %value = memref.load %x[%row] : memref<64xf32>
    // expected-error @+1 {{has no form in a printed kernel}}
    %sine = math.sin %value : f32
    memref.store %sine, %y[%row] : memref<64xf32>
  }
  sched.program @apply {
    %0 = sched.task launch "sine" on compute kernel @sine [#sched.view<read @buf.x[0] : tensor<64xf32>>, #sched.view<write @buf.y[0] : tensor<64xf32>>] ints [64, 64]
  }
}

// -----

// What is not allocated has no tables.

// expected-error @+1 {{has no arenas; expected allocated IR}}
module @early {
}
