//===- TrainTensorOps.td - Forward and backward maths ------*- tablegen -*-===//
//
// Rows are tokens (batch-major: row = b * sequence + t), columns features.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_DIALECT_TRAIN_TRAINTENSOROPS_TD
#define CIUIC_DIALECT_TRAIN_TRAINTENSOROPS_TD

include "dialect/Train/TrainStateOps.td"

/// A pure op over tensors that knows its cost and its precision signature.
class Train_TensorOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        Pure,
        DeclareOpInterfaceMethods<Train_CostOpInterface, ["getFlops"]>,
        DeclareOpInterfaceMethods<Train_SignatureOpInterface>,
      ], traits)>;

class Train_ForwardOp<string mnemonic, list<Trait> traits = []>
    : Train_TensorOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<Train_DifferentiableOpInterface>,
      ], traits)>;

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

def Train_EmbeddingOp : Train_ForwardOp<"embedding"> {
  let summary = "Looks up a row of a table for each token.";
  let description = [{
    `result[b*T + t, :] = table[tokens[b, t], :]`.

    Constraints:
    - (C1) `tokens` is BxT, `table` VxD, `result` (B*T)xD.
    - (C2) `table` and `result` have one element type.
  }];
  let arguments = (ins Train_Ids:$tokens, Train_Float:$table);
  let results = (outs Train_Float:$result);
  let assemblyFormat =
    "$tokens `in` $table attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Train_EmbeddingGradOp : Train_TensorOp<"embedding_grad"> {
  let summary = "Adds each token's gradient to its row of the table's.";
  let description = [{
    `result[v, :] = sum of dy[b*T + t, :] over tokens[b, t] = v`, in rising
    order of b*T + t, summed in f32.

    Constraints:
    - (C1) `dy` is (B*T)xD, `tokens` BxT, `result` VxD.
    - (C2) `dy` and `result` have one element type.
  }];
  let arguments = (ins Train_Float:$dy, Train_Ids:$tokens);
  let results = (outs Train_Float:$result);
  let assemblyFormat =
    "$dy `at` $tokens attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

def Train_LinearOp : Train_ForwardOp<"linear"> {
  let summary = "A linear layer: x times the transposed weight, plus a bias.";
  let description = [{
    `result = x * weight^T + bias`, the weight as Hugging Face stores it.

    Constraints:
    - (C1) `x` is NxK, `weight` MxK, `result` NxM, `bias` M.
    - (C2) all element types are equal.

    Example:

    ```mlir
    %q = train.linear %x, %wq bias %bq
       : (tensor<256x64xf32>, tensor<64x64xf32>, tensor<64xf32>)
      -> tensor<256x64xf32>
    ```
  }];
  let arguments = (ins Train_Float:$x, Train_Float:$weight,
                       Optional<Train_Float>:$bias);
  let results = (outs Train_Float:$result);
  let assemblyFormat = [{
    $x `,` $weight (`bias` $bias^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_MatmulOp : Train_TensorOp<"matmul"> {
  let summary = "A matrix product, either side transposed.";
  let description = [{
    `result = op(a) * op(b)`, where `op` transposes if the flag is set; summed
    in f32, rounded once to the result's element type.

    Constraints:
    - (C1) `op(a)` is NxK, `op(b)` KxM, `result` NxM.
    - (C2) all element types are equal.
  }];
  let arguments = (ins Train_Float:$a, Train_Float:$b,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Train_Float:$result);
  let assemblyFormat = [{
    $a (`transposed` $transpose_a^)? `,` $b (`transposed` $transpose_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_ColumnSumOp : Train_TensorOp<"column_sum"> {
  let summary = "Sums over rows: the gradient of a bias.";
  let description = [{
    `result[j] = sum of x[i, j]`, in f32, rounded once.

    Constraints:
    - (C1) `x` is NxM, `result` M; one element type.
  }];
  let arguments = (ins Train_Float:$x);
  let results = (outs Train_Float:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

def Train_RMSNormOp : Train_ForwardOp<"rms_norm"> {
  let summary = "Scales each row to unit root mean square, then by a weight.";
  let description = [{
    `rstd[i] = 1 / sqrt(mean over j of x[i, j]^2 + eps)`,
    `result[i, j] = weight[j] * x[i, j] * rstd[i]`, computed in f32.

    Constraints:
    - (C1) `x` and `result` are NxD of one type, `weight` D, `rstd` N of f32.
    - (C2) `eps` is positive.
  }];
  let arguments = (ins Train_Float:$x, Train_Float:$weight, F64Attr:$eps);
  let results = (outs Train_Float:$result, Train_Float:$rstd);
  let assemblyFormat = [{
    $x `,` $weight `eps` $eps attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_RMSNormGradOp : Train_TensorOp<"rms_norm_grad"> {
  let summary = "The backward of rms_norm.";
  let description = [{
    With `h = x * rstd`: `dweight[j] = sum over i of dy[i, j] * h[i, j]`,
    `dx = rstd * (w*dy - h * mean over j of (w*dy * h))`, computed in f32.

    Constraints:
    - (C1) `dy`, `x` and `dx` are NxD of one type, `weight` and `dweight` D of
      one type, `rstd` N of f32.
  }];
  let arguments = (ins Train_Float:$dy, Train_Float:$x, Train_Float:$weight,
                       Train_Float:$rstd);
  let results = (outs Train_Float:$dx, Train_Float:$dweight);
  let assemblyFormat = [{
    $dy `,` $x `,` $weight `,` $rstd attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Train_RotaryOp : Train_ForwardOp<"rotary"> {
  let summary = "Rotates pairs of features by their position.";
  let description = [{
    Row `b*T + t` holds heads of `dim` features; feature j of a head pairs with
    feature j + dim/2 (the rotate-half form):

    ```
    result[j]         = x[j] * cos[t, j] - x[j + dim/2] * sin[t, j]
    result[j + dim/2] = x[j + dim/2] * cos[t, j] + x[j] * sin[t, j]
    ```

    for j < dim/2. `inverse` negates `sin`: the op's own backward.

    Constraints:
    - (C1) `cos` and `sin` are Tx(dim/2) of f32, not empty.
    - (C2) T divides the rows of `x`, and dim its columns.
    - (C3) `x` and `result` have one type.
  }];
  let arguments = (ins Train_Float:$x, Train_Float:$cos, Train_Float:$sin,
                       UnitAttr:$inverse);
  let results = (outs Train_Float:$result);
  let assemblyFormat = [{
    (`inverse` $inverse^)? $x `,` $cos `,` $sin attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_AttentionOp : Train_ForwardOp<"attention"> {
  let summary = "Causal grouped-query attention.";
  let description = [{
    For each sequence of `seq` rows, each query head h of `heads`, reading
    key/value head `h / (heads / kv_heads)`:

    ```
    s[t, u]   = scale * dot(q[t], k[u])     for u <= t
    lse[t]    = log sum over u of exp(s[t, u])
    result[t] = sum over u of exp(s[t, u] - lse[t]) * v[u]
    ```

    computed in f32. `lse` has a row a token and a column a head.

    Constraints:
    - (C1) `seq` divides the rows N; `kv_heads` divides `heads`.
    - (C2) `q` and `result` are Nx(heads*dim), `k` and `v` Nx(kv_heads*dim),
      all of one element type; `lse` is Nx(heads) of f32.
  }];
  let arguments = (ins Train_Float:$q, Train_Float:$k, Train_Float:$v,
                       I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       F64Attr:$scale);
  let results = (outs Train_Float:$result, Train_Float:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v `seq` $seq `heads` $heads `of` $kv_heads `scale` $scale
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_AttentionGradOp : Train_TensorOp<"attention_grad"> {
  let summary = "The backward of attention, from its output and lse.";
  let description = [{
    With `p[t, u] = exp(s[t, u] - lse[t])` and `d[t] = dot(dy[t], y[t])`:

    ```
    dv[u] = sum over t of p[t, u] * dy[t]
    ds    = p[t, u] * (dot(dy[t], v[u]) - d[t])
    dq[t] = scale * sum over u of ds[t, u] * k[u]
    dk[u] = scale * sum over t of ds[t, u] * q[t]
    ```

    dk and dv sum over the query heads that share a key/value head.

    Constraints:
    - (C1) as for `attention`; gradients have their operands' types.
  }];
  let arguments = (ins Train_Float:$dy, Train_Float:$q, Train_Float:$k,
                       Train_Float:$v, Train_Float:$y, Train_Float:$lse,
                       I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       F64Attr:$scale);
  let results = (outs Train_Float:$dq, Train_Float:$dk, Train_Float:$dv);
  let assemblyFormat = [{
    $dy `,` $q `,` $k `,` $v `,` $y `,` $lse
    `seq` $seq `heads` $heads `of` $kv_heads `scale` $scale
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pointwise and loss
//===----------------------------------------------------------------------===//

def Train_SigmoidOp : Train_ForwardOp<"sigmoid", [
  SameOperandsAndResultType,
]> {
  let summary = "1 / (1 + exp(-x)), pointwise.";
  let description = [{
    Named because its derivative `y * (1 - y)` stays finite where that of the
    written-out form does not. SiLU is `x * sigmoid(x)`.
  }];
  let arguments = (ins Train_Float:$x);
  let results = (outs Train_Float:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Train_CrossEntropyOp : Train_ForwardOp<"cross_entropy"> {
  let summary = "The summed loss over a vocabulary.";
  let description = [{
    `lse[i] = log sum over v of exp(logits[i, v])`; `loss` is the sum of
    `lse[i] - logits[i, labels[i]]` over rows whose label is not -100, and
    `count` the number of such rows; computed in f32. Labels are already
    shifted.

    Constraints:
    - (C1) `logits` is NxV, `labels` BxT with B*T = N, `lse` N of f32.
  }];
  let arguments = (ins Train_Float:$logits, Train_Ids:$labels);
  let results = (outs Train_F32Scalar:$loss, Train_F32Scalar:$count,
                      Train_Float:$lse);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_CrossEntropyGradOp : Train_TensorOp<"cross_entropy_grad"> {
  let summary = "The gradient of the summed loss, times a seed.";
  let description = [{
    `result[i, v] = seed * (exp(logits[i, v] - lse[i]) - [v = labels[i]])`, or
    0 where the label is -100; computed in f32.

    Constraints:
    - (C1) `logits` and `result` are NxV of one type, `labels` BxT with
      B*T = N, `lse` N of f32.
  }];
  let arguments = (ins Train_F32Scalar:$seed, Train_Float:$logits,
                       Train_Ids:$labels, Train_Float:$lse);
  let results = (outs Train_Float:$result);
  let assemblyFormat = [{
    $seed `,` $logits `,` $labels `,` $lse attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // CIUIC_DIALECT_TRAIN_TRAINTENSOROPS_TD
