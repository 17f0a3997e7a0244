// Where gradients are computed to.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched | FileCheck %s

// A pack that is reduced: its members are computed where they go, what lies
// between them and after them is zeroed. 64 elements at 0, 8 at 128, of 256.
// CHECK-LABEL: sched.program @micro_first {
// CHECK: sched.task gemm "matmul.dweight" {{.*}}#sched.view<write @buf.micro_first.pack[0] : tensor<8x8xf32>>] ints [1, 0, 0]
// CHECK: sched.task column_sum {{.*}}#sched.view<write @buf.micro_first.pack[512] : tensor<8xf32>>]
// CHECK-NOT: copy
// CHECK: sched.task zero "pack.padding" on compute [#sched.view<write @buf.micro_first.pack[256] : tensor<64xf32>>]
// CHECK: sched.task zero "pack.padding" on compute [#sched.view<write @buf.micro_first.pack[544] : tensor<120xf32>>]
// CHECK: sched.task reduce_scatter "b.grad" on reduce [#sched.view<read @buf.micro_first.pack[0] : tensor<256xf32>>, #sched.view<write @buf.micro_first.reduced.b.grad[0] : tensor<128xf32>>] ints [1]
// CHECK: sched.task accumulate {{.*}}#sched.view<write @buf.b.grad[0] : tensor<128xf32>>] ints [0]
// CHECK-LABEL: sched.program @micro_next {
// CHECK: sched.task gemm "matmul.dweight" {{.*}}#sched.view<write @buf.micro_next.pack[0] : tensor<8x8xf32>>] ints [1, 0, 0]
// CHECK: sched.task accumulate {{.*}}#sched.view<update @buf.b.grad[0] : tensor<128xf32>>] ints [1]
comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
train.state gradient @b.grad of @b sharded : tensor<128xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %db = train.column_sum %x : (tensor<4x8xf32>) -> tensor<8xf32>
  %pack = comm.pack %dw, %db at [0, 128] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<256xf32>
  %mean = comm.reduce_scatter mean %pack over <"dp" = 2> for "b.grad" : tensor<256xf32> -> tensor<128xf32>
  train.accumulate %mean, @b.grad : tensor<128xf32>
  return
}

// -----

// A pack that is added to an f32 accumulator of its layout is not made at all:
// products write there, then add to it; what cannot add goes through a buffer.
// CHECK-LABEL: sched.program @micro_first {
// CHECK-NEXT: sched.task gemm "matmul.dweight" {{.*}}#sched.view<write @buf.b.grad[0] : tensor<8x8xf32>>] ints [1, 0, 0]
// CHECK-NEXT: sched.task column_sum {{.*}}#sched.view<write @buf.b.grad[512] : tensor<8xf32>>]
// CHECK-NEXT: }
// CHECK-LABEL: sched.program @micro_next {
// CHECK-NEXT: sched.task gemm "matmul.dweight" {{.*}}#sched.view<update @buf.b.grad[0] : tensor<8x8xf32>>] ints [1, 0, 1]
// CHECK-NEXT: sched.task column_sum {{.*}}#sched.view<write @buf.micro_next.column_sum.dbias[0] : tensor<8xf32>>]
// CHECK-NEXT: sched.task accumulate "pack" {{.*}}#sched.view<update @buf.b.grad[512] : tensor<8xf32>>] ints [1]
// CHECK-NEXT: }
comm.bucket @b over <"dp" = 1> elements 256 chunk 256 trainable
train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %db = train.column_sum %x : (tensor<4x8xf32>) -> tensor<8xf32>
  %pack = comm.pack %dw, %db at [0, 128] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<256xf32>
  train.accumulate %pack, @b.grad : tensor<256xf32>
  return
}

// -----

// A product that something else reads as well is not added up in place: there
// would be no place that holds it alone.
// CHECK-LABEL: sched.program @micro_next {
// CHECK-NEXT: sched.task gemm "matmul.dweight" {{.*}}#sched.view<write @buf.micro_next.matmul.dweight[0] : tensor<8x8xf32>>] ints [1, 0, 0]
// CHECK-NEXT: sched.task accumulate "pack" {{.*}}#sched.view<update @buf.b.grad[0] : tensor<8x8xf32>>] ints [1]
// CHECK-NEXT: sched.task accumulate {{.*}}[#sched.view<read @buf.micro_next.matmul.dweight[0] : tensor<8x8xf32>>, #sched.view<update @buf.other[0] : tensor<8x8xf32>>] ints [1]
comm.bucket @b over <"dp" = 1> elements 256 chunk 256 trainable
train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
train.state metric @other : tensor<8x8xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %pack = comm.pack %dw at [0] : (tensor<8x8xf32>) -> tensor<256xf32>
  train.accumulate %pack, @b.grad : tensor<256xf32>
  train.accumulate %dw, @other : tensor<8x8xf32>
  return
}

