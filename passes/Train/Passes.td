//===- Passes.td - Passes over the train dialect -----------*- tablegen -*-===//
//
// In the order in which a job passes them: differentiate, recompute-pointwise,
// append-optimizer and the gate verify-differentiated; lower-precision and
// verify-precision.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_TRAIN_PASSES_TD
#define CIUIC_PASSES_TRAIN_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// differentiate
//===----------------------------------------------------------------------===//

def DifferentiatePass
    : Pass<"ciuic-train-differentiate", "::mlir::ModuleOp"> {
  let summary = "Turns the forward into a micro-step and an evaluation step.";
  let description = [{
    Reverse mode over `@forward(tokens, labels) -> (loss, count)`: each op's
    own rule (`DifferentiableOpInterface`), applied from the loss back to the
    parameters. Only ops on a path from a trainable parameter to the loss get
    a backward; only operands on such a path get a gradient.

    ```mlir
    func.func @forward(%tokens: tensor<1x4xi32>, %labels: tensor<1x4xi32>)
        -> (tensor<f32>, tensor<f32>) {
      %w = train.read @w : tensor<8x2xf32>
      %x = train.embedding %tokens in %w {train.block = "embed"} : ...
      %y = train.linear %x, %w {train.block = "head"} : ...
      %loss, %count, %lse = train.cross_entropy %y, %labels
                            {train.block = "head"} : ...
      return %loss, %count : tensor<f32>, tensor<f32>
    }
    ```

    becomes `@eval_step`, which ends in

    ```mlir
      train.accumulate %loss, @metric.eval_loss : tensor<f32>
      train.accumulate %count, @metric.eval_tokens : tensor<f32>
    ```

    and `@micro_step`, where after the forward stands

    ```mlir
      train.accumulate %loss, @metric.loss {train.block = "head"}
      train.accumulate %count, @metric.tokens {train.block = "head"}
      // 1 / (tokens of a micro-batch * accumulation); all below also carry
      // train.backward and the train.block of the op whose backward they are.
      %seed = arith.constant {train.seed} dense<0.25> : tensor<f32>
      %dy = train.cross_entropy_grad %seed, %y, %labels, %lse : ...
      %dx = train.matmul %dy, %w : ...
      %dw0 = train.matmul %dy transposed, %x : ...
      %dw1 = train.embedding_grad %dx at %tokens : ...
      %dw = arith.addf %dw0, %dw1 : tensor<8x2xf32>
      train.accumulate %dw, @w.grad : tensor<8x2xf32>
    ```

    The backward of an op stands in the reverse order of the forward. Several
    contributions to one gradient are added in the order in which they arise
    (the use that is last in the forward first; within an op by operand), each
    as soon as it is known. A parameter's gradient is accumulated right after
    its last contribution.

    A frozen parameter gets no gradient. A trainable parameter that the loss
    does not depend on is warned about and frozen: an optimizer could not move
    it either.

    Requires: imported train IR, all floats f32. Ensures: no `@forward`;
    `@micro_step` and `@eval_step` without results; a gradient state for each
    trainable parameter, accumulated once in `@micro_step`; metric states
    `@metric.loss`, `@metric.tokens`, `@metric.eval_loss` and
    `@metric.eval_tokens`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let options = [
    Option<"accumulation", "accumulation", "int64_t", /*default=*/"1",
           "Micro-steps in an optimizer step.">,
  ];
}

//===----------------------------------------------------------------------===//
// recompute-pointwise
//===----------------------------------------------------------------------===//

def RecomputePointwisePass
    : Pass<"ciuic-train-recompute-pointwise", "::mlir::ModuleOp"> {
  let summary = "Computes cheap values again instead of keeping them.";
  let description = [{
    A pointwise value or a norm of the forward is computed again in the backward
    if only its own block's backward reads it, and if it is computed from
    constants, values that the backward reads anyway, and other values that are
    computed again. Then it need not live from the forward to the backward. In
    a Llama's block this holds for the outputs of its norms, and in SwiGLU for
    the sigmoid, the gated value and its product with `up`:

    ```mlir
    %n, %rstd = train.rms_norm %x, %w
    ...
    %s = train.sigmoid %gate
    %silu = arith.mulf %gate, %s
    %h = arith.mulf %silu, %up
    ...
    %ddown = train.matmul %dy transposed, %h {train.backward}
    %dup = arith.mulf %dh, %silu {train.backward}
    ```

    becomes

    ```mlir
    ...
    %s2 = train.sigmoid %gate {train.backward}
    %silu2 = arith.mulf %gate, %s2 {train.backward}
    %dup = arith.mulf %dh, %silu2 {train.backward}
    %h2 = arith.mulf %silu2, %up {train.backward}
    %ddown = train.matmul %dy transposed, %h2 {train.backward}
    ```

    A product that reads such a value comes after the pointwise ops beside it,
    so that one kernel computes them all in one pass.

    CSE leaves both apart: their attributes differ. The numbers are the same
    bits; run before ciuic-train-lower-precision it also keeps such values
    from being rounded.

    Requires: `@micro_step` with its backward. Ensures: no more ops in the
    forward, and no value of it is newly read by the backward.
  }];
}

//===----------------------------------------------------------------------===//
// append-optimizer
//===----------------------------------------------------------------------===//

def AppendOptimizerPass
    : Pass<"ciuic-train-append-optimizer", "::mlir::ModuleOp"> {
  let summary = "Adds the optimizer step and its states.";
  let description = [{
    Adds `@apply_step`, which reads what the micro-steps accumulated and
    gives every trainable parameter its next value:

    ```mlir
    func.func @apply_step() {
      %tokens = train.read @metric.tokens : tensor<f32>
      %dw = train.read @w.grad : tensor<8x2xf32>
      %sq = train.square_sum %dw : (tensor<8x2xf32>) -> tensor<f64>
      %one = arith.constant dense<1.0> : tensor<f32>
      %coef, %norm, %skip = train.grad_scale %sq, %tokens, %one slots 4.0
                            clip 1.0 : ...
      %step = train.read @step : tensor<i32>
      %lr = train.learning_rate %step by #train.schedule<...> : ...
      %w = train.read @w : tensor<8x2xf32>
      %m = train.read @w.exp_avg : tensor<8x2xf32>
      %v = train.read @w.exp_avg_sq : tensor<8x2xf32>
      %p1, %m1, %v1 = train.adam %w, %dw, %m, %v lr %lr coef %coef
                      step %step skip %skip {...} : ...
      train.write %p1, @w : tensor<8x2xf32>
      ...
      %next = train.advance %step unless %skip : ...
      train.write %next, @step : tensor<i32>
      // reports
    }
    ```

    Reports are f32 scalars for the log: `@report.loss` (the loss sum over
    the labelled tokens), `@report.grad_norm` (before clipping), `@report.lr`
    and `@report.skip`.

    Weight decay is on every parameter, biases and norms included, unless
    `no-decay` excludes it. Its patterns: `norm` takes one-dimensional
    parameters with a part of their name, between dots, that contains "norm"
    (`model.norm.weight`, `layers.0.input_layernorm.weight`); `bias` those
    whose last part is "bias"; any other text takes the parameters whose name
    contains it. An excluded parameter's update has decay 0.

    Requires: differentiated train IR. Ensures: `@apply_step` writes every
    trainable parameter and its moments once; `@step` counts applied steps.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect"];
  let options = [
    Option<"optimizer", "optimizer", "::ciuic::train::OptimizerKind",
           "::ciuic::train::OptimizerKind::AdamW", "The update rule.",
           [{::llvm::cl::values(
             clEnumValN(::ciuic::train::OptimizerKind::AdamW, "adamw",
                        "Adam, weights decay apart from the gradient"),
             clEnumValN(::ciuic::train::OptimizerKind::Adam, "adam",
                        "Adam, weights decay through the gradient"),
             clEnumValN(::ciuic::train::OptimizerKind::Sgd, "sgd",
                        "stochastic gradient descent with momentum"))}]>,
    Option<"kind", "kind", "::ciuic::train::ScheduleKind",
           "::ciuic::train::ScheduleKind::Constant",
           "The shape of the learning rate.",
           [{::llvm::cl::values(
             clEnumValN(::ciuic::train::ScheduleKind::Constant, "constant",
                        "base at every step"),
             clEnumValN(::ciuic::train::ScheduleKind::WarmupLR, "WarmupLR",
                        "from min to max, then constant"),
             clEnumValN(::ciuic::train::ScheduleKind::WarmupDecayLR,
                        "WarmupDecayLR", "from min to max, then down"),
             clEnumValN(::ciuic::train::ScheduleKind::WarmupCosineLR,
                        "WarmupCosineLR", "ratios of base, a half cosine"))}]>,
    Option<"base", "base", "double", "1e-3", "The optimizer's rate.">,
    Option<"min", "min", "double", "0.0", "The rate before warm-up.">,
    Option<"max", "max", "double", "1e-3", "The rate after warm-up.">,
    Option<"warmup", "warmup", "int64_t", "1000", "Steps of warm-up.">,
    Option<"total", "total", "int64_t", "0", "Steps of the schedule.">,
    Option<"logarithmic", "logarithmic", "bool", "true",
           "Warm up with the logarithm of the step, not the step.">,
    Option<"warmupRatio", "warmup-ratio", "double", "0.0",
           "WarmupCosineLR: share of base where warm-up starts.">,
    Option<"cosMinRatio", "cos-min-ratio", "double", "1e-4",
           "WarmupCosineLR: share of base where the cosine ends.">,
    Option<"beta1", "beta1", "double", "0.9", "Adam: memory of the mean.">,
    Option<"beta2", "beta2", "double", "0.999",
           "Adam: memory of the squares' mean.">,
    Option<"eps", "eps", "double", "1e-8", "Adam: added to the divisor.">,
    Option<"biasCorrection", "bias-correction", "bool", "true",
           "Adam: make up for moments that start at zero.">,
    Option<"momentum", "momentum", "double", "0.0",
           "SGD: memory of the gradient.">,
    Option<"nesterov", "nesterov", "bool", "false",
           "SGD: look ahead along the momentum.">,
    Option<"decay", "decay", "double", "0.0", "Weight decay.">,
    ListOption<"noDecay", "no-decay", "std::string",
               "Patterns of parameters without decay: norm, bias or a part "
               "of their names.">,
    Option<"clip", "clip", "double", "1.0",
           "Largest global gradient norm; 0 is off.">,
    Option<"accumulation", "accumulation", "int64_t", "1",
           "Micro-steps in an optimizer step.">,
    Option<"checkOverflow", "check-overflow", "bool", "false",
           "Skip a step whose gradients hold inf or NaN.">,
  ];
}

//===----------------------------------------------------------------------===//
// The gate of the phase differentiate
//===----------------------------------------------------------------------===//

def VerifyDifferentiatedPass
    : Pass<"ciuic-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "Checks that every trainable state has one gradient.";
  let description = [{
    Names the first state or op at fault. What then holds:

    - `@micro_step`, `@apply_step` and `@eval_step` are there, `@forward` is
      not; none has results.
    - Each trainable parameter has exactly one gradient state, f32 and of its
      shape, which `@micro_step` accumulates exactly once; no other parameter
      has one.
    - `@apply_step` writes each trainable parameter and each moment exactly
      once and no frozen one, and accumulates nothing.
    - `@micro_step` and `@eval_step` write no state; `@eval_step` holds no
      backward op and accumulates only metrics.
    - Where the forward names blocks (`train.block`), every op of the backward
      names one.
  }];
}

//===----------------------------------------------------------------------===//
// lower-precision
//===----------------------------------------------------------------------===//

def LowerPrecisionPass
    : Pass<"ciuic-train-lower-precision", "::mlir::ModuleOp"> {
  let summary = "Computes in 16 bits over f32 masters, with loss scaling.";
  let description = [{
    With `compute-type=f32` nothing changes. Otherwise every parameter, norms
    and biases included, takes the 16-bit type, and each trainable one gets a
    `master` state of f32 with the same initialiser: the master starts with
    the parameter's values before they are rounded.

    ```mlir
    %gate = train.linear %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>)
          -> tensor<8x4xf32>
    %s = train.sigmoid %gate : tensor<8x4xf32>
    %silu = arith.mulf %gate, %s : tensor<8x4xf32>
    %y = train.linear %silu, %w : ...
    ```

    becomes

    ```mlir
    %gate = train.linear %x, %w : (tensor<8x4xbf16>, tensor<4x4xbf16>)
          -> tensor<8x4xbf16>
    %wide = arith.extf %gate : tensor<8x4xbf16> to tensor<8x4xf32>
    %s = train.sigmoid %wide : tensor<8x4xf32>
    %silu32 = arith.mulf %wide, %s : tensor<8x4xf32>
    %silu = arith.truncf %silu32 : tensor<8x4xf32> to tensor<8x4xbf16>
    %y = train.linear %silu, %w : ...
    ```

    Where values are rounded, always to nearest, ties to even:

    - An op with a declared signature (`SignatureOpInterface`) takes and gives
      16-bit values where it says so. It sums in f32 and rounds each such
      result once. Losses, row statistics (`rstd`, `lse`) and rotary tables
      stay f32.
    - A pointwise op (`arith`, `math`, `train.sigmoid`) computes in f32; its
      result is rounded if any operand came from a 16-bit value.
    - It is not rounded, and stays f32, if every use of it is a pointwise op
      of the same block on the same side (forward or backward). So what is kept
      from the forward for the backward is 16-bit, and both sides read the same
      rounded value.
    - Gradients of activations and parameters are 16-bit. Each micro-step's
      parameter gradient is added to the gradient state in f32.
    - `@apply_step` computes in f32 on gradients, moments and masters, and
      writes the rounded new master to the parameter.

    f16 scales the loss: the seed of the backward is multiplied by the state
    `@loss_scale`, gradients are divided by it when they are scaled, and a
    step with inf or NaN in any gradient is skipped (`check`). With
    `loss-scale=0` the scale is dynamic: `train.update_loss_scale` runs at the
    end of `@apply_step` over `@scaler.iteration`, `@scaler.last_overflow` and
    `@scaler.hysteresis`, and `@report.stopped` becomes 1 when an overflow
    meets the smallest scale.

    Requires: what ciuic-verify-differentiated ensures, all f32. Ensures: what
    ciuic-verify-precision checks.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let options = [
    Option<"computeType", "compute-type", "::ciuic::train::ComputeType",
           "::ciuic::train::ComputeType::F32",
           "The type of parameters and activations.",
           [{::llvm::cl::values(
             clEnumValN(::ciuic::train::ComputeType::F32, "f32",
                        "no change"),
             clEnumValN(::ciuic::train::ComputeType::BF16, "bf16",
                        "8 bits of precision, the range of f32"),
             clEnumValN(::ciuic::train::ComputeType::F16, "f16",
                        "11 bits of precision, a scaled loss"))}]>,
    Option<"lossScale", "loss-scale", "double", "0.0",
           "f16: the fixed scale of the loss; 0 makes it dynamic.">,
    Option<"initialScalePower", "initial-scale-power", "int64_t", "16",
           "A dynamic scale starts at 2 to this power.">,
    Option<"window", "window", "int64_t", "1000",
           "Good steps in a row after which the scale doubles.">,
    Option<"hysteresis", "hysteresis", "int64_t", "2",
           "The overflow, counted so, that halves the scale.">,
    Option<"consecutive", "consecutive", "bool", "false",
           "Refill the hysteresis at every good step.">,
    Option<"min", "min", "double", "1.0",
           "The scale at which an overflow ends the training.">,
    Option<"checkOverflow", "check-overflow", "bool", "false",
           "bf16: skip a step whose gradients hold inf or NaN.">,
  ];
}

//===----------------------------------------------------------------------===//
// The gate of the phase precision
//===----------------------------------------------------------------------===//

def VerifyPrecisionPass
    : Pass<"ciuic-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Checks that each op has the types that it declares.";
  let description = [{
    Names the first state or op at fault. What then holds:

    - All parameters have one type: f32, bf16 or f16. Gradients, masters,
      moments, tables and metrics are f32.
    - Each trainable 16-bit parameter has one master of its shape and
      initialiser; there are no others.
    - In `@micro_step` and `@eval_step` each op with a signature has 16-bit
      operands and results where it says so and f32 elsewhere; pointwise ops
      compute in f32; gradients are accumulated from the parameters' type and
      metrics from f32.
    - `@apply_step` writes each master once, and its parameter once, as the
      rounding of the master's next value.
    - f16: gradients are checked for inf and NaN and divided by `@loss_scale`,
      by which the backward's seed is multiplied.
  }];
}

#endif // CIUIC_PASSES_TRAIN_PASSES_TD
