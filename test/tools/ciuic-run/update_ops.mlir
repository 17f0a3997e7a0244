// RUN: ciuic-run %s --function adam --print | FileCheck %s --check-prefix=ADAM
// RUN: ciuic-run %s --function sgd --print | FileCheck %s --check-prefix=SGD
// RUN: ciuic-run %s --function chunks --print | FileCheck %s --check-prefix=CHUNKS
// RUN: ciuic-run %s --function scalars --print | FileCheck %s --check-prefix=SCALARS
// RUN: ciuic-run %s --function overflow --print | FileCheck %s --check-prefix=OVERFLOW
// RUN: ciuic-run %s --function recompute --print | FileCheck %s --check-prefix=RECOMPUTE

#dp = #comm.axis<"dp" = 2>

module @update_ops {

comm.bucket @block over #dp elements 256 chunk 128 trainable
train.state parameter @block.param of @block sharded : tensor<128xf32>
    init #train.constant<1.0>
train.state moment @block.m of @block slot "momentum_buffer" sharded
    : tensor<128xf32> init #train.constant<0.0>
train.state moment @block.whole of @block slot "whole" : tensor<256xf32>
    init #train.constant<0.0>

// The first step of AdamW moves by lr against the sign of the gradient, after
// decay has taken lr * decay of the parameter; element 1 has no decay.
func.func @adam() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
                      tensor<2xf32>) {
  %p = arith.constant dense<1.0> : tensor<2xf32>
  %g = arith.constant dense<[8.0, -8.0]> : tensor<2xf32>
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %lr = arith.constant dense<0.25> : tensor<f32>
  %coef = arith.constant dense<0.5> : tensor<f32>
  %step = arith.constant dense<0> : tensor<i32>
  %no = arith.constant dense<0.0> : tensor<f32>
  %yes = arith.constant dense<1.0> : tensor<f32>
  // ADAM: result 0: tensor<2xf32> [0.625, 1.25]
  // ADAM: result 1: tensor<2xf32> [2, -2]
  // ADAM: result 2: tensor<2xf32> [4, 4]
  %np, %nm, %nv = train.adam %p, %g, %zero, %zero lr %lr coef %coef step %step
    skip %no {beta1 = 0.5, beta2 = 0.75, eps = 0.0, decay = 0.5, decoupled,
              bias_correction, undecayed = array<i64: 1, 2>}
    : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
       tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>)
   -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  // A skipped step changes nothing, whatever the gradient.
  // ADAM: result 3: tensor<2xf32> [1, 1]
  %nan = arith.constant dense<0x7FC00000> : tensor<2xf32>
  %sp, %sm, %sv = train.adam %p, %nan, %zero, %zero lr %lr coef %coef
    step %step skip %yes {beta1 = 0.5, beta2 = 0.75, eps = 0.0, decay = 0.5}
    : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
       tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>)
   -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %np, %nm, %nv, %sp
    : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// g = 0.5 * 8 + 1 * 2 = 6, m' = 0.5 * 4 + 6 = 8; Nesterov looks ahead:
// 6 + 0.5 * 8 = 10.
func.func @sgd() -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %p = arith.constant dense<2.0> : tensor<1xf32>
  %g = arith.constant dense<8.0> : tensor<1xf32>
  %m = arith.constant dense<4.0> : tensor<1xf32>
  %lr = arith.constant dense<0.25> : tensor<f32>
  %coef = arith.constant dense<0.5> : tensor<f32>
  %no = arith.constant dense<0.0> : tensor<f32>
  // SGD: result 0: tensor<1xf32> [0]
  // SGD: result 1: tensor<1xf32> [8]
  %np, %nm = train.sgd %p, %g, %m lr %lr coef %coef skip %no
    {momentum = 0.5, decay = 1.0}
    : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>,
       tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>)
  // SGD: result 2: tensor<1xf32> [-0.5]
  %ap, %am = train.sgd %p, %g, %m lr %lr coef %coef skip %no
    {momentum = 0.5, decay = 1.0, nesterov}
    : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>,
       tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>)
  return %np, %nm, %ap : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}

// `undecayed` counts in the whole bucket: elements [0, 129) are all of rank
// 0's chunk and the first of rank 1's. Where every rank holds the whole, the
// ranges are the same for all.
func.func @chunks() -> (tensor<2xf32>, tensor<2xf32>) {
  %p = arith.constant dense<1.0> : tensor<128xf32>
  %g = arith.constant dense<0.0> : tensor<128xf32>
  %m = train.read @block.m : tensor<128xf32>
  %lr = arith.constant dense<1.0> : tensor<f32>
  %no = arith.constant dense<0.0> : tensor<f32>
  // CHUNKS: result 0 on rank 0: tensor<2xf32> [1, 1]
  // CHUNKS: result 0 on rank 1: tensor<2xf32> [1, 0.5]
  %np, %nm = train.sgd %p, %g, %m lr %lr coef %lr skip %no
    {momentum = 0.0, decay = 0.5, undecayed = array<i64: 0, 129>}
    : (tensor<128xf32>, tensor<128xf32>, tensor<128xf32>, tensor<f32>,
       tensor<f32>, tensor<f32>) -> (tensor<128xf32>, tensor<128xf32>)
  %first = comm.unpack %np at 0 : tensor<128xf32> -> tensor<2xf32>
  // CHUNKS: result 1: tensor<2xf32> [1, 0.5]
  %wp = arith.constant dense<1.0> : tensor<256xf32>
  %wg = arith.constant dense<0.0> : tensor<256xf32>
  %wm = train.read @block.whole : tensor<256xf32>
  %vp, %vm = train.sgd %wp, %wg, %wm lr %lr coef %lr skip %no
    {momentum = 0.0, decay = 0.5, undecayed = array<i64: 0, 129>}
    : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<f32>,
       tensor<f32>, tensor<f32>) -> (tensor<256xf32>, tensor<256xf32>)
  %border = comm.unpack %vp at 128 : tensor<256xf32> -> tensor<2xf32>
  return %first, %border : tensor<2xf32>, tensor<2xf32>
}

