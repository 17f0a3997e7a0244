// The tables of a program: what its tasks touch, wait for and are told.
//
// RUN: rm -rf %t && env CIUIC_CXX=true ciuicc compile --model %s --start-from emit --devices 2 --micro-batch 1 -o %t
// RUN: FileCheck %s < %t/src/program.cpp

// Names are quoted, here and in comments.
// CHECK: // The task program of a\"b: constant tables, a line a task.
// CHECK: #include "runtime/abi/Program.h"
// CHECK: extern "C" void twice_2x4(int64_t, int64_t, void *const *);
module @"a\22b" attributes {sched.ranks = 2 : i64, sched.arena.device = 1024 : i64, sched.arena.host = 256 : i64} {

// CHECK: constexpr Buffer buffers[] = {
// CHECK-NEXT: {"tokens", 32, 0, Arena::Device},
// CHECK-NEXT: {"w", 64, 256, Arena::Device},
// CHECK-NEXT: {"constant", 4, 512, Arena::Device},
// CHECK-NEXT: {"host", 32, 0, Arena::Host},
// CHECK-NEXT: {"out", 32, 768, Arena::Device},
sched.buffer @buf.tokens 32 bytes in device at 0
sched.buffer @buf.w 64 bytes in device state @w at 256
sched.buffer @buf.constant 4 bytes in device constant 1.0e+99 at 512
sched.buffer @buf.host 32 bytes in host of @micro_first at 0
sched.buffer @buf.out 32 bytes in device of @micro_first at 768
train.state scalar @w : tensor<2x8xf32> init #train.normal<std = 0.02>
sched.kernel @twice_2x4 outputs 1 {
^bb0(%row: index, %x: memref<2x4xf32>, %y: memref<2x4xf32>):
}

// Views: buffer, type, rank, offset, bytes a rank, shape, strides. A scalar is
// 1 x 1, a list one row.
// CHECK: constexpr View micro_first_views[] = {
// CHECK-NEXT: {1, DType::F32, 2, 0, 32, {2, 4}, {4, 1}},
// CHECK-NEXT: {4, DType::F32, 2, 0, 0, {2, 4}, {4, 1}},
// CHECK-NEXT: {3, DType::BF16, 1, 4, 0, {1, 8}, {8, 1}},
// CHECK-NEXT: {3, DType::F32, 0, 0, 0, {1, 1}, {1, 1}},
// CHECK-NEXT: {0, DType::I32, 2, 0, 0, {2, 4}, {4, 1}},
// CHECK-NEXT: {1, DType::F32, 0, 4, 0, {1, 1}, {1, 1}},
// CHECK-NEXT: {}};
// CHECK-NEXT: constexpr uint32_t micro_first_waits[] = {0, 0};
// CHECK-NEXT: constexpr int64_t micro_first_ints[] = {2, 1, 0, 1, 0, 0, 0};
// CHECK-NEXT: constexpr double micro_first_reals[] = {0.10000000000000001, __builtin_inf(), 0, 0, 0, 0};

// Tasks: kind, stream, skip, then ranges of the tables, each beginning where the
// one before ended.
// CHECK: constexpr Task micro_first_tasks[] = {
// CHECK-NEXT: {TaskKind::Launch, Stream::Compute, -1, {0, 2}, {0, 0}, {0, 2}, {0, 0}, twice_2x4, nullptr, -1, "q \"proj\\", Phase::Forward}, // 0
// CHECK-NEXT: {TaskKind::Zero, Stream::Host, 3, {2, 3}, {0, 1}, {2, 2}, {0, 0}, nullptr, nullptr, -1, "clear", Phase::Backward}, // 1
// CHECK-NEXT: {TaskKind::LearningRate, Stream::Reduce, -1, {4, 6}, {1, 1}, {2, 6}, {0, 5}, nullptr, nullptr, -1, "lr", Phase::Forward}, // 2
sched.program @micro_first {
  %0 = sched.task launch "q \22proj\\" on compute kernel @twice_2x4 [#sched.view<read @buf.w [0 + rank * 32] : tensor<2x4xf32>>, #sched.view<write @buf.out [0] : tensor<2x4xf32>>] ints [2, 1]
  %1 = sched.task zero "clear" on host after (%0) [#sched.view<write @buf.host [4] : tensor<8xbf16>>] skip #sched.view<read @buf.host [0] : tensor<f32>> {train.backward}
  %2 = sched.task learning_rate "lr" on reduce [#sched.view<read @buf.tokens [0] : tensor<2x4xi32>>, #sched.view<read @buf.w [4] : tensor<f32>>] ints [0, 1, 0, 0] reals [0.1, 0x7FF0000000000000, 0.0, 0.0, 0.0]
}

// Nothing in the update is forward or backward. A program may be empty.
// CHECK: constexpr Task apply_tasks[] = {
// CHECK-NEXT: {}};
sched.program @apply {
}

// A constant is a table that nothing writes.
// CHECK: constexpr State states[] = {
// CHECK-NEXT: {"w", Role::Scalar, "", {1, DType::F32, 2, 0, 0, {2, 8}, {8, 1}}, -1, false, {InitKind::Normal, {0.02}, {}}},
// CHECK-NEXT: {"buf.constant", Role::Table, "", {2, DType::F32, 0, 0, 0, {1, 1}, {1, 1}}, -1, false, {InitKind::Constant, {{.*}}, {}}},

// CHECK: constexpr Program programs[] = {
// CHECK-NEXT: {"micro_first", micro_first_tasks, 3, micro_first_views, micro_first_waits, micro_first_ints, micro_first_reals, 6, 1, 6, 5},
// CHECK-NEXT: {"apply", apply_tasks, 0, apply_views, apply_waits, apply_ints, apply_reals, 0, 0, 0, 0},
// CHECK: constexpr Bundle bundle = {
// CHECK-NEXT: kVersion, 2, "a\"b",
// CHECK-NEXT: 2, 4, 1,
// CHECK: {1024ull, 256ull, 0ull}, 0, -1,
// CHECK: ciuic_bundle() {
}
