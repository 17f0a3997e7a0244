//===- TrainInterfaces.td - What an op says of itself ------*- tablegen -*-===//
#ifndef CIUIC_DIALECT_TRAIN_TRAININTERFACES_TD
#define CIUIC_DIALECT_TRAIN_TRAININTERFACES_TD

include "mlir/IR/OpBase.td"

def Train_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::ciuic::train";
  let description = [{
    An op that knows its own derivative. `arith` and `math` ops implement this
    through external models (`passes/Train/PointwiseDerivatives.cpp`).
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the backward of this op at the builder's insertion point.
        `resultGrads[i]` is the gradient of the loss with respect to result i,
        null where no gradient flows. `wanted[j]` says whether operand j needs
        one. Sets `operandGrads[j]` (one slot an operand, null on entry) for
        each wanted operand, of the operand's own type, or leaves it null when
        the gradient is zero. Fails after emitting an error.
      }],
      "::llvm::LogicalResult", "buildBackward",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
           "::llvm::ArrayRef<bool>":$wanted,
           "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>,
  ];
}

def Train_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::ciuic::train";
  let description = "An op that knows the work it asks for.";
  let methods = [
    InterfaceMethod<"Floating-point operations; a multiply-add counts as two.",
      "int64_t", "getFlops", (ins)>,
    InterfaceMethod<
      "Bytes of all operands and results, each moved once.",
      "int64_t", "getMovedBytes", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/[{
        return ::ciuic::train::sumOfBytes($_op.getOperation());
      }]>,
  ];
}

def Train_SignatureOpInterface : OpInterface<"SignatureOpInterface"> {
  let cppNamespace = "::ciuic::train";
  let description = [{
    An op that declares which of its operands and results take the 16-bit
    compute type under mixed precision; the others stay f32 (or integer).
    Sums inside the op are always made in f32.
  }];
  let methods = [
    InterfaceMethod<"Whether operand `index` has the compute type.",
      "bool", "isComputeOperand", (ins "unsigned":$index)>,
    InterfaceMethod<"Whether result `index` has the compute type.",
      "bool", "isComputeResult", (ins "unsigned":$index)>,
  ];
}

#endif // CIUIC_DIALECT_TRAIN_TRAININTERFACES_TD
