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

int64_t ciuic::sched::getRanks(Operation *op) {
  auto module =
      isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  if (auto ranks = module->getAttrOfType<IntegerAttr>(kRanksAttr))
    return ranks.getInt();
  return 1;
}
