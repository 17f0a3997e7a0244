//===- Comm.cpp - The comm dialect ----------------------------------------===//
#include "dialect/Comm/Comm.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ciuic::comm;

#include "dialect/Comm/CommDialect.cpp.inc"
#include "dialect/Comm/CommEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Comm/CommAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/Comm/CommOps.cpp.inc"

void CommDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Comm/CommAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Comm/CommOps.cpp.inc"
      >();
}

LogicalResult AxisAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               StringRef name, int64_t size) {
  if (name.empty())
    return emitError() << "axis name must not be empty";
  if (size < 1)
    return emitError() << "axis \"" << name << "\" has size " << size
                       << ", expected at least 1";
  return success();
}
