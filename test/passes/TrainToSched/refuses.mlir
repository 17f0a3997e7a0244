// IR that was edited may ask for what has no lowering: each is told, none is
// lowered to something else.
//
// RUN: ciuic-opt %s --split-input-file --ciuic-lower-to-sched --verify-diagnostics

// A function of another name is no program.
// expected-error @+1 {{is no program; expected micro_step, apply_step or eval_step}}
func.func @forward() {
  return
}

// -----

// A program returns nothing.
// expected-error @+1 {{expected one block that takes nothing, or tokens and labels, and returns nothing}}
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) -> tensor<1x4xi32> {
  return %tokens : tensor<1x4xi32>
}

// -----

// Tokens without labels.
// expected-error @+1 {{expected one block that takes nothing, or tokens and labels, and returns nothing}}
func.func @micro_step(%tokens: tensor<1x4xi32>) {
  return
}

// -----

// A declaration has no body.
// expected-error @+1 {{expected one block that takes nothing, or tokens and labels, and returns nothing}}
func.func private @apply_step()

// -----

// Tokens and labels are of one type.
// expected-error @+1 {{expected tokens and labels of one type}}
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<2x4xi32>) {
  return
}

// -----

// All functions take the same tokens.
func.func @micro_step(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>) {
  return
}
// expected-error @+1 {{takes tokens of 'tensor<2x4xi32>', other functions of 'tensor<1x4xi32>'}}
func.func @eval_step(%tokens: tensor<2x4xi32>, %labels: tensor<2x4xi32>) {
  return
}

// -----

// One number of ranks for all buckets.
comm.bucket @a over <"dp" = 2> elements 256 chunk 128
// expected-error @+1 {{lies over #comm.axis<"dp" = 4>, but @a over #comm.axis<"dp" = 2>}}
comm.bucket @b over <"dp" = 4> elements 512 chunk 128

// -----

// A state of more bytes than can be counted.
// expected-error @+1 {{expected 1 to 2^48 bytes}}
train.state scalar @s : tensor<4294967296x4294967296xf32> init #train.constant<0.0>

// -----

// A value of no elements.
func.func @apply_step() {
  // expected-error @+1 {{makes 'tensor<0xf32>', expected numbers in a static shape of at most 2 dimensions, of 1 to 2^48 bytes}}
  %0 = arith.constant dense<0.0> : tensor<0xf32>
  return
}

// -----

// A value of three dimensions.
func.func @apply_step() {
  // expected-error @+1 {{makes 'tensor<2x2x2xf32>', expected numbers in a static shape of at most 2 dimensions}}
  %0 = arith.constant dense<0.0> : tensor<2x2x2xf32>
  return
}

// -----

// A state is written once.
train.state scalar @a : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %0 = arith.constant dense<0.0> : tensor<f32>
  train.write %0, @a : tensor<f32>
  // expected-error @+1 {{writes @a a second time}}
  train.write %0, @a : tensor<f32>
  return
}

// -----

// And not also added to.
train.state metric @a : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %0 = arith.constant dense<0.0> : tensor<f32>
  train.accumulate %0, @a : tensor<f32>
  // expected-error @+1 {{writes @a, which the function also adds to}}
  train.write %0, @a : tensor<f32>
  return
}

// -----

// Nor read while it is added to: the read is of the old value.
train.state metric @a : tensor<f32> init #train.constant<0.0>
train.state metric @b : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  // expected-error @+1 {{reads @a, which the function adds to}}
  %0 = train.read @a : tensor<f32>
  train.accumulate %0, @b : tensor<f32>
  train.accumulate %0, @a : tensor<f32>
  return
}

// -----

// Two states that change places: the first copy would spoil the second.
train.state scalar @a : tensor<f32> init #train.constant<0.0>
train.state scalar @b : tensor<f32> init #train.constant<0.0>
func.func @apply_step() {
  %a = train.read @a : tensor<f32>
  %b = train.read @b : tensor<f32>
  // expected-error @+1 {{copies from @b, which the function writes too}}
  train.write %b, @a : tensor<f32>
  train.write %a, @b : tensor<f32>
  return
}

// -----

// The optimizer works on states.
train.state scalar @s : tensor<f32> init #train.constant<0.0>
train.state scalar @m : tensor<8xf32> init #train.constant<0.0>
func.func @apply_step() {
  %s = train.read @s : tensor<f32>
  %m = train.read @m : tensor<8xf32>
  %p = arith.addf %m, %m : tensor<8xf32>
  // expected-error @+1 {{cannot update operand 0 in place: it is neither a state nor a copy of its own}}
  %0:2 = train.sgd %p, %m, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// Whose old value nothing reads later.
train.state scalar @s : tensor<f32> init #train.constant<0.0>
train.state scalar @p : tensor<8xf32> init #train.constant<0.0>
train.state scalar @m : tensor<8xf32> init #train.constant<0.0>
func.func @apply_step() {
  %s = train.read @s : tensor<f32>
  %p = train.read @p : tensor<8xf32>
  %m = train.read @m : tensor<8xf32>
  // expected-error @+1 {{cannot update operand 1 in place: it is read later}}
  %0:2 = train.sgd %p, %p, %m lr %s coef %s skip %s {momentum = 0.9, decay = 0.0}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  %again = train.read @m : tensor<8xf32>
  %square = train.square_sum %again : (tensor<8xf32>) -> tensor<f64>
  return
}

// -----

// A constant of several values would have to be stored in the program.
func.func @apply_step() {
  // expected-error @+1 {{holds different values, expected one}}
  %0 = arith.constant dense<[0.0, 1.0]> : tensor<2xf32>
  return
}

// -----

// A tensor that is the same everywhere, too, where it needs memory.
func.func @apply_step() {
  // expected-error @+1 {{is no f32 scalar; an op that is not pointwise cannot take it}}
  %0 = arith.constant dense<1.0> : tensor<8xf32>
  %1 = train.square_sum %0 : (tensor<8xf32>) -> tensor<f64>
  return
}

// -----

// Truth values are not stored.
train.state scalar @a : tensor<8xf32> init #train.constant<0.0>
train.state scalar @b : tensor<8xi1> init #train.constant<0.0>
func.func @apply_step() {
  %a = train.read @a : tensor<8xf32>
  // expected-error @+1 {{makes truth values that an op which is not pointwise reads}}
  %b = arith.cmpf ogt, %a, %a : tensor<8xf32>
  train.write %b, @b : tensor<8xi1>
  return
}

// -----

// A choice by a single truth value is no pointwise work.
train.state scalar @a : tensor<8xf32> init #train.constant<0.0>
func.func @apply_step() {
  %a = train.read @a : tensor<8xf32>
  %true = arith.constant true
  // expected-error @+1 {{reads a value that has no place yet}}
  %b = arith.select %true, %a, %a : tensor<8xf32>
  train.write %b, @a : tensor<8xf32>
  return
}

// -----

// Ops of other dialects are not known.
func.func @apply_step() {
  // expected-error @+1 {{has no lowering to sched}}
  %0 = memref.alloc() : memref<4xf32>
  return
}
