//===- TrainStateOps.td - State and access to it -----------*- tablegen -*-===//
#ifndef CIUIC_DIALECT_TRAIN_TRAINSTATEOPS_TD
#define CIUIC_DIALECT_TRAIN_TRAINSTATEOPS_TD

include "dialect/Train/TrainDialect.td"
include "dialect/Train/TrainInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Train_Op<string mnemonic, list<Trait> traits = []>
    : Op<Train_Dialect, mnemonic, traits>;

/// Static float tensors: the values of a training step.
def Train_Float : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def Train_F32Scalar : 0DTensorOf<[F32]>;
def Train_I32Scalar : 0DTensorOf<[I32]>;
def Train_F64Scalar : 0DTensorOf<[F64]>;
def Train_Ids : StaticShapeTensorOf<[I32]>;

def Train_StateOp : Train_Op<"state", [Symbol]> {
  let summary = "Declares a tensor that lives from step to step.";
  let description = [{
    `role` says what it is: `parameter`, `gradient` (accumulated over a step,
    zero at its start), `master` (the f32 copy of a 16-bit parameter),
    `moment` (of the optimizer; `slot` is its name there), `table` (constant),
    `metric` (accumulated over a step like a gradient) or `scalar` (counters,
    rates, the loss scale). `of` names the parameter or bucket that a
    gradient, master or moment belongs to.

    The initialiser is symbolic: no file ever holds a dense constant.

    After sharding a parameter is stored inside a bucket: `in @bucket at N`
    gives its place in elements, the parameter itself is no longer read or
    written, and states `of` the bucket hold its data, whole or, if `sharded`,
    the chunk of one rank.

    Constraints:
    - (C1) `init` is one of the `train` initialisers.
    - (C2) a `gradient`, `master` or `moment` names its `of`; others do not,
      except a `parameter` that stores a bucket.
    - (C3) only a `parameter` is `trainable`, or `in` a bucket.
    - (C4) a `rope` initialiser fills `tensor<T x dim/2>`.
    - (C5) `in` and `at` come together, and `at` is not negative.
    - (C6) a moment has a `slot`.

    Example:

    ```mlir
    train.state trainable parameter @model.norm.weight : tensor<64xf32>
        init #train.constant<1.0>
    train.state gradient @model.norm.weight.grad of @model.norm.weight
        : tensor<64xf32> init #train.constant<0.0>
    ```
  }];
  let arguments = (ins
    UnitAttr:$trainable,
    Train_RoleAttr:$role,
    SymbolNameAttr:$sym_name,
    OptionalAttr<FlatSymbolRefAttr>:$of,
    OptionalAttr<StrAttr>:$slot,
    TypeAttrOf<AnyStaticShapeTensor>:$type,
    AnyAttr:$init,
    OptionalAttr<FlatSymbolRefAttr>:$bucket,
    OptionalAttr<I64Attr>:$offset,
    UnitAttr:$sharded,
    DefaultValuedAttr<Train_SpaceAttr, "::ciuic::train::Space::Device">:$space
  );
  let assemblyFormat = [{
    (`trainable` $trainable^)? `` $role $sym_name (`of` $of^)? (`slot` $slot^)?
    (`sharded` $sharded^)? `:` $type `init` $init
    (`in` $bucket^ `at` $offset)? (`space` `` $space^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Train_ReadOp : Train_Op<"read", [
  Pure, // Always the value on entry, whatever is written later.
  DeclareOpInterfaceMethods<SymbolUserOpInterface>,
  DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
]> {
  let summary = "The value of a state as the function was entered.";
  let description = [{
    Constraints:
    - (C1) `state` names a `train.state` of the same type.

    Example:

    ```mlir
    %w = train.read @model.norm.weight : tensor<64xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}

def Train_WriteOp : Train_Op<"write", [
  DeclareOpInterfaceMethods<SymbolUserOpInterface>,
  MemoryEffects<[MemWrite]>,
]> {
  let summary = "Gives a state its next value.";
  let description = [{
    Reads in the same function still see the old value: a function is
    mathematics, and what is updated in place is decided when it is lowered.

    Constraints:
    - (C1) `state` names a `train.state` of the same type.
  }];
  let arguments = (ins AnyStaticShapeTensor:$value, FlatSymbolRefAttr:$state);
  let assemblyFormat = "$value `,` $state attr-dict `:` type($value)";
}

def Train_AccumulateOp : Train_Op<"accumulate", [
  DeclareOpInterfaceMethods<SymbolUserOpInterface>,
  MemoryEffects<[MemWrite]>,
]> {
  let summary = "Adds a value to a gradient or metric.";
  let description = [{
    The state is zero at the start of each step (each sequence of micro-steps
    that ends in an apply step). A 16-bit value is extended before it is added.

    Constraints:
    - (C1) `state` names a `gradient` or `metric` state of the same shape,
      whose element type is at least as wide as the value's.
  }];
  let arguments = (ins Train_Float:$value, FlatSymbolRefAttr:$state);
  let assemblyFormat = "$value `,` $state attr-dict `:` type($value)";
}

def Train_RecomputeOp : Train_Op<"recompute", [
  IsolatedFromAbove, SingleBlock, Pure,
]> {
  let summary = "Computes forward values again, fenced off from the forward.";
  let description = [{
    The region repeats ops of the forward for the backward's use. Its operands
    are its only inputs, so neither CSE nor canonicalization can see that it
    repeats anything.

    Constraints:
    - (C1) operands and block arguments agree, results and yielded values too.
  }];
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$inputs,
                       StrAttr:$label);
  let results = (outs Variadic<AnyStaticShapeTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $label `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)
    $body
  }];
  let hasVerifier = 1;
}

def Train_YieldOp : Train_Op<"yield", [
  Pure, Terminator, HasParent<"RecomputeOp">,
]> {
  let summary = "Ends a recompute region with its results.";
  let arguments = (ins Variadic<AnyStaticShapeTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif // CIUIC_DIALECT_TRAIN_TRAINSTATEOPS_TD
