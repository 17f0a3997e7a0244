// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) of view: no offset is negative.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b starts at -4 + rank * 0, expected no negative offset}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [-4] : tensor<4xf32>>]
}

// -----

// (C1) of view: nor does rank move it backwards.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b starts at 4 + rank * -4, expected no negative offset}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [4 + rank * -4] : tensor<4xf32>>]
}

// -----

// (C2) of view: shapes are known.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b has type 'tensor<?xf32>', expected a static shape of at most 2 dimensions}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<?xf32>>]
}

// -----

// (C2) of view: at most rows and columns.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b has type 'tensor<2x2x2xf32>', expected a static shape of at most 2 dimensions}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<2x2x2xf32>>]
}

// -----

// (C2) of view: truth values have no bytes of their own.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b has elements of 'i1', expected numbers of whole bytes}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<8xi1>>]
}

// -----

// (C2) of view: an index has no size.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{view of @b has elements of 'index', expected numbers of whole bytes}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<8xindex>>]
}

// -----

// (C2) of view: a size beyond 64 bits does not wrap around to a small one.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{expected at most 2^48 bytes}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4611686018427387904x4xf32>>]
}

// -----

// (C1) of task: a view ends inside of its buffer.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{"z" views 32 bytes at 36 of @b, which has 64}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [36] : tensor<8xf32>>]
}

// -----

// (C1) of task: the whole buffer is inside.
sched.buffer @b 64 bytes in device
sched.program @p {
  %0 = sched.task zero "z" on compute [#sched.view<write @b [32] : tensor<8xf32>>]
}

// -----

// (C1) of task: on the last of 4 ranks, too.
module attributes {sched.ranks = 4 : i64} {
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{"z" views 16 bytes at 60 of @b, which has 64}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0 + rank * 20] : tensor<4xf32>>]
}
}

// -----

// (C1) of task: offsets beyond 64 bits do not wrap around.
module attributes {sched.ranks = 3 : i64} {
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{"z" views 16 bytes at 9223372036854775807 of @b, which has 64}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0 + rank * 9223372036854775807] : tensor<4xf32>>]
}
}

// -----

// (C1) of task: what is viewed is a buffer.
sched.program @p {
  // expected-error @+1 {{"z" views @nothing, which is no sched.buffer of this module}}
  %0 = sched.task zero "z" on compute [#sched.view<write @nothing [0] : tensor<4xf32>>]
}

// -----

// (C1) of task: so is its skip.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{"z" views 4 bytes at 64 of @b, which has 64}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] skip #sched.view<read @b [64] : tensor<f32>>
}

// -----

// (C2) of task: a launch names a kernel.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind launch names none; a launch names one, other kinds none}}
  %0 = sched.task launch "l" on compute [#sched.view<write @b [0] : tensor<4xf32>>] ints [4, 1]
}

// -----

// (C2) of task: other kinds do not.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind zero names a kernel; a launch names one, other kinds none}}
  %0 = sched.task zero "z" on compute kernel @k [#sched.view<write @b [0] : tensor<4xf32>>]
}

// -----

// (C2) of task: the kernel is one of this module.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{launches @b, which is no sched.kernel of this module}}
  %0 = sched.task launch "l" on compute kernel @b [#sched.view<write @b [0] : tensor<4xf32>>] ints [4, 1]
}

// -----

