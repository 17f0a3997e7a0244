//===- Support.cpp - What the train passes share --------------------------===//
#include "passes/Train/Support.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ciuic::train {

StringRef nameAt(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return named.getName();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (StringRef name = nameAt(part); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return nameAt(call.getCallee());
  return "";
}

std::string describe(Operation *op) {
  std::string text = llvm::formatv("'{0}'", op->getName().getStringRef());
  if (StringRef name = nameAt(op->getLoc()); !name.empty())
    text += llvm::formatv(" ({0})", name);
  return text;
}

bool isPointwise(Operation *op) {
  if (isa<SigmoidOp>(op))
    return true;
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         op->hasTrait<OpTrait::Elementwise>();
}

SmallVector<StateOp> statesOf(ModuleOp module) {
  return llvm::to_vector(module.getOps<StateOp>());
}

FailureOr<func::FuncOp> lookupFunction(ModuleOp module, StringRef name,
                                       StringRef expected) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return module.emitError()
           << "holds no function @" << name << "; expected " << expected;
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << "@" << name << " has " << function.getBody().getBlocks().size()
           << " blocks, expected a body of one";
  return function;
}

FailureOr<StepFunctions> lookupSteps(ModuleOp module) {
  StepFunctions steps;
  for (auto [name, step] : {std::pair(StringRef(kMicroStep), &steps.micro),
                            {StringRef(kApplyStep), &steps.apply},
                            {StringRef(kEvalStep), &steps.eval}}) {
    FailureOr<func::FuncOp> function =
        lookupFunction(module, name, "a differentiated module");
    if (failed(function))
      return failure();
    *step = *function;
  }
  return steps;
}

/// After the last state, so that the module lists its states first.
StateDeclarer::StateDeclarer(ModuleOp module)
    : builder(module.getContext()), symbols(module) {
  builder.setInsertionPointToStart(module.getBody());
  for (StateOp state : module.getOps<StateOp>())
    builder.setInsertionPointAfter(state);
}

FailureOr<StateOp> StateDeclarer::declare(Location loc, Role role,
                                          StringRef name, StringRef of,
                                          StringRef slot, Type type,
                                          double value) {
  return declare(loc, role, name, of, slot, type,
                 ConstantInitAttr::get(builder.getContext(), Real(value)));
}

FailureOr<StateOp> StateDeclarer::declare(Location loc, Role role,
                                          StringRef name, StringRef of,
                                          StringRef slot, Type type,
                                          Attribute init) {
  if (Operation *taken = symbols.lookup(name)) {
    InFlightDiagnostic diag = emitError(loc) << "needs the name @" << name
                                             << " for a " << stringifyRole(role)
                                             << " state, but it is taken";
    diag.attachNote(taken->getLoc()) << "by this " << taken->getName();
    return diag;
  }
  MLIRContext *context = builder.getContext();
  StateOp state = StateOp::create(
      builder, loc, /*trainable=*/false, role, name,
      of.empty() ? nullptr : FlatSymbolRefAttr::get(context, of),
      slot.empty() ? nullptr : builder.getStringAttr(slot),
      cast<RankedTensorType>(type), init, /*bucket=*/nullptr,
      /*offset=*/nullptr);
  symbols.insert(state);
  return state;
}

Value splat(OpBuilder &builder, Location loc, Type type, double value) {
  auto shaped = cast<ShapedType>(type);
  auto element = builder.getFloatAttr(shaped.getElementType(), value);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(shaped, element));
}

std::string formatBytes(int64_t bytes) {
  constexpr const char *kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return llvm::formatv("{0} bytes", bytes);
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1024.0 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024.0;
  return llvm::formatv("{0:f2} {1}", value, kUnits[unit]);
}

} // namespace ciuic::train
