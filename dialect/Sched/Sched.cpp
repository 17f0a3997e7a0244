//===- Sched.cpp - The sched dialect --------------------------------------===//
#include "dialect/Sched/Sched.h"
#include "dialect/Sched/Rates.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
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

static ModuleOp moduleOf(Operation *op) {
  return isa<ModuleOp>(op) ? cast<ModuleOp>(op)
                           : op->getParentOfType<ModuleOp>();
}

static StringRef targetOf(ModuleOp module) {
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  return target ? target.getValue() : "cpu";
}

bool ciuic::sched::isForCuda(Operation *op) {
  return targetOf(moduleOf(op)) == "cuda";
}

/// What nvcc 13 compiles for of what the kernels need: asynchronous copies and
/// products of bfloat16, which came with 8.0. 'a' and 'f' unlock what only one
/// architecture, or one family, has.
static constexpr StringLiteral knownArchitectures[] = {
    "sm_80",   "sm_86",  "sm_87",   "sm_88",   "sm_89",  "sm_90",
    "sm_90a",  "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
    "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a",
    "sm_120f", "sm_121", "sm_121a", "sm_121f"};

SmallVector<int, 4> ciuic::sched::parseArchitectures(StringRef list,
                                                     std::string &message) {
  SmallVector<int, 4> found;
  SmallVector<StringRef> names;
  list.split(names, ',');
  for (auto [i, name] : llvm::enumerate(names)) {
    if (!llvm::is_contained(knownArchitectures, name)) {
      message = ("\"" + name +
                 "\" is no architecture that kernels can be made "
                 "for; expected one of " +
                 llvm::join(ArrayRef(knownArchitectures), ", "))
                    .str();
      return {};
    }
    if (llvm::is_contained(ArrayRef(names).take_front(i), name)) {
      message = ("\"" + name + "\" appears twice").str();
      return {};
    }
    int number = 0;
    name.drop_front(3).consumeInteger(10, number);
    found.push_back(number);
  }
  return found;
}

int ciuic::sched::getNewestArchitecture(Operation *op) {
  ModuleOp module = moduleOf(op);
  auto list = module->getAttrOfType<StringAttr>(kArchitecturesAttr);
  if (!list || !isForCuda(module))
    return 0;
  std::string ignored;
  int newest = 0;
  for (int number : parseArchitectures(list.getValue(), ignored))
    newest = std::max(newest, number);
  return newest;
}

/// What a module says of its target.
static LogicalResult verifyTarget(Operation *op, NamedAttribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (!isa<ModuleOp>(op) || !text)
    return op->emitOpError()
           << "has " << attribute.getName() << " = " << attribute.getValue()
           << ", expected a string on the module";
  if (attribute.getName() == kTargetAttr) {
    if (text.getValue() == "cuda" && !op->hasAttr(kArchitecturesAttr))
      return op->emitOpError() << "is for cuda without " << kArchitecturesAttr;
    if (text.getValue() != "cpu" && text.getValue() != "cuda")
      return op->emitOpError() << "has " << attribute.getName() << " = " << text
                               << ", expected \"cpu\" or \"cuda\"";
    return success();
  }
  if (!isForCuda(op))
    return op->emitOpError()
           << "has " << attribute.getName() << " and is not for cuda";
  std::string message;
  if (parseArchitectures(text.getValue(), message).empty())
    return op->emitOpError()
           << "has " << attribute.getName() << " = " << text << ": " << message;
  return success();
}

/// How fast a module's machine is.
static LogicalResult verifyRates(Operation *op, NamedAttribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  std::string message = "expected a string on the module";
  if (isa<ModuleOp>(op) && text && parseRates(text.getValue(), {}, message))
    return success();
  return op->emitOpError() << "has " << attribute.getName() << " = "
                           << attribute.getValue() << ": " << message;
}

/// What a module carries.
LogicalResult SchedDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attribute) {
  if (attribute.getName() == kTargetAttr ||
      attribute.getName() == kArchitecturesAttr)
    return verifyTarget(op, attribute);
  if (attribute.getName() == kRatesAttr)
    return verifyRates(op, attribute);
  if (attribute.getName() == kUseAttr) {
    auto use = dyn_cast<StringAttr>(attribute.getValue());
    if (!isa<TaskOp>(op) || !use || use.empty())
      return op->emitOpError()
             << "has " << attribute.getName() << " = " << attribute.getValue()
             << ", expected a use-group on a task";
    return success();
  }
  constexpr int64_t mostRanks = 65536;
  bool isRanks = attribute.getName() == kRanksAttr;
  int64_t least = isRanks ? 1 : 0, most = isRanks ? mostRanks : INT64_MAX;
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  if (attribute.getName() == kDiskAlignmentAttr) {
    least = 512;
    most = 65536;
    if (number && number.getType().isInteger(64) && number.getInt() >= least &&
        number.getInt() <= most && !llvm::isPowerOf2_64(number.getInt()))
      return op->emitOpError() << "has " << attribute.getName() << " = "
                               << number.getInt() << ", expected a power of 2";
  }
  if (!isa<ModuleOp>(op) || !number || !number.getType().isInteger(64) ||
      number.getInt() < least || number.getInt() > most)
    return op->emitOpError()
           << "has " << attribute.getName() << " = " << attribute.getValue()
           << ", expected an i64 from " << least << " to " << most
           << " on the module";
  return success();
}

int64_t ciuic::sched::getDiskAlignment(Operation *op) {
  auto alignment = moduleOf(op)->getAttrOfType<IntegerAttr>(kDiskAlignmentAttr);
  return alignment ? alignment.getInt() : kBufferAlignment;
}

int64_t ciuic::sched::getRanks(Operation *op) {
  if (auto ranks = moduleOf(op)->getAttrOfType<IntegerAttr>(kRanksAttr))
    return ranks.getInt();
  return 1;
}