// (C2) of task: a view for each argument of the kernel.
sched.buffer @b 64 bytes in device
sched.kernel @k outputs 1 {
^bb0(%row: index, %in: memref<4xf32>, %out: memref<4xf32>):
}
sched.program @p {
  // expected-error @+1 {{gives 1 views to @k, which takes 2}}
  %0 = sched.task launch "l" on compute kernel @k [#sched.view<write @b [0] : tensor<4xf32>>] ints [4, 1]
}

// -----

// (C2) of task: of its shape.
sched.buffer @b 64 bytes in device
sched.kernel @k outputs 1 {
^bb0(%row: index, %out: memref<4xf32>):
}
sched.program @p {
  // expected-error @+1 {{gives 'tensor<2x2xf32>' to argument 1 of @k, which takes 'memref<4xf32>'}}
  %0 = sched.task launch "l" on compute kernel @k [#sched.view<write @b [0] : tensor<2x2xf32>>] ints [4, 1]
}

// -----

// (C2) of task: and of its element type.
sched.buffer @b 64 bytes in device
sched.kernel @k outputs 1 {
^bb0(%row: index, %out: memref<4xf32>):
}
sched.program @p {
  // expected-error @+1 {{gives 'tensor<4xbf16>' to argument 1 of @k, which takes 'memref<4xf32>'}}
  %0 = sched.task launch "l" on compute kernel @k [#sched.view<write @b [0] : tensor<4xbf16>>] ints [4, 1]
}

// -----

// (C3) of task: it waits for earlier tasks only.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{operand #0 does not dominate this use}}
  %0 = sched.task zero "z" on compute after (%1) [#sched.view<write @b [0] : tensor<4xf32>>]
  // expected-note @+1 {{operand defined here}}
  %1 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>]
}

// -----

// (C4) of task: no view is missing.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind all_gather has 1 views, 0 ints and 0 reals, expected 2, 0, and 0}}
  %0 = sched.task all_gather "g" on gather [#sched.view<read @b [0] : tensor<4xf32>>]
}

// -----

// (C4) of task: a product says what is transposed and added.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind gemm has 3 views, 0 ints and 0 reals, expected 3 or more, 3, and 0}}
  %0 = sched.task gemm "g" on compute [#sched.view<read @b [0] : tensor<2x2xf32>>, #sched.view<read @b [0] : tensor<2x2xf32>>, #sched.view<write @b [16] : tensor<2x2xf32>>]
}

// -----

// (C4) of task: products are of matrices.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{multiplies 'tensor<4xf32>', expected matrices}}
  %0 = sched.task gemm "g" on compute [#sched.view<read @b [0] : tensor<2x2xf32>>, #sched.view<read @b [0] : tensor<4xf32>>, #sched.view<write @b [16] : tensor<2x2xf32>>] ints [0, 0, 0]
}

// -----

// (C4) of task: ranges without decay come in pairs.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind sgd has 6 views, 3 ints and 2 reals, expected 6 or more, 2 and pairs, and 2}}
  %0 = sched.task sgd "s" on compute [#sched.view<update @b [0] : tensor<4xf32>>, #sched.view<read @b [16] : tensor<4xf32>>, #sched.view<update @b [32] : tensor<4xf32>>, #sched.view<read @b [48] : tensor<f32>>, #sched.view<read @b [48] : tensor<f32>>, #sched.view<read @b [48] : tensor<f32>>] ints [0, 0, 4] reals [0.9, 0.0]
}

// -----

// (C5) of task: another program's buffer may hold anything.
sched.buffer @b 64 bytes in device of @apply
sched.program @micro_first {
  // expected-error @+1 {{"z" of program @micro_first views @b, which belongs to program @apply}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>]
}

// -----

// A task is one of a program.
sched.buffer @b 64 bytes in device
// expected-error @+1 {{expects parent op 'sched.program'}}
%0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>]

// -----

// Only views stand among a task's views.
sched.program @p {
  // expected-error @+1 {{attribute 'views' failed to satisfy constraint: views}}
  %0 = sched.task zero "z" on compute [1 : i64]
}

// -----

// (C6) of task: scratch is inside of its buffer.
sched.buffer @b 64 bytes in device
sched.buffer @s 64 bytes in device of @p
sched.program @p {
  // expected-error @+1 {{"z" views 68 bytes at 0 of @s, which has 64}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] scratch #sched.view<write @s [0] : tensor<17xi32>>
}

// -----

// (C6) of task: scratch is nothing to read.
sched.buffer @b 64 bytes in device
sched.buffer @s 64 bytes in device of @p
sched.program @p {
  // expected-error @+1 {{"z" has the scratch @s, expected a written view of one dimension that is the same for all ranks}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] scratch #sched.view<read @s [0] : tensor<16xi32>>
}

// -----

// (C6) of task: nor a matrix.
sched.buffer @b 64 bytes in device
sched.buffer @s 64 bytes in device of @p
sched.program @p {
  // expected-error @+1 {{"z" has the scratch @s, expected a written view of one dimension}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] scratch #sched.view<write @s [0] : tensor<4x4xi32>>
}

// -----

// (C6) of task: it does not outlive the program.
sched.buffer @b 64 bytes in device
sched.buffer @s 64 bytes in device
sched.program @p {
  // expected-error @+1 {{"z" has the scratch @s, which belongs to no program}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] scratch #sched.view<write @s [0] : tensor<16xi32>>
}

// -----

// (C6) of task: and is nothing that it works on.
sched.buffer @s 64 bytes in device of @p
sched.program @p {
  // expected-error @+1 {{"z" has the scratch @s, which it also views}}
  %0 = sched.task zero "z" on compute [#sched.view<write @s [0] : tensor<4xf32>>] scratch #sched.view<write @s [32] : tensor<8xi32>>
}

// -----

// (C5) of task: scratch belongs to its program.
sched.buffer @b 64 bytes in device
sched.buffer @s 64 bytes in device of @q
sched.program @p {
  // expected-error @+1 {{"z" of program @p views @s, which belongs to program @q}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] scratch #sched.view<write @s [0] : tensor<16xi32>>
}

// -----

// (C4) of task: a loss with its gradient has no lse.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{of kind cross_entropy_with_grad has 5 views, 0 ints and 0 reals, expected 6, 0, and 0}}
  %0 = sched.task cross_entropy_with_grad "loss" on compute [#sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<f32>>, #sched.view<write @b [0] : tensor<f32>>]
}

// -----

// A use-group is a name.
sched.buffer @b 64 bytes in device
sched.program @p {
  // expected-error @+1 {{has "sched.use" = "", expected a use-group on a task}}
  %0 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>] {sched.use = ""}
}
