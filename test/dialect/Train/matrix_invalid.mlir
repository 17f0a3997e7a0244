// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) tokens are sequences.
func.func @embedding_tokens(%tokens: tensor<6xi32>, %table: tensor<8x4xf32>) {
  // expected-error @below {{tokens has type 'tensor<6xi32>', expected rank 2}}
  %0 = train.embedding %tokens in %table : (tensor<6xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// (C1) a row comes for each token of each sequence.
func.func @embedding_rows(%tokens: tensor<2x3xi32>, %table: tensor<8x4xf32>) {
  // expected-error @below {{result has type 'tensor<2x4xf32>', expected shape [6, 4]}}
  %0 = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// (C1) a table has two dimensions.
func.func @embedding_table(%tokens: tensor<2x3xi32>, %table: tensor<8xf32>) {
  // expected-error @below {{table has type 'tensor<8xf32>', expected rank 2}}
  %0 = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<8xf32>) -> tensor<6x4xf32>
  return
}

// -----

// (C2) rows have the table's element type.
func.func @embedding_element(%tokens: tensor<2x3xi32>, %table: tensor<8x4xf32>) {
  // expected-error @below {{result has element type 'bf16', expected 'f32'}}
  %0 = train.embedding %tokens in %table : (tensor<2x3xi32>, tensor<8x4xf32>) -> tensor<6x4xbf16>
  return
}

// -----

// Tokens are 32-bit integers.
func.func @embedding_ids(%tokens: tensor<2x3xi64>, %table: tensor<8x4xf32>) {
  // expected-error @below {{operand #0 must be statically shaped tensor of 32-bit signless integer values}}
  %0 = train.embedding %tokens in %table : (tensor<2x3xi64>, tensor<8x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// (C1) a gradient comes for each token,
func.func @embedding_grad_rows(%dy: tensor<5x4xf32>, %tokens: tensor<2x3xi32>) {
  // expected-error @below {{dy has type 'tensor<5x4xf32>', expected shape [6, 4]}}
  %0 = train.embedding_grad %dy at %tokens : (tensor<5x4xf32>, tensor<2x3xi32>) -> tensor<8x4xf32>
  return
}

// -----

// (C2) in the type of the result.
func.func @embedding_grad_element(%dy: tensor<6x4xbf16>, %tokens: tensor<2x3xi32>) {
  // expected-error @below {{result has element type 'f32', expected 'bf16'}}
  %0 = train.embedding_grad %dy at %tokens : (tensor<6x4xbf16>, tensor<2x3xi32>) -> tensor<8x4xf32>
  return
}

// -----

// (C1) a weight has a column for each feature.
func.func @linear_columns(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error @below {{weight has type 'tensor<4x8xf32>', expected shape [4, 4]}}
  %0 = train.linear %x, %w : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// (C1) the result has a column for each row of the weight,
func.func @linear_result(%x: tensor<6x4xf32>, %w: tensor<8x4xf32>) {
  // expected-error @below {{result has type 'tensor<6x4xf32>', expected shape [6, 8]}}
  %0 = train.linear %x, %w : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  return
}

// -----

// (C1) as has the bias.
func.func @linear_bias(%x: tensor<6x4xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{bias has type 'tensor<4xf32>', expected shape [8]}}
  %0 = train.linear %x, %w bias %b : (tensor<6x4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<6x8xf32>
  return
}

// -----

// (C2) no mixture of types.
func.func @linear_element(%x: tensor<6x4xbf16>, %w: tensor<8x4xf32>) {
  // expected-error @below {{weight has element type 'f32', expected 'bf16'}}
  %0 = train.linear %x, %w : (tensor<6x4xbf16>, tensor<8x4xf32>) -> tensor<6x8xbf16>
  return
}

// -----

// (C2) nor for the bias.
func.func @linear_bias_element(%x: tensor<6x4xbf16>, %w: tensor<8x4xbf16>, %b: tensor<8xf32>) {
  // expected-error @below {{bias has element type 'f32', expected 'bf16'}}
  %0 = train.linear %x, %w bias %b : (tensor<6x4xbf16>, tensor<8x4xbf16>, tensor<8xf32>) -> tensor<6x8xbf16>
  return
}

// -----

// (C1) both sides agree on what is summed over,
func.func @matmul_inner(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error @below {{sums over 3 columns of a but 4 rows of b, in 'tensor<2x3xf32>' times 'tensor<4x5xf32>'}}
  %0 = train.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

// (C1) after transposing,
func.func @matmul_inner_transposed(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  // expected-error @below {{sums over 2 columns of a but 3 rows of b}}
  %0 = train.matmul %a transposed, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return
}

// -----

// (C1) and on the result.
func.func @matmul_result(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  // expected-error @below {{result has type 'tensor<5x2xf32>', expected shape [2, 5]}}
  %0 = train.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<5x2xf32>
  return
}

// -----

// (C2) no mixture of types.
func.func @matmul_element(%a: tensor<2x3xf16>, %b: tensor<3x5xbf16>) {
  // expected-error @below {{b has element type 'bf16', expected 'f16'}}
  %0 = train.matmul %a, %b : (tensor<2x3xf16>, tensor<3x5xbf16>) -> tensor<2x5xf16>
  return
}

// -----

// (C1) a sum for each column,
func.func @column_sum_shape(%x: tensor<6x4xf32>) {
  // expected-error @below {{result has type 'tensor<6xf32>', expected shape [4]}}
  %0 = train.column_sum %x : (tensor<6x4xf32>) -> tensor<6xf32>
  return
}

// -----

// (C1) of one type.
func.func @column_sum_element(%x: tensor<6x4xbf16>) {
  // expected-error @below {{result has element type 'f32', expected 'bf16'}}
  %0 = train.column_sum %x : (tensor<6x4xbf16>) -> tensor<4xf32>
  return
}
