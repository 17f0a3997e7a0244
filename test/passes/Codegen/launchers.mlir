// Which function enqueues each device task of a bundle for CUDA, and where it is
// printed.
//
// RUN: rm -rf %t && mkdir %t && split-file %s %t/in
// RUN: ciuicc compile --model %t/in/job.mlir --start-from emit --devices 2 --micro-batch 1 --target cuda --no-build -o %t/job
// RUN: FileCheck %t/in/job.mlir < %t/job/src/program.cpp
// RUN: FileCheck %t/in/job.mlir --check-prefix=LIBRARY < %t/job/src/library.cu
// RUN: FileCheck %t/in/job.mlir --check-prefix=ATTENTION < %t/job/src/attention.cu
// RUN: FileCheck %t/in/job.mlir --check-prefix=DEVICE < %t/job/src/kernels.cu
// RUN: FileCheck %t/in/job.mlir --check-prefix=HOST < %t/job/src/kernels.cpp
// RUN: ciuic-opt %t/in/refused.mlir --split-input-file --verify-diagnostics --ciuic-verify-emitted

//--- job.mlir
// A library's launcher is one line; equal ones are one.
// LIBRARY: #include "runtime/kernels/cuda/Move.cuh"
// LIBRARY: using namespace ciuic::cuda;
// LIBRARY: /// First for first.
// LIBRARY-NEXT: extern "C" int launch_copy_f32_bf16(const ciuic::abi::CudaLaunch &task) {
// LIBRARY-NEXT: return launchCopy<float, bf16>(task);
// LIBRARY-NOT: launch_copy_f32_bf16
// LIBRARY: return launchSgd<void>(task);
// LIBRARY: return launchSgd<f16>(task);
// LIBRARY: return launchZero(task);
// Two ranks may share a device.
// LIBRARY: extern "C" int reduce_ranks(ciuic::abi::DType dtype,

// Attention is made for its head size, and for rows of whole vectors or not.
// ATTENTION: #include "runtime/kernels/cuda/Attention.cuh"
// ATTENTION: launch_attention_bf16_64(
// ATTENTION-NEXT: return launchAttentionForward<bf16, 64>(task);
// ATTENTION: launch_attention_bf16_64_unaligned(
// ATTENTION-NEXT: return launchAttentionForward<bf16, 64, false>(task);
// ATTENTION: launch_attention_f32_6_unaligned(
// ATTENTION-NEXT: return launchAttentionForward<float, 6, false>(task);

// A kernel is printed for what runs it.
// DEVICE-NOT: on_host
// DEVICE: extern "C" int launch_on_device(
// DEVICE-NOT: on_host
// DEVICE: extern "C" int launch_on_both(
// HOST-NOT: on_device
// HOST: extern "C" void on_both(
// HOST-NOT: on_device
// HOST: extern "C" void on_host(

// CHECK: extern "C" void on_both(int64_t, int64_t, void *const *);
// CHECK: extern "C" int launch_copy_f32_bf16(const CudaLaunch &);
// CHECK: extern "C" int reduce_ranks(DType, const void *const *, uint32_t,

