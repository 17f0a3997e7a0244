//===- TrainUpdateOps.td - The optimizer step's maths ------*- tablegen -*-===//
//
// Scalars are zero-dimensional tensors: f32 values, i32 counters, f64 sums.
// `skip` is 1.0 when the step is to change nothing, else 0.0.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_DIALECT_TRAIN_TRAINUPDATEOPS_TD
#define CIUIC_DIALECT_TRAIN_TRAINUPDATEOPS_TD

include "dialect/Train/TrainStateOps.td"

class Train_UpdateOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, !listconcat([
        Pure,
        DeclareOpInterfaceMethods<Train_CostOpInterface, ["getFlops"]>,
      ], traits)>;

def Train_SquareSumOp : Train_UpdateOp<"square_sum"> {
  let summary = "The sum of the squares of all elements of all operands.";
  let description = [{
    Summed in f64, so that finite gradients give a finite sum, and inf or NaN
    in any of them an infinite or NaN one.
  }];
  let arguments = (ins Variadic<Train_Float>:$values);
  let results = (outs Train_F64Scalar:$result);
  let assemblyFormat =
    "$values attr-dict `:` functional-type(operands, results)";
}

def Train_GradScaleOp : Train_UpdateOp<"grad_scale"> {
  let summary = "What every gradient is to be multiplied by.";
  let description = [{
    ```
    factor = slots / max(count, 1)
    norm   = sqrt(square_sum) * factor / scale
    coef   = factor / scale * (clip > 0 ? min(1, clip / (norm + 1e-6)) : 1)
    skip   = check and square_sum is inf or NaN
    ```

    `slots` counts all token slots of a global batch, `count` the labelled
    ones: so masked labels are normalised over the whole batch.
    Computed as in `runtime/kernels/scalar/GradScale.h`.

    Constraints:
    - (C1) `slots` is positive, `clip` not negative.
  }];
  let arguments = (ins Train_F64Scalar:$square_sum, Train_F32Scalar:$count,
                       Train_F32Scalar:$scale, F64Attr:$slots, F64Attr:$clip,
                       UnitAttr:$check);
  let results = (outs Train_F32Scalar:$coef, Train_F32Scalar:$norm,
                      Train_F32Scalar:$skip);
  let assemblyFormat = [{
    $square_sum `,` $count `,` $scale `slots` $slots `clip` $clip
    (`check` $check^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_LearningRateOp : Train_UpdateOp<"learning_rate"> {
  let summary = "The rate of the step that follows `step` applied ones.";
  let arguments = (ins Train_I32Scalar:$step, Train_ScheduleAttr:$schedule);
  let results = (outs Train_F32Scalar:$result);
  let assemblyFormat = [{
    $step `by` $schedule attr-dict `:` functional-type(operands, results)
  }];
}

def Train_AdvanceOp : Train_UpdateOp<"advance"> {
  let summary = "Counts a step unless it is skipped.";
  let arguments = (ins Train_I32Scalar:$step, Train_F32Scalar:$skip);
  let results = (outs Train_I32Scalar:$result);
  let assemblyFormat =
    "$step `unless` $skip attr-dict `:` functional-type(operands, results)";
}

def Train_UpdateLossScaleOp : Train_UpdateOp<"update_loss_scale"> {
  let summary = "One step of the dynamic loss scale's state machine.";
  let description = [{
    DeepSpeed ZeRO's machine, as `runtime/kernels/scalar/LossScale.h` has it:
    an overflow (`skip` = 1) burns hysteresis, then halves the scale down to
    `min`; `stopped` becomes 1 when it is there already. `window` good steps
    in a row double it.

    Constraints:
    - (C1) `window` and `hysteresis` are at least 1, `min` is positive.
  }];
  let arguments = (ins Train_F32Scalar:$scale, Train_I32Scalar:$iteration,
                       Train_I32Scalar:$last_overflow,
                       Train_I32Scalar:$hysteresis_left,
                       Train_F32Scalar:$skip,
                       I64Attr:$window, I64Attr:$hysteresis, F64Attr:$min,
                       UnitAttr:$consecutive);
  let results = (outs Train_F32Scalar:$next_scale,
                      Train_I32Scalar:$next_iteration,
                      Train_I32Scalar:$next_last_overflow,
                      Train_I32Scalar:$next_hysteresis,
                      Train_F32Scalar:$stopped);
  let assemblyFormat = [{
    $scale `,` $iteration `,` $last_overflow `,` $hysteresis_left `,` $skip
    `window` $window `hysteresis` $hysteresis `min` $min
    (`consecutive` $consecutive^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_AdamOp : Train_UpdateOp<"adam"> {
  let summary = "Adam or AdamW on one tensor or on a chunk of a bucket.";
  let description = [{
    With g = coef * grad, t = step + 1:

    ```
    coupled decay:   g += decay * p
    m' = beta1*m + (1-beta1)*g
    v' = beta2*v + (1-beta2)*g*g
    decoupled decay: p -= lr * decay * p
    p' = p - lr/(1-beta1^t) * m' / (sqrt(v')/sqrt(1-beta2^t) + eps)
    ```

    in f32. Without `bias_correction` both corrections are 1. If `skip` is not
    0 the results are the operands. `undecayed` lists element ranges
    [begin, end) of the whole bucket (or tensor) that take no decay, as pairs;
    a chunk of rank r starts at element r * size.

    Constraints:
    - (C1) `p`, `grad`, `m`, `v` and the results have one shape of f32.
    - (C2) `undecayed` holds pairs, rising and disjoint.
    - (C3) betas are in [0, 1), `eps` is positive or 0, `decay` not negative.
  }];
  let arguments = (ins Train_Float:$p, Train_Float:$grad, Train_Float:$m,
                       Train_Float:$v, Train_F32Scalar:$lr,
                       Train_F32Scalar:$coef, Train_I32Scalar:$step,
                       Train_F32Scalar:$skip,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps,
                       F64Attr:$decay, UnitAttr:$decoupled,
                       UnitAttr:$bias_correction,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$undecayed);
  let results = (outs Train_Float:$next_p, Train_Float:$next_m,
                      Train_Float:$next_v);
  let assemblyFormat = [{
    $p `,` $grad `,` $m `,` $v `lr` $lr `coef` $coef `step` $step `skip` $skip
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Train_SGDOp : Train_UpdateOp<"sgd"> {
  let summary = "Stochastic gradient descent with momentum.";
  let description = [{
    With g = coef * grad + decay * p:

    ```
    m' = momentum*m + g          (at the first step m' = g, since m is 0)
    p' = p - lr * (nesterov ? g + momentum*m' : m')
    ```

    in f32, as torch.optim.SGD with dampening 0. `undecayed` and `skip` as for
    `adam`.

    Constraints:
    - (C1) `p`, `grad`, `m` and the results have one shape of f32.
    - (C2) `undecayed` holds pairs, rising and disjoint.
    - (C3) `momentum` and `decay` are not negative.
  }];
  let arguments = (ins Train_Float:$p, Train_Float:$grad, Train_Float:$m,
                       Train_F32Scalar:$lr, Train_F32Scalar:$coef,
                       Train_F32Scalar:$skip,
                       F64Attr:$momentum, F64Attr:$decay, UnitAttr:$nesterov,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$undecayed);
  let results = (outs Train_Float:$next_p, Train_Float:$next_m);
  let assemblyFormat = [{
    $p `,` $grad `,` $m `lr` $lr `coef` $coef `skip` $skip
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // CIUIC_DIALECT_TRAIN_TRAINUPDATEOPS_TD
