// RUN: ciuic-opt %s --split-input-file --verify-diagnostics

// (C1) rows are whole sequences,
func.func @attention_rows(%q: tensor<6x8xf32>) {
  // expected-error @below {{has 6 rows, expected a multiple of the sequence length 4}}
  %y, %lse = train.attention %q, %q, %q seq 4 heads 4 of 4 scale 0.5 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C1) of at least one token,
func.func @attention_no_sequence(%q: tensor<6x8xf32>) {
  // expected-error @below {{has 6 rows, expected a multiple of the sequence length 0}}
  %y, %lse = train.attention %q, %q, %q seq 0 heads 4 of 4 scale 0.5 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C1) and each key head serves equally many query heads.
func.func @attention_heads(%q: tensor<6x8xf32>, %k: tensor<6x6xf32>) {
  // expected-error @below {{has 4 heads over 3 key/value heads, expected a multiple}}
  %y, %lse = train.attention %q, %k, %k seq 3 heads 4 of 3 scale 0.5 : (tensor<6x8xf32>, tensor<6x6xf32>, tensor<6x6xf32>) -> (tensor<6x8xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C2) columns are whole heads,
func.func @attention_q_columns(%q: tensor<6x9xf32>, %k: tensor<6x4xf32>) {
  // expected-error @below {{q has type 'tensor<6x9xf32>', expected shape [6, 8]}}
  %y, %lse = train.attention %q, %k, %k seq 3 heads 4 of 2 scale 0.5 : (tensor<6x9xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> (tensor<6x9xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C2) of one width,
func.func @attention_k_columns(%q: tensor<6x8xf32>, %k: tensor<6x8xf32>) {
  // expected-error @below {{k has type 'tensor<6x8xf32>', expected shape [6, 4]}}
  %y, %lse = train.attention %q, %k, %k seq 3 heads 4 of 2 scale 0.5 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C2) lse has a column a head,
func.func @attention_lse(%q: tensor<6x8xf32>) {
  // expected-error @below {{lse has type 'tensor<6xf32>', expected shape [6, 4]}}
  %y, %lse = train.attention %q, %q, %q seq 3 heads 4 of 4 scale 0.5 : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  return
}

// -----

// (C2) and no types are mixed.
func.func @attention_element(%q: tensor<6x8xbf16>, %k: tensor<6x8xf32>) {
  // expected-error @below {{k has element type 'f32', expected 'bf16'}}
  %y, %lse = train.attention %q, %k, %k seq 3 heads 4 of 4 scale 0.5 : (tensor<6x8xbf16>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<6x8xbf16>, tensor<6x4xf32>)
  return
}

// -----

// (C1) gradients have their operands' types.
func.func @attention_grad_types(%q: tensor<6x8xf32>, %k: tensor<6x4xf32>, %lse: tensor<6x4xf32>) {
  // expected-error @below {{gradients have types 'tensor<6x8xf32>', 'tensor<6x8xf32>', 'tensor<6x4xf32>'; expected those of q, k and v}}
  %dq, %dk, %dv = train.attention_grad %q, %q, %k, %k, %q, %lse seq 3 heads 4 of 2 scale 0.5
    : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x8xf32>, tensor<6x4xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32>)
  return
}

// -----

// (C1) the forward's constraints hold in the backward too.
func.func @attention_grad_rows(%q: tensor<6x8xf32>, %lse: tensor<6x4xf32>) {
  // expected-error @below {{has 6 rows, expected a multiple of the sequence length 4}}
  %dq, %dk, %dv = train.attention_grad %q, %q, %q, %q, %q, %lse seq 4 heads 4 of 4 scale 0.5
    : (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x4xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>)
  return
}

// -----

// A pointwise op keeps its operand's type.
func.func @sigmoid_type(%x: tensor<6xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %0 = "train.sigmoid"(%x) : (tensor<6xf32>) -> tensor<6xbf16>
  return
}

// -----

// (C1) a row of logits for each label,
func.func @cross_entropy_rows(%x: tensor<5x8xf32>, %labels: tensor<2x3xi32>) {
  // expected-error @below {{logits has type 'tensor<5x8xf32>', expected shape [6, 8]}}
  %loss, %count, %lse = train.cross_entropy %x, %labels : (tensor<5x8xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<5xf32>)
  return
}

// -----

// (C1) labels as sequences,
func.func @cross_entropy_labels(%x: tensor<6x8xf32>, %labels: tensor<6xi32>) {
  // expected-error @below {{labels has type 'tensor<6xi32>', expected rank 2}}
  %loss, %count, %lse = train.cross_entropy %x, %labels : (tensor<6x8xf32>, tensor<6xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>)
  return
}

// -----

// (C1) an lse for each row, in f32.
func.func @cross_entropy_lse(%x: tensor<6x8xbf16>, %labels: tensor<2x3xi32>) {
  // expected-error @below {{lse has element type 'bf16', expected 'f32'}}
  %loss, %count, %lse = train.cross_entropy %x, %labels : (tensor<6x8xbf16>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>, tensor<6xbf16>)
  return
}

// -----

// The loss is one f32.
func.func @cross_entropy_loss(%x: tensor<6x8xbf16>, %labels: tensor<2x3xi32>) {
  // expected-error @below {{result #0 must be 0D tensor of 32-bit float values}}
  %loss, %count, %lse = train.cross_entropy %x, %labels : (tensor<6x8xbf16>, tensor<2x3xi32>) -> (tensor<bf16>, tensor<f32>, tensor<6xf32>)
  return
}

// -----

// (C1) the gradient of logits has their type.
func.func @cross_entropy_grad_type(%seed: tensor<f32>, %x: tensor<6x8xbf16>, %labels: tensor<2x3xi32>, %lse: tensor<6xf32>) {
  // expected-error @below {{result has type 'tensor<6x8xf32>', expected 'tensor<6x8xbf16>'}}
  %dx = train.cross_entropy_grad %seed, %x, %labels, %lse : (tensor<f32>, tensor<6x8xbf16>, tensor<2x3xi32>, tensor<6xf32>) -> tensor<6x8xf32>
  return
}

// -----

// (C1) lse has a value a row in the backward too.
func.func @cross_entropy_grad_lse(%seed: tensor<f32>, %x: tensor<6x8xf32>, %labels: tensor<2x3xi32>, %lse: tensor<8xf32>) {
  // expected-error @below {{lse has type 'tensor<8xf32>', expected shape [6]}}
  %dx = train.cross_entropy_grad %seed, %x, %labels, %lse : (tensor<f32>, tensor<6x8xf32>, tensor<2x3xi32>, tensor<8xf32>) -> tensor<6x8xf32>
  return
}
