// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) a batch has token slots,
func.func @grad_scale_slots(%sq: tensor<f64>, %x: tensor<f32>) {
  // expected-error @below {{has slots 0.000000e+00 and clip 1.000000e+00; expected slots > 0 and clip >= 0}}
  %a, %b, %c = train.grad_scale %sq, %x, %x slots 0.0 clip 1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

// (C1) and a norm is not negative.
func.func @grad_scale_clip(%sq: tensor<f64>, %x: tensor<f32>) {
  // expected-error @below {{expected slots > 0 and clip >= 0}}
  %a, %b, %c = train.grad_scale %sq, %x, %x slots 8.0 clip -1.0 : (tensor<f64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

// Rates are not negative,
func.func @schedule_rate(%i: tensor<i32>) {
  // expected-error @below {{schedule has a rate or ratio of -1.000000e-03, expected a finite number of at least 0}}
  %0 = train.learning_rate %i by <kind = constant, base = -1.0e-3> : (tensor<i32>) -> tensor<f32>
  return
}

// -----

// and no steps come before the first.
func.func @schedule_warmup(%i: tensor<i32>) {
  // expected-error @below {{schedule has -5 warm-up steps of 0, expected at least 0 of at least 0}}
  %0 = train.learning_rate %i by <kind = WarmupLR, base = 1.0e-3, warmup = -5> : (tensor<i32>) -> tensor<f32>
  return
}

// -----

// Squares are summed in f64.
func.func @square_sum_type(%x: tensor<4xf32>) {
  // expected-error @below {{result #0 must be 0D tensor of 64-bit float values}}
  %0 = train.square_sum %x : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// (C1) the loss scale grows after at least one good step,
func.func @loss_scale_window(%x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has window 0, hysteresis 2 and min 1.000000e+00; expected at least 1, at least 1 and positive}}
  %a:5 = train.update_loss_scale %x, %i, %i, %i, %x window 0 hysteresis 2 min 1.0
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  return
}

// -----

// (C1) shrinks after at least one bad one,
func.func @loss_scale_hysteresis(%x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has window 1000, hysteresis 0 and min 1.000000e+00}}
  %a:5 = train.update_loss_scale %x, %i, %i, %i, %x window 1000 hysteresis 0 min 1.0
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  return
}

// -----

// (C1) and never to nothing.
func.func @loss_scale_min(%x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has window 1000, hysteresis 2 and min 0.000000e+00}}
  %a:5 = train.update_loss_scale %x, %i, %i, %i, %x window 1000 hysteresis 2 min 0.0
    : (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<f32>)
  return
}

// -----

// (C1) Adam works on tensors of one shape,
func.func @adam_shape(%p: tensor<8xf32>, %g: tensor<4xf32>, %x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has tensors 'tensor<8xf32>' and 'tensor<4xf32>'; expected one shape of f32 for parameter, gradient, moments and results}}
  %a:3 = train.adam %p, %g, %p, %p lr %x coef %x step %i skip %x {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0}
    : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C1) of f32.
func.func @adam_element(%p: tensor<8xbf16>, %x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{expected one shape of f32 for parameter, gradient, moments and results}}
  %a:3 = train.adam %p, %p, %p, %p lr %x coef %x step %i skip %x {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0}
    : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xbf16>, tensor<8xbf16>, tensor<8xbf16>)
  return
}

// -----

// (C2) ranges without decay have two ends,
func.func @adam_odd_ranges(%p: tensor<8xf32>, %x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has 1 bounds in 'undecayed', expected pairs}}
  %a:3 = train.adam %p, %p, %p, %p lr %x coef %x step %i skip %x {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0, undecayed = array<i64: 4>}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C2) do not overlap,
func.func @adam_overlap(%p: tensor<8xf32>, %x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{range [3, 6) in 'undecayed' is empty or starts before 4}}
  %a:3 = train.adam %p, %p, %p, %p lr %x coef %x step %i skip %x {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, decay = 0.0, undecayed = array<i64: 0, 4, 3, 6>}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C3) betas are below 1.
func.func @adam_betas(%p: tensor<8xf32>, %x: tensor<f32>, %i: tensor<i32>) {
  // expected-error @below {{has betas 9.000000e-01 and 1.000000e+00, eps 1.000000e-08 and decay 0.000000e+00; expected betas in [0, 1), eps and decay >= 0}}
  %a:3 = train.adam %p, %p, %p, %p lr %x coef %x step %i skip %x {beta1 = 0.9, beta2 = 1.0, eps = 1.0e-8, decay = 0.0}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C1) SGD works on tensors of one shape,
func.func @sgd_shape(%p: tensor<8xf32>, %m: tensor<4xf32>, %x: tensor<f32>) {
  // expected-error @below {{has tensors 'tensor<8xf32>' and 'tensor<4xf32>'}}
  %a:2 = train.sgd %p, %p, %m lr %x coef %x skip %x {momentum = 0.9, decay = 0.0}
    : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>)
  return
}

// -----

// (C2) with ranges that are not empty,
func.func @sgd_empty_range(%p: tensor<8xf32>, %x: tensor<f32>) {
  // expected-error @below {{range [4, 4) in 'undecayed' is empty or starts before 0}}
  %a:2 = train.sgd %p, %p, %p lr %x coef %x skip %x {momentum = 0.9, decay = 0.0, undecayed = array<i64: 4, 4>}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C3) and momentum that does not turn around.
func.func @sgd_momentum(%p: tensor<8xf32>, %x: tensor<f32>) {
  // expected-error @below {{has momentum -9.000000e-01 and decay 0.000000e+00; expected both >= 0}}
  %a:2 = train.sgd %p, %p, %p lr %x coef %x skip %x {momentum = -0.9, decay = 0.0}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}
