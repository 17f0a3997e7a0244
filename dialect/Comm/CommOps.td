//===- CommOps.td - Buckets and collectives ----------------*- tablegen -*-===//
#ifndef CIUIC_DIALECT_COMM_COMMOPS_TD
#define CIUIC_DIALECT_COMM_COMMOPS_TD

include "dialect/Comm/CommDialect.td"
include "dialect/Train/TrainDialect.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Comm_Op<string mnemonic, list<Trait> traits = []>
    : Op<Comm_Dialect, mnemonic, traits>;

/// One-dimensional: a bucket or a chunk of one.
def Comm_Flat : StaticShapeTensorOf<[F16, BF16, F32]>;
def Comm_Any : StaticShapeTensorOf<[F16, BF16, F32, F64]>;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

def Comm_BucketOp : Comm_Op<"bucket", [Symbol]> {
  let summary = "Declares the layout that parameters of a block share.";
  let description = [{
    Its members are the `train.state parameter`s that are `in` it. `elements`
    counts members, alignment and padding: it is `chunk` times the ranks of
    `axis`.

    `persistent` parameters stay whole on every rank although the optimizer
    state is sharded: they are below the persistence threshold.

    Constraints:
    - (C1) `elements = chunk * size(axis)`, both positive.
    - (C2) `chunk` is a multiple of 128.

    Example:

    ```mlir
    comm.bucket @layers.0 over #dp elements 4096 chunk 512 trainable
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Comm_AxisAttr:$axis,
                       I64Attr:$elements, I64Attr:$chunk,
                       UnitAttr:$trainable, UnitAttr:$persistent);
  let assemblyFormat = [{
    $sym_name `over` $axis `elements` $elements `chunk` $chunk
    (`trainable` $trainable^)? (`persistent` $persistent^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Comm_UnpackOp : Comm_Op<"unpack", [Pure]> {
  let summary = "One member of a whole bucket, in its own shape.";
  let description = [{
    Elements [at, at + size) of `bucket`, in row-major order.

    Constraints:
    - (C1) `bucket` is one-dimensional, of the result's element type.
    - (C2) the elements lie inside it.

    Example:

    ```mlir
    %w = comm.unpack %full at 1280 : tensor<8192xbf16> -> tensor<64x16xbf16>
    ```
  }];
  let arguments = (ins Comm_Flat:$bucket, I64Attr:$at);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat =
    "$bucket `at` $at attr-dict `:` type($bucket) `->` type($result)";
  let hasVerifier = 1;
}

def Comm_PackOp : Comm_Op<"pack", [Pure]> {
  let summary = "Lays members out as a whole bucket.";
  let description = [{
    Member i fills elements [at[i], at[i] + size_i), row-major; all other
    elements are zero.

    Constraints:
    - (C1) the result is one-dimensional, of the members' element type.
    - (C2) members lie inside it in rising order and do not overlap.
  }];
  let arguments = (ins Variadic<Comm_Flat>:$members, DenseI64ArrayAttr:$at);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat = [{
    $members `at` $at attr-dict `:` functional-type($members, $result)
  }];
  let hasVerifier = 1;
}

def Comm_ChunkOp : Comm_Op<"chunk", [Pure]> {
  let summary = "This rank's chunk of a whole bucket.";
  let description = [{
    Rank r of `axis` gets elements [r*n, (r+1)*n), n the result's size.

    Constraints:
    - (C1) both are one-dimensional of one type, and
      `size(whole) = size(result) * size(axis)`.
  }];
  let arguments = (ins Comm_Flat:$whole, Comm_AxisAttr:$axis);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat =
    "$whole `of` $axis attr-dict `:` type($whole) `->` type($result)";
  let hasVerifier = 1;
}

def Comm_TransferOp : Comm_Op<"transfer", [Pure, SameOperandsAndResultType]> {
  let summary = "Moves a value between device and host memory.";
  let description = [{
    `use` names the group of uses that a copy serves, as with `all_gather`:
    copies of one value for different groups are different ops, so that the
    value is not kept from one group to the other.

    Constraints:
    - (C1) `use` is not empty where it is given.

    Example:

    ```mlir
    %g_host = comm.transfer %g to host : tensor<512xf32>
    %own = comm.transfer %chunk to device for "layers.3.bwd" : tensor<512xbf16>
    ```
  }];
  let arguments = (ins Comm_Flat:$input, Train_SpaceAttr:$space,
                       OptionalAttr<StrAttr>:$use);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat = [{
    $input `to` `` $space (`for` $use^)? attr-dict `:` type($input)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input,
                                 "::ciuic::train::Space":$space), [{
    build($_builder, $_state, input, space, ::mlir::StringAttr());
  }]>];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

def Comm_AllGatherOp : Comm_Op<"all_gather", [
  Pure,
  DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
]> {
  let summary = "Joins every rank's chunk into the whole.";
  let description = [{
    Each rank of `axis` contributes `input`; every rank receives the chunks
    joined in rank order.

    `use` names the group of uses that this gather serves. Two gathers of one
    chunk for different groups are different ops, so CSE leaves them apart:
    merging them would keep the whole bucket alive from one use to the other.

    Constraints:
    - (C1) `input` and `result` are one-dimensional of one element type.
    - (C2) `size(result) = size(input) * size(axis)`.
    - (C3) `use` is not empty.

    Example:

    ```mlir
    %dp_full = comm.all_gather %chunk over #dp for "layers.3.bwd"
             : tensor<512xbf16> -> tensor<4096xbf16>
    ```
  }];
  let arguments = (ins Comm_Flat:$input, Comm_AxisAttr:$axis, StrAttr:$use);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat = [{
    $input `over` $axis `for` $use attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Comm_ReduceScatterOp : Comm_Op<"reduce_scatter", [
  Pure,
  DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
]> {
  let summary = "Combines the ranks' buckets; each keeps its chunk.";
  let description = [{
    Rank r receives the elements [r*n, (r+1)*n) of the sum or mean over all
    ranks of `input`, added in rank order in f32 and rounded once.

    Constraints:
    - (C1) `input` and `result` are one-dimensional of one element type.
    - (C2) `size(input) = size(result) * size(axis)`.
  }];
  let arguments = (ins Comm_Flat:$input, Comm_ReductionAttr:$reduction,
                       Comm_AxisAttr:$axis, StrAttr:$use);
  let results = (outs Comm_Flat:$result);
  let assemblyFormat = [{
    `` $reduction $input `over` $axis `for` $use attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Comm_AllReduceOp : Comm_Op<"all_reduce", [
  Pure, SameOperandsAndResultType,
]> {
  let summary = "Combines the ranks' values; each gets the result.";
  let description = [{
    The sum or mean over all ranks of `input`, added in rank order (16-bit
    values in f32) and rounded once: the same bits on every rank.

    Constraints:
    - (C1) `use` is not empty.
  }];
  let arguments = (ins Comm_Any:$input, Comm_ReductionAttr:$reduction,
                       Comm_AxisAttr:$axis, StrAttr:$use);
  let results = (outs Comm_Any:$result);
  let assemblyFormat = [{
    `` $reduction $input `over` $axis `for` $use attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
}

#endif // CIUIC_DIALECT_COMM_COMMOPS_TD
