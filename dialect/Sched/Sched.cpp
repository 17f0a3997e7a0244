//===- Sched.cpp - The sched dialect --------------------------------------===//
#include "dialect/Sched/Sched.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ciuic::sched;

#include "dialect/Sched/SchedDialect.cpp.inc"
#include "dialect/Sched/SchedEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Sched/SchedTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Sched/SchedAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/Sched/SchedOps.cpp.inc"

void SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Sched/SchedAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Sched/SchedTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Sched/SchedOps.cpp.inc"
      >();
}

/// The numbers that a module carries.
LogicalResult SchedDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attribute) {
  constexpr int64_t mostRanks = 65536;
  bool isRanks = attribute.getName() == kRanksAttr;
  int64_t least = isRanks ? 1 : 0, most = isRanks ? mostRanks : INT64_MAX;
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  if (!isa<ModuleOp>(op) || !number || !number.getType().isInteger(64) ||
      number.getInt() < least || number.getInt() > most)
    return op->emitOpError()
           << "has " << attribute.getName() << " = " << attribute.getValue()
           << ", expected an i64 from " << least << " to " << most
           << " on the module";
  return success();
}

int64_t ciuic::sched::getRanks(Operation *op) {
  auto module =
      isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  if (auto ranks = module->getAttrOfType<IntegerAttr>(kRanksAttr))
    return ranks.getInt();
  return 1;
}
