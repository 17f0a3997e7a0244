//===- CommDialect.td - The comm dialect, its attributes ---*- tablegen -*-===//
#ifndef CIUIC_DIALECT_COMM_COMMDIALECT_TD
#define CIUIC_DIALECT_COMM_COMMDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Comm_Dialect : Dialect {
  let name = "comm";
  let cppNamespace = "::ciuic::comm";
  let summary = "What ranks say to each other, and how state is laid out.";
  let description = [{
    ```
    train -> train + comm -> sched
    ```

    Every rank runs the same functions on its own values; `comm` ops are where
    the ranks meet. State is laid out in *buckets*: the parameters of one
    block of the model, flat, back to back at offsets that are multiples of
    128 elements, padded to `ranks * chunk`. Rank r owns the elements
    [r * chunk, (r + 1) * chunk) of a bucket in every dtype, so parameters,
    gradients, master copies and moments share one layout. `unpack` and `pack`
    are views, not copies, once the program is lowered.
  }];
  // comm.transfer names a memory space of train's.
  let dependentDialects = ["::ciuic::train::TrainDialect"];
  let useDefaultAttributePrinterParser = 1;
}

def Comm_Reduction : I32EnumAttr<"Reduction", "How ranks' values combine", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Mean", 1, "mean">,
]> {
  let cppNamespace = "::ciuic::comm";
  let genSpecializedAttr = 0;
}
def Comm_ReductionAttr : EnumAttr<Comm_Dialect, Comm_Reduction, "reduction"> {
  let assemblyFormat = "$value";
}

def Comm_AxisAttr : AttrDef<Comm_Dialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "A named mesh axis and the number of ranks along it.";
  let parameters = (ins
    StringRefParameter<"axis name">:$name,
    AttrParameter<"int64_t", "ranks along the axis">:$size
  );
  // Reads as #comm.axis<"dp" = 8>; printed once as an alias, then by name.
  let assemblyFormat = "`<` $name `=` $size `>`";
  let genVerifyDecl = 1;
  let genMnemonicAlias = 1;
}

#endif // CIUIC_DIALECT_COMM_COMMDIALECT_TD