// -----

// Twice in one pack: the second place is added to by a task of its own.
// CHECK-LABEL: sched.program @micro_next {
// CHECK-NEXT: sched.task gemm {{.*}}#sched.view<write @buf.micro_next.matmul.dweight[0] : tensor<8x8xf32>>] ints [1, 0, 0]
// CHECK-NEXT: sched.task accumulate "pack" {{.*}}#sched.view<update @buf.b.grad[0] : tensor<8x8xf32>>] ints [1]
// CHECK-NEXT: sched.task accumulate "pack" {{.*}}#sched.view<update @buf.b.grad[512] : tensor<8x8xf32>>] ints [1]
comm.bucket @b over <"dp" = 1> elements 256 chunk 256 trainable
train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %pack = comm.pack %dw, %dw at [0, 128] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<256xf32>
  train.accumulate %pack, @b.grad : tensor<256xf32>
  return
}

// -----

// In two packs: the second one copies.
// CHECK-LABEL: sched.program @micro_first {
// CHECK-NEXT: sched.task gemm {{.*}}#sched.view<write @buf.micro_first.pack[0] : tensor<8x8xf32>>]
// CHECK: sched.task copy "pack" on compute [#sched.view<read @buf.micro_first.pack[0] : tensor<8x8xf32>>, #sched.view<write @buf.micro_first.pack.2[0] : tensor<8x8xf32>>]
comm.bucket @b over <"dp" = 2> elements 256 chunk 128 trainable
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
train.state metric @one : tensor<256xf32> init #train.constant<0.0>
train.state metric @two : tensor<256xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %a = comm.pack %dw at [0] : (tensor<8x8xf32>) -> tensor<256xf32>
  %b = comm.pack %dw at [0] : (tensor<8x8xf32>) -> tensor<256xf32>
  %ra = comm.all_reduce sum %a over <"dp" = 2> for "a" : tensor<256xf32>
  %rb = comm.all_reduce sum %b over <"dp" = 2> for "b" : tensor<256xf32>
  train.accumulate %ra, @one : tensor<256xf32>
  train.accumulate %rb, @two : tensor<256xf32>
  return
}

// -----

// A state that is added to twice is started by the first one alone, and no pack
// is computed straight into it.
// CHECK-LABEL: sched.program @micro_first {
// CHECK: sched.task accumulate {{.*}}#sched.view<write @buf.b.grad[0] : tensor<256xf32>>] ints [0]
// CHECK: sched.task accumulate {{.*}}#sched.view<update @buf.b.grad[0] : tensor<256xf32>>] ints [1]
comm.bucket @b over <"dp" = 1> elements 256 chunk 256 trainable
train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xf32> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xf32>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %pack = comm.pack %dw at [0] : (tensor<8x8xf32>) -> tensor<256xf32>
  %db = train.column_sum %x : (tensor<4x8xf32>) -> tensor<8xf32>
  %more = comm.pack %db at [128] : (tensor<8xf32>) -> tensor<256xf32>
  train.accumulate %pack, @b.grad : tensor<256xf32>
  train.accumulate %more, @b.grad : tensor<256xf32>
  return
}

// -----

// 16-bit gradients are packed in 16 bits and added up in f32.
// CHECK-LABEL: sched.program @micro_first {
// CHECK-LABEL: sched.program @micro_next {
// CHECK-NEXT: sched.task gemm {{.*}}#sched.view<write @buf.micro_next.pack[0] : tensor<8x8xbf16>>] ints [1, 0, 0]
// CHECK-NEXT: sched.task zero "pack.padding" on compute [#sched.view<write @buf.micro_next.pack[128] : tensor<192xbf16>>]
// CHECK-NEXT: sched.task accumulate {{.*}}[#sched.view<read @buf.micro_next.pack[0] : tensor<256xbf16>>, #sched.view<update @buf.b.grad[0] : tensor<256xf32>>] ints [1]
comm.bucket @b over <"dp" = 1> elements 256 chunk 256 trainable
train.state gradient @b.grad of @b : tensor<256xf32> init #train.constant<0.0>
train.state scalar @x : tensor<4x8xbf16> init #train.constant<0.0>
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  %x = train.read @x : tensor<4x8xbf16>
  %dw = train.matmul %x transposed, %x : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %pack = comm.pack %dw at [0] : (tensor<8x8xbf16>) -> tensor<256xbf16>
  train.accumulate %pack, @b.grad : tensor<256xbf16>
  return
}