// Collectives, products, copies between memories and tasks of the host have no
// launcher; of the kernels' tasks only the host's has a function of rows.
// CHECK: constexpr Task micro_first_tasks[] = {
// CHECK-NEXT: {TaskKind::Copy, {{.*}}, nullptr, launch_copy_f32_bf16, -1, "first", Phase::Forward}, // 0
// CHECK-NEXT: {TaskKind::Copy, {{.*}}, nullptr, launch_copy_f32_bf16, -1, "second", Phase::Forward}, // 1
// CHECK-NEXT: {TaskKind::Zero, {{.*}}, nullptr, launch_zero, 6, "clear", Phase::Forward}, // 2
// CHECK-NEXT: {TaskKind::Sgd, {{.*}}, nullptr, launch_sgd_f16, -1, "half", Phase::Forward}, // 3
// CHECK-NEXT: {TaskKind::Sgd, {{.*}}, nullptr, launch_sgd, -1, "whole", Phase::Forward}, // 4
// CHECK-NEXT: {TaskKind::AllReduce, {{.*}}, nullptr, nullptr, -1, "sum", Phase::Forward}, // 5
// CHECK-NEXT: {TaskKind::Gemm, {{.*}}, nullptr, nullptr, -1, "product", Phase::Forward}, // 6
// CHECK-NEXT: {TaskKind::AttentionForward, {{.*}}, nullptr, launch_attention_bf16_64, -1, "attention", Phase::Forward}, // 7
// CHECK-NEXT: {TaskKind::AttentionForward, {{.*}}, nullptr, launch_attention_bf16_64_unaligned, -1, "shifted", Phase::Forward}, // 8
// CHECK-NEXT: {TaskKind::AttentionForward, {{.*}}, nullptr, launch_attention_f32_6_unaligned, -1, "odd", Phase::Forward}, // 9
// CHECK-NEXT: {TaskKind::Copy, {{.*}}, nullptr, nullptr, -1, "down", Phase::Forward}, // 10
// CHECK-NEXT: {TaskKind::Copy, {{.*}}, nullptr, nullptr, -1, "move", Phase::Forward}, // 11
// CHECK-NEXT: {TaskKind::Launch, {{.*}}, nullptr, launch_on_device, -1, "a", Phase::Forward}, // 12
// CHECK-NEXT: {TaskKind::Launch, {{.*}}, nullptr, launch_on_both, -1, "b", Phase::Forward}, // 13
// CHECK-NEXT: {TaskKind::Launch, {{.*}}, on_both, nullptr, -1, "c", Phase::Forward}, // 14
// CHECK-NEXT: {TaskKind::Launch, {{.*}}, on_host, nullptr, -1, "d", Phase::Forward}, // 15
// CHECK: Target::Cuda, "sm_80", reduce_ranks,
module @job attributes {sched.target = "cuda", sched.architectures = "sm_80", sched.ranks = 2 : i64, sched.arena.device = 65792 : i64, sched.arena.host = 512 : i64} {
sched.buffer @buf.b 65536 bytes in device at 0
sched.buffer @buf.scratch 64 bytes in device of @micro_first at 65536
sched.buffer @buf.h 512 bytes in host at 0
sched.kernel @on_device outputs 1 {
^bb0(%row: index, %y: memref<4xf32>):
  %x = memref.load %y[%row] : memref<4xf32>
  memref.store %x, %y[%row] : memref<4xf32>
}
sched.kernel @on_both outputs 1 {
^bb0(%row: index, %y: memref<4xf32>):
  %x = memref.load %y[%row] : memref<4xf32>
  %n = arith.negf %x : f32
  memref.store %n, %y[%row] : memref<4xf32>
}
sched.kernel @on_host outputs 1 {
^bb0(%row: index, %y: memref<4xf32>):
  %x = memref.load %y[%row] : memref<4xf32>
  %n = arith.addf %x, %x : f32
  memref.store %n, %y[%row] : memref<4xf32>
}
sched.program @micro_first {
  %0 = sched.task copy "first" on compute [#sched.view<read @buf.b [0] : tensor<8xf32>>, #sched.view<write @buf.b [256] : tensor<8xbf16>>]
  %1 = sched.task copy "second" on compute [#sched.view<read @buf.b [0] : tensor<4xf32>>, #sched.view<write @buf.b [512] : tensor<4xbf16>>]
  %2 = sched.task zero "clear" on compute [#sched.view<write @buf.b [0] : tensor<4xi32>>] skip #sched.view<read @buf.b [1024] : tensor<f32>> scratch #sched.view<write @buf.scratch [0] : tensor<16xi32>>
  %3 = sched.task sgd "half" on compute [#sched.view<update @buf.b [0] : tensor<4xf32>>, #sched.view<read @buf.b [64] : tensor<4xf32>>, #sched.view<update @buf.b [128] : tensor<4xf32>>, #sched.view<read @buf.b [256] : tensor<f32>>, #sched.view<read @buf.b [260] : tensor<f32>>, #sched.view<read @buf.b [264] : tensor<f32>>, #sched.view<write @buf.b [512] : tensor<4xf16>>] ints [0, 0] reals [0.9, 0.0]
  %4 = sched.task sgd "whole" on compute [#sched.view<update @buf.b [0] : tensor<4xf32>>, #sched.view<read @buf.b [64] : tensor<4xf32>>, #sched.view<update @buf.b [128] : tensor<4xf32>>, #sched.view<read @buf.b [256] : tensor<f32>>, #sched.view<read @buf.b [260] : tensor<f32>>, #sched.view<read @buf.b [264] : tensor<f32>>] ints [0, 0] reals [0.9, 0.0]
  %5 = sched.task all_reduce "sum" on compute [#sched.view<read @buf.b [0] : tensor<4xf32>>, #sched.view<write @buf.b [0] : tensor<4xf32>>] ints [0]
  %6 = sched.task gemm "product" on compute [#sched.view<read @buf.b [0] : tensor<4x4xf32>>, #sched.view<read @buf.b [64] : tensor<4x4xf32>>, #sched.view<write @buf.b [128] : tensor<4x4xf32>>] ints [0, 0, 0]
  %7 = sched.task attention "attention" on compute [#sched.view<read @buf.b [0] : tensor<8x128xbf16>>, #sched.view<read @buf.b [2048] : tensor<8x64xbf16>>, #sched.view<read @buf.b [4096] : tensor<8x64xbf16>>, #sched.view<write @buf.b [8192] : tensor<8x128xbf16>>, #sched.view<write @buf.b [16384] : tensor<8x2xf32>>] ints [8, 2, 1] reals [0.125]
  %8 = sched.task attention "shifted" on compute [#sched.view<read @buf.b [0] : tensor<8x128xbf16>>, #sched.view<read @buf.b [2056] : tensor<8x64xbf16>>, #sched.view<read @buf.b [4096] : tensor<8x64xbf16>>, #sched.view<write @buf.b [8192] : tensor<8x128xbf16>>, #sched.view<write @buf.b [16384] : tensor<8x2xf32>>] ints [8, 2, 1] reals [0.125]
  %9 = sched.task attention "odd" on compute [#sched.view<read @buf.b [0] : tensor<8x6xf32>>, #sched.view<read @buf.b [2048] : tensor<8x6xf32>>, #sched.view<read @buf.b [4096] : tensor<8x6xf32>>, #sched.view<write @buf.b [8192] : tensor<8x6xf32>>, #sched.view<write @buf.b [16384] : tensor<8x1xf32>>] ints [8, 1, 1] reals [0.125]
  %10 = sched.task copy "down" on d2h after (%9) [#sched.view<read @buf.b [0] : tensor<4xf32>>, #sched.view<write @buf.h [0] : tensor<4xf32>>]
  %11 = sched.task copy "move" on host after (%10) [#sched.view<read @buf.h [0] : tensor<4xf32>>, #sched.view<write @buf.h [256] : tensor<4xf32>>]
  %12 = sched.task launch "a" on compute after (%10) kernel @on_device [#sched.view<write @buf.b [0] : tensor<4xf32>>] ints [4, 1]
  %13 = sched.task launch "b" on compute kernel @on_both [#sched.view<write @buf.b [0] : tensor<4xf32>>] ints [4, 1]
  %14 = sched.task launch "c" on host kernel @on_both [#sched.view<write @buf.h [0] : tensor<4xf32>>] ints [4, 1]
  %15 = sched.task launch "d" on host kernel @on_host [#sched.view<write @buf.h [0] : tensor<4xf32>>] ints [4, 1]
}
}

//--- refused.mlir
// Only numbers are rounded.
module attributes {sched.target = "cuda", sched.architectures = "sm_80", sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
sched.buffer @b 256 bytes in device at 0
sched.program @p {
  // expected-error @+1 {{"c" of kind copy works on 'tensor<4xi32>', for which there is no CUDA kernel}}
  %0 = sched.task copy "c" on compute [#sched.view<read @b [0] : tensor<4xi32>>, #sched.view<write @b [128] : tensor<4xf32>>]
}
}

// -----

// On the CPU that is the runtime's to say.
module attributes {sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
sched.buffer @b 256 bytes in device at 0
sched.program @p {
  %0 = sched.task copy "c" on compute [#sched.view<read @b [0] : tensor<4xi32>>, #sched.view<write @b [128] : tensor<4xf32>>]
}
}

// -----

// The optimizer works on f32.
module attributes {sched.target = "cuda", sched.architectures = "sm_80", sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
sched.buffer @b 256 bytes in device at 0
sched.program @p {
  // expected-error @+1 {{"s" has 'tensor<4xbf16>' as view 1, expected elements of 'f32' on CUDA}}
  %0 = sched.task sgd "s" on compute [#sched.view<update @b [0] : tensor<4xf32>>, #sched.view<read @b [64] : tensor<4xbf16>>, #sched.view<update @b [128] : tensor<4xf32>>, #sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<f32>>, #sched.view<read @b [0] : tensor<f32>>] ints [0, 0] reals [0.9, 0.0]
}
}

// -----

// Heads fit a thread block's memory.
module attributes {sched.target = "cuda", sched.architectures = "sm_80", sched.arena.device = 65536 : i64, sched.arena.host = 0 : i64} {
sched.buffer @b 65536 bytes in device at 0
sched.program @p {
  // expected-error @+1 {{"a" has 1 heads in 'tensor<8x512xbf16>', expected heads of at most 256 columns on CUDA}}
  %0 = sched.task attention "a" on compute [#sched.view<read @b [0] : tensor<8x512xbf16>>, #sched.view<read @b [0] : tensor<8x512xbf16>>, #sched.view<read @b [0] : tensor<8x512xbf16>>, #sched.view<write @b [8192] : tensor<8x512xbf16>>, #sched.view<write @b [32768] : tensor<8x1xf32>>] ints [8, 1, 1] reals [0.125]
}
}

// -----

// A kernel whose name would be that of the library.
module attributes {sched.target = "cuda", sched.architectures = "sm_80", sched.arena.device = 256 : i64, sched.arena.host = 0 : i64} {
sched.buffer @b 256 bytes in device at 0
sched.kernel @zero outputs 1 {
^bb0(%row: index, %y: memref<4xf32>):
  %x = memref.load %y[%row] : memref<4xf32>
  memref.store %x, %y[%row] : memref<4xf32>
}
sched.program @p {
  %0 = sched.task launch "k" on compute kernel @zero [#sched.view<write @b [0] : tensor<4xf32>>] ints [4, 1]
  // expected-error @+1 {{"z" needs the name launch_zero, which a kernel of the module has}}
  %1 = sched.task zero "z" on compute [#sched.view<write @b [0] : tensor<4xf32>>]
}
}