func.func @scalars() -> (tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>,
                         tensor<i32>, tensor<i32>) {
  // SCALARS: result 0: tensor<f64> [25]
  %a = arith.constant dense<[3.0]> : tensor<1xf32>
  %b = arith.constant dense<[[4.0]]> : tensor<1x1xbf16>
  %squares = train.square_sum %a, %b
    : (tensor<1xf32>, tensor<1x1xbf16>) -> tensor<f64>
  // 8 slots for 4 labels double the gradient, the scale divides it by 4: the
  // norm is 2.5, and 0.5 / 2.5 of 2 / 4 remain.
  // SCALARS: result 1: tensor<f32> [0.09999996]
  // SCALARS: result 2: tensor<f32> [2.5]
  %count = arith.constant dense<4.0> : tensor<f32>
  %scale = arith.constant dense<4.0> : tensor<f32>
  %coef, %norm, %skip = train.grad_scale %squares, %count, %scale
    slots 8.0 clip 0.5 check
    : (tensor<f64>, tensor<f32>, tensor<f32>)
   -> (tensor<f32>, tensor<f32>, tensor<f32>)
  // The curve is read one step late: five applied steps are 4 / 8 of the way.
  // SCALARS: result 3: tensor<f32> [2]
  %five = arith.constant dense<5> : tensor<i32>
  %lr = train.learning_rate %five by
    <kind = WarmupLR, base = 9.0, min = 1.0, max = 3.0, warmup = 8,
     logarithmic = false> : (tensor<i32>) -> tensor<f32>
  // SCALARS: result 4: tensor<i32> [6]
  // SCALARS: result 5: tensor<i32> [5]
  %next = train.advance %five unless %skip
    : (tensor<i32>, tensor<f32>) -> tensor<i32>
  %same = train.advance %five unless %count
    : (tensor<i32>, tensor<f32>) -> tensor<i32>
  return %squares, %coef, %norm, %lr, %next, %same
    : tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i32>,
      tensor<i32>
}

// An infinite gradient skips the step and halves the scale; at the floor the
// training stops.
func.func @overflow() -> (tensor<f32>, tensor<f32>, tensor<i32>, tensor<i32>,
                          tensor<i32>, tensor<f32>, tensor<f32>) {
  %inf = arith.constant dense<0x7F800000> : tensor<1xf32>
  %squares = train.square_sum %inf : (tensor<1xf32>) -> tensor<f64>
  %one = arith.constant dense<1.0> : tensor<f32>
  // OVERFLOW: result 0: tensor<f32> [1]
  %coef, %norm, %skip = train.grad_scale %squares, %one, %one
    slots 1.0 clip 1.0 check
    : (tensor<f64>, tensor<f32>, tensor<f32>)
   -> (tensor<f32>, tensor<f32>, tensor<f32>)
  %scale = arith.constant dense<4.0> : tensor<f32>
  %iteration = arith.constant dense<6> : tensor<i32>
  %last = arith.constant dense<-1> : tensor<i32>
  %left = arith.constant dense<1> : tensor<i32>
  // OVERFLOW: result 1: tensor<f32> [2]
  // OVERFLOW: result 2: tensor<i32> [7]
  // OVERFLOW: result 3: tensor<i32> [6]
  // OVERFLOW: result 4: tensor<i32> [1]
  // OVERFLOW: result 5: tensor<f32> [0]
  %n:5 = train.update_loss_scale %scale, %iteration, %last, %left, %skip
    window 1000 hysteresis 2 min 1.0
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
   -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  // OVERFLOW: result 6: tensor<f32> [1]
  %f:5 = train.update_loss_scale %one, %iteration, %last, %left, %skip
    window 1000 hysteresis 2 min 1.0
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
   -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  return %skip, %n#0, %n#1, %n#2, %n#3, %n#4, %f#4
    : tensor<f32>, tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>,
      tensor<f32>, tensor<f32>
}

// A region computes from its operands, on every rank from its own.
func.func @recompute() -> tensor<1xf32> {
  %whole = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %mine = comm.chunk %whole of #dp : tensor<2xf32> -> tensor<1xf32>
  // RECOMPUTE: result 0 on rank 0: tensor<1xf32> [2]
  // RECOMPUTE: result 0 on rank 1: tensor<1xf32> [4]
  %twice = train.recompute "layers.0"(%mine) : (tensor<1xf32>) -> tensor<1xf32> {
  ^bb0(%x: tensor<1xf32>):
    %y = arith.addf %x, %x : tensor<1xf32>
    train.yield %y : tensor<1xf32>
  }
  return %twice : tensor<1xf32>
}

}
