// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) a weight for each column,
func.func @rms_norm_weight(%x: tensor<6x4xf32>, %w: tensor<6xf32>) {
  // expected-error @below {{weight has type 'tensor<6xf32>', expected shape [4]}}
  %y, %rstd = train.rms_norm %x, %w eps 1.0e-5 : (tensor<6x4xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
  return
}

// -----

// (C1) the result as the operand,
func.func @rms_norm_result(%x: tensor<6x4xf32>, %w: tensor<4xf32>) {
  // expected-error @below {{result has element type 'bf16', expected 'f32'}}
  %y, %rstd = train.rms_norm %x, %w eps 1.0e-5 : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xbf16>, tensor<6xf32>)
  return
}

// -----

// (C1) and rstd a row each, always in f32.
func.func @rms_norm_rstd(%x: tensor<6x4xbf16>, %w: tensor<4xbf16>) {
  // expected-error @below {{rstd has element type 'bf16', expected 'f32'}}
  %y, %rstd = train.rms_norm %x, %w eps 1.0e-5 : (tensor<6x4xbf16>, tensor<4xbf16>) -> (tensor<6x4xbf16>, tensor<6xbf16>)
  return
}

// -----

// (C2) eps keeps rows of zeros finite.
func.func @rms_norm_eps(%x: tensor<6x4xf32>, %w: tensor<4xf32>) {
  // expected-error @below {{eps is 0.000000e+00, expected a positive number}}
  %y, %rstd = train.rms_norm %x, %w eps 0.0 : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<6x4xf32>, tensor<6xf32>)
  return
}

// -----

// (C1) gradients are shaped as what they are gradients of,
func.func @rms_norm_grad_shape(%dy: tensor<4x6xf32>, %x: tensor<6x4xf32>, %w: tensor<4xf32>, %rstd: tensor<6xf32>) {
  // expected-error @below {{dy has type 'tensor<4x6xf32>', expected shape [6, 4]}}
  %dx, %dw = train.rms_norm_grad %dy, %x, %w, %rstd : (tensor<4x6xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<6xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  return
}

// -----

// (C1) and typed so.
func.func @rms_norm_grad_weight(%dy: tensor<6x4xbf16>, %x: tensor<6x4xbf16>, %w: tensor<4xbf16>, %rstd: tensor<6xf32>) {
  // expected-error @below {{dweight has element type 'f32', expected 'bf16'}}
  %dx, %dw = train.rms_norm_grad %dy, %x, %w, %rstd : (tensor<6x4xbf16>, tensor<6x4xbf16>, tensor<4xbf16>, tensor<6xf32>) -> (tensor<6x4xbf16>, tensor<4xf32>)
  return
}

// -----

// (C1) cosines and sines come in pairs,
func.func @rotary_tables(%x: tensor<6x8xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x4xf32>) {
  // expected-error @below {{sin has type 'tensor<3x4xf32>', expected shape [3, 2]}}
  %y = train.rotary %x, %cos, %sin : (tensor<6x8xf32>, tensor<3x2xf32>, tensor<3x4xf32>) -> tensor<6x8xf32>
  return
}

// -----

// (C1) in f32.
func.func @rotary_f16(%x: tensor<6x8xf16>, %cos: tensor<3x2xf16>, %sin: tensor<3x2xf16>) {
  // expected-error @below {{cos has element type 'f16', expected 'f32'}}
  %y = train.rotary %x, %cos, %sin : (tensor<6x8xf16>, tensor<3x2xf16>, tensor<3x2xf16>) -> tensor<6x8xf16>
  return
}

// -----

// (C2) rows are whole sequences,
func.func @rotary_rows(%x: tensor<7x8xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) {
  // expected-error @below {{rotates 'tensor<7x8xf32>' by a table 'tensor<3x2xf32>'; expected rows divisible by 3 and columns by 4}}
  %y = train.rotary %x, %cos, %sin : (tensor<7x8xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<7x8xf32>
  return
}

// -----

// (C2) columns whole heads.
func.func @rotary_columns(%x: tensor<6x6xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) {
  // expected-error @below {{expected rows divisible by 3 and columns by 4}}
  %y = train.rotary %x, %cos, %sin : (tensor<6x6xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x6xf32>
  return
}

// -----

// (C2) an empty table divides nothing.
func.func @rotary_empty(%x: tensor<6x8xf32>, %cos: tensor<0x2xf32>, %sin: tensor<0x2xf32>) {
  // expected-error @below {{rotates 'tensor<6x8xf32>' by an empty table 'tensor<0x2xf32>'}}
  %y = train.rotary %x, %cos, %sin : (tensor<6x8xf32>, tensor<0x2xf32>, tensor<0x2xf32>) -> tensor<6x8xf32>
  return
}

// -----

// (C3) a rotation changes no type.
func.func @rotary_result(%x: tensor<6x8xbf16>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) {
  // expected-error @below {{result has type 'tensor<6x8xf32>', expected 'tensor<6x8xbf16>'}}
  %y = train.rotary %x, %cos, %sin : (tensor<6x8xbf16>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x8xf32>
  return
}
