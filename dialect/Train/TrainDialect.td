//===- TrainDialect.td - The train dialect, its attributes -*- tablegen -*-===//
//
// Files of this dialect, in the order in which they include one another:
//   TrainDialect.td     the dialect, its enums and attributes
//   TrainInterfaces.td  what an op says of itself: derivative, cost, signature
//   TrainStateOps.td    state and access to it
//   TrainTensorOps.td   the mathematics of forward and backward
//   TrainUpdateOps.td   the mathematics of the optimizer step
//   TrainOps.td         all of them, for TableGen
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_DIALECT_TRAIN_TRAINDIALECT_TD
#define CIUIC_DIALECT_TRAIN_TRAINDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::ciuic::train";
  let summary = "One training step as mathematics on tensors.";
  let description = [{
    ```
    config.json -> train -> train + comm -> sched -> bundle
    ```

    A module holds the *state* of a training job (`train.state`: parameters,
    gradients, moments, counters) and functions over it, told apart by the
    names `@forward` (what a model is imported as), `@micro_step` (forward,
    backward, accumulate), `@apply_step` (norm, clip, update) and `@eval_step`
    (forward only). Activations are two-dimensional: a row a token, `rows =
    batch * sequence`, a column a feature; so a matrix product is two-
    dimensional too and no reshape is ever needed. Pointwise work is `arith`
    and `math` on tensors.

    `tokens` and `labels` are `tensor<BxTxi32>`. `labels[b, t]` is the token
    that follows `tokens[b, t]` (already shifted), or -100: not counted.

    Functions read a state at most once, before its first use, and write it at
    most once. Names of the user's tensors are the symbol names of parameters
    and travel as NameLocs.
  }];
  let useDefaultAttributePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

def Train_Role : I32EnumAttr<"Role", "What a state is to the training step", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"Gradient", 1, "gradient">,
  I32EnumAttrCase<"Master", 2, "master">,
  I32EnumAttrCase<"Moment", 3, "moment">,
  I32EnumAttrCase<"Table", 4, "table">,
  I32EnumAttrCase<"Metric", 5, "metric">,
  I32EnumAttrCase<"Scalar", 6, "scalar">,
]> {
  let cppNamespace = "::ciuic::train";
  let genSpecializedAttr = 0;
}
def Train_RoleAttr : EnumAttr<Train_Dialect, Train_Role, "role"> {
  let assemblyFormat = "$value";
}

def Train_Space : I32EnumAttr<"Space", "Which memory holds a state", [
  I32EnumAttrCase<"Device", 0, "device">,
  I32EnumAttrCase<"Host", 1, "host">,
  I32EnumAttrCase<"Nvme", 2, "nvme">,
]> {
  let cppNamespace = "::ciuic::train";
  let genSpecializedAttr = 0;
}
def Train_SpaceAttr : EnumAttr<Train_Dialect, Train_Space, "space"> {
  let assemblyFormat = "$value";
}

def Train_TablePart : I32EnumAttr<"TablePart", "Which half of a rotary table", [
  I32EnumAttrCase<"Cos", 0, "cos">,
  I32EnumAttrCase<"Sin", 1, "sin">,
]> {
  let cppNamespace = "::ciuic::train";
}

def Train_RopeScaling
    : I32EnumAttr<"RopeScaling", "How rotary frequencies are stretched", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Linear", 1, "linear">,
  I32EnumAttrCase<"Llama3", 2, "llama3">,
]> {
  let cppNamespace = "::ciuic::train";
}

def Train_ScheduleKind
    : I32EnumAttr<"ScheduleKind", "The shape of the learning rate", [
  I32EnumAttrCase<"Constant", 0, "constant">,
  I32EnumAttrCase<"WarmupLR", 1, "WarmupLR">,
  I32EnumAttrCase<"WarmupDecayLR", 2, "WarmupDecayLR">,
  I32EnumAttrCase<"WarmupCosineLR", 3, "WarmupCosineLR">,
]> {
  let cppNamespace = "::ciuic::train";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// A double that TableGen's attributes can hash, parse and print exactly.
def Train_Real : AttrOrTypeParameter<"::ciuic::train::Real", "a double">;
class Train_RealOr<string value>
    : DefaultValuedParameter<"::ciuic::train::Real",
                             "::ciuic::train::Real(" # value # ")">;

class Train_Attr<string name, string attrMnemonic>
    : AttrDef<Train_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Train_ConstantInitAttr : Train_Attr<"ConstantInit", "constant"> {
  let summary = "Every element starts at one value.";
  let parameters = (ins Train_Real:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Train_NormalInitAttr : Train_Attr<"NormalInit", "normal"> {
  let summary = "Elements start normally distributed around 0.";
  let description = [{
    Element `i` is drawn by Philox-4x32-10 from (seed, name of the state, `i`):
    it depends on neither the layout nor the number of devices. A master takes
    its parameter's name, so that it starts with the values that the parameter
    rounds.
  }];
  let parameters = (ins Train_Real:$std);
  let assemblyFormat = "`<` `std` `=` $std `>`";
  let genVerifyDecl = 1;
}

def Train_RopeInitAttr : Train_Attr<"RopeInit", "rope"> {
  let summary = "A table of cosines or sines for rotary embeddings.";
  let description = [{
    Fills `tensor<T x dim/2>`: element (t, j) is the cosine or sine of
    `t * f_j`, `f_j = theta^(-2j/dim)`, stretched as `scaling` says:

    - `none`: `f_j`.
    - `linear`: `f_j / factor`.
    - `llama3`: with wavelength `w = 2*pi/f_j`: `f_j` where
      `w < original/high`, `f_j / factor` where `w > original/low`, and
      between them `(1-s) f_j/factor + s f_j`,
      `s = (original/w - low) / (high - low)`.

    Computed in double precision and rounded once.
  }];
  let parameters = (ins
    EnumParameter<Train_TablePart>:$part,
    "int64_t":$dim,
    Train_Real:$theta,
    EnumParameter<Train_RopeScaling>:$scaling,
    Train_RealOr<"1.0">:$factor,
    Train_RealOr<"1.0">:$low,
    Train_RealOr<"4.0">:$high,
    DefaultValuedParameter<"int64_t", "8192">:$original
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Train_ScheduleAttr : Train_Attr<"Schedule", "schedule"> {
  let summary = "The learning rate as a function of applied steps.";
  let description = [{
    DeepSpeed's schedulers of the same names. `base` is the optimizer's rate.
    The formulas are those of `runtime/kernels/scalar/LearningRate.h`.
    Rates and ratios are finite and not negative, neither are `warmup` and
    `total`.
  }];
  let parameters = (ins
    EnumParameter<Train_ScheduleKind>:$kind,
    Train_Real:$base,
    Train_RealOr<"0.0">:$min,
    Train_RealOr<"0.0">:$max,
    DefaultValuedParameter<"int64_t", "0">:$warmup,
    DefaultValuedParameter<"int64_t", "0">:$total,
    DefaultValuedParameter<"bool", "true">:$logarithmic,
    Train_RealOr<"0.0">:$warmup_ratio,
    Train_RealOr<"0.0001">:$cos_min_ratio
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // CIUIC_DIALECT_TRAIN_TRAINDIALECT_TD
