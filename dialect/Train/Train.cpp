//===- Train.cpp - The train dialect --------------------------------------===//
#include "dialect/Train/Train.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ciuic::train;

/// Reads a double in an attribute; MLIR knows none by itself.
template <> struct mlir::FieldParser<Real> {
  static FailureOr<Real> parse(AsmParser &parser) {
    Real real;
    if (parser.parseFloat(real.value))
      return failure();
    return real;
  }
};

/// Prints a double so that it reads back as the same bits.
namespace ciuic::train {
static AsmPrinter &operator<<(AsmPrinter &printer, const Real &real) {
  printer.printFloat(APFloat(real.value));
  return printer;
}
} // namespace ciuic::train

#include "dialect/Train/TrainDialect.cpp.inc"
#include "dialect/Train/TrainEnums.cpp.inc"
#include "dialect/Train/TrainInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Train/TrainAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/Train/TrainOps.cpp.inc"

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Train/TrainAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Train/TrainOps.cpp.inc"
      >();
}

int64_t ciuic::train::bytesOf(Type type) {
  auto shaped = cast<ShapedType>(type);
  unsigned bits = shaped.getElementTypeBitWidth();
  return shaped.getNumElements() * ((bits + 7) / 8);
}

int64_t ciuic::train::sumOfBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += bytesOf(type);
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  return bytes;
}
