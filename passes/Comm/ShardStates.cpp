//===- ShardStates.cpp - Lays states out in buckets, shares them ----------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/Shard.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_SHARDSTATESPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::StateOp;

StateOp comm::readState(Value value, Role role, SymbolTable &symbols) {
  auto read = value.getDefiningOp<train::ReadOp>();
  auto state = read ? symbols.lookup<StateOp>(read.getState()) : StateOp();
  return state && state.getRole() == role ? state : StateOp();
}

Value comm::convertFloat(OpBuilder &builder, Location loc, Value value,
                         Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  unsigned from = type.getElementTypeBitWidth();
  unsigned to = element.getIntOrFloatBitWidth();
  if (type.getElementType() == element)
    return value;
  auto result = RankedTensorType::get(type.getShape(), element);
  // bf16 and f16 meet in f32.
  if (from == to)
    return convertFloat(builder, loc,
                        convertFloat(builder, loc, value, builder.getF32Type()),
                        element);
  if (from < to)
    return arith::ExtFOp::create(builder, loc, result, value);
  return arith::TruncFOp::create(builder, loc, result, value);
}

Location comm::named(Operation *near, StringRef name) {
  return NameLoc::get(StringAttr::get(near->getContext(), name),
                      near->getLoc());
}

namespace {
struct ShardStates : comm::impl::ShardStatesPassBase<ShardStates> {
  using ShardStatesPassBase::ShardStatesPassBase;

  void runOnOperation() final {
    if (failed(shard()))
      signalPassFailure();
  }

  LogicalResult shard();
  LogicalResult checkOptions(Type &wire);
  LogicalResult checkFunctions();
  LogicalResult declare(const BucketPlan &plan, SymbolTable &symbols);
  LogicalResult eraseLogicalStates(LogicalParameters &parameters);
};
} // namespace

LogicalResult ShardStates::checkOptions(Type &wire) {
  auto refuse = [&](StringRef option, auto found, StringRef expected) {
    return getOperation().emitError() << "option " << option << " is " << found
                                      << ", expected " << expected;
  };
  // Bounds that keep every product of sizes inside 64 bits.
  constexpr int64_t kMaxRanks = 1 << 20;
  if (ranks < 1 || ranks > kMaxRanks)
    return refuse("ranks", ranks.getValue(), "1 to 1048576");
  if (stage < 0 || stage > kMaxStage)
    return refuse("stage", stage.getValue(), "0, 1, 2 or 3");
  if (axis.empty())
    return refuse("axis", "empty", "a name");
  for (auto [option, value] :
       {std::pair<StringRef, int64_t>("persistence-threshold",
                                      persistenceThreshold),
        {"min-bucket-elements", minBucketElements},
        {"max-bucket-elements", maxBucketElements}})
    if (value < 0)
      return refuse(option, value, "0 or more");
  Builder builder(&getContext());
  if (communicationType == "f32")
    wire = builder.getF32Type();
  else if (communicationType == "bf16")
    wire = builder.getBF16Type();
  else if (communicationType == "f16")
    wire = builder.getF16Type();
  else if (!communicationType.empty())
    return refuse("communication-type", communicationType.getValue(),
                  "f32, bf16 or f16");
  return success();
}

LogicalResult ShardStates::checkFunctions() {
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (!function.isDeclaration() && !function.getBody().hasOneBlock())
      return function.emitError()
             << "@" << function.getName() << " has "
             << function.getBody().getBlocks().size()
             << " basic blocks, expected straight-line code: all ranks run "
                "the same collectives in the same order";
  return success();
}

/// Declares buckets and their storage, and says of each parameter where in
/// them it lies.
LogicalResult ShardStates::declare(const BucketPlan &plan,
                                   SymbolTable &symbols) {
  auto functions = getOperation().getOps<func::FuncOp>();
  OpBuilder builder(&getContext());
  if (functions.empty())
    builder.setInsertionPointToEnd(getOperation().getBody());
  else
    builder.setInsertionPoint(*functions.begin());
  auto zero = train::ConstantInitAttr::get(&getContext(), train::Real(0.0));
  Type f32 = builder.getF32Type();
  auto axisAttr = AxisAttr::get(&getContext(), axis, ranks);

  for (const Bucket &bucket : plan.buckets) {
    LogicalParameter &head = *bucket.members.front().parameter;
    Location loc = named(head.state, bucket.name);
    auto fresh = [&](StringRef name) -> LogicalResult {
      if (Operation *taken = symbols.lookup(name))
        return taken->emitError() << "@" << name << " is the name of what "
                                  << "bucket @" << bucket.name << " needs";
      return success();
    };
    if (failed(fresh(bucket.name)))
      return failure();
    symbols.insert(BucketOp::create(builder, loc, bucket.name, axisAttr,
                                    bucket.elements, bucket.chunk,
                                    bucket.trainable, bucket.persistent));
    auto store = [&](Role role, StringRef part, StringAttr slot, Layout layout,
                     Type element, Attribute init) -> LogicalResult {
      std::string name = bucket.stateName(part);
      if (failed(fresh(name)))
        return failure();
      symbols.insert(StateOp::create(
          builder, loc, /*trainable=*/false, role, name,
          FlatSymbolRefAttr::get(&getContext(), bucket.name), slot,
          bucket.type(layout, element), init, /*bucket=*/nullptr,
          /*offset=*/nullptr, /*sharded=*/layout == Layout::Chunk));
      return success();
    };
    if (failed(store(Role::Parameter, "param", nullptr, bucket.row->parameter,
                     bucket.elementType, zero)))
      return failure();
    if (bucket.trainable) {
      if (failed(store(Role::Gradient, "grad", nullptr, bucket.row->gradient,
                       f32, zero)))
        return failure();
      if (bucket.hasMaster && failed(store(Role::Master, "master", nullptr,
                                           bucket.row->optimizer, f32, zero)))
        return failure();
      for (StateOp moment : head.moments)
        if (failed(store(Role::Moment, *moment.getSlot(), moment.getSlotAttr(),
                         bucket.row->optimizer, f32, moment.getInit())))
          return failure();
    }

    for (const Member &member : bucket.members) {
      StateOp state = member.parameter->state;
      state.setBucketAttr(FlatSymbolRefAttr::get(&getContext(), bucket.name));
      state.setOffsetAttr(builder.getI64IntegerAttr(member.offset));
      if (bucket.persistent)
        remark::analysis(
            state.getLoc(),
            remark::RemarkOpts::name("Persistent").category("comm"))
            << remark::add("{0} stays whole on every rank: {1} elements, "
                           "fewer than {2}",
                           state.getSymName(), member.parameter->elements,
                           persistenceThreshold.getValue());
    }
    remark::analysis(loc, remark::RemarkOpts::name("Bucket").category("comm"))
        << remark::add(
               "{0}: members {1}, elements {2} ({3} bytes), {4} a rank, "
               "padding "
               "{5}; {6}",
               bucket.name, bucket.members.size(), bucket.elements,
               train::bytesOf(bucket.type(Layout::Whole, bucket.elementType)),
               bucket.chunk, bucket.padding, bucket.row->meaning);
  }
  return success();
}

/// Nothing names a parameter's own states any more: they go.
LogicalResult ShardStates::eraseLogicalStates(LogicalParameters &parameters) {
  llvm::StringMap<StateOp> gone;
  for (auto &[name, parameter] : parameters) {
    gone[name] = parameter.state;
    for (StateOp state : {parameter.gradient, parameter.master})
      if (state)
        gone[state.getSymName()] = state;
    for (StateOp moment : parameter.moments)
      gone[moment.getSymName()] = moment;
  }
  WalkResult result = getOperation().walk([&](Operation *op) {
    if (!isa<train::ReadOp, train::WriteOp, train::AccumulateOp>(op))
      return WalkResult::advance();
    auto state = op->getAttrOfType<FlatSymbolRefAttr>("state");
    if (!gone.contains(state.getValue()))
      return WalkResult::advance();
    op->emitOpError() << "of " << state
                      << " has no counterpart on buckets: expected "
                         "parameters in compute, and gradients, master copies "
                         "and moments only in updates";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  for (auto &entry : gone)
    if (entry.second.getRole() != Role::Parameter)
      entry.second.erase();
  return success();
}

LogicalResult ShardStates::shard() {
  ModuleOp module = getOperation();
  Type wire;
  if (failed(checkOptions(wire)) || failed(checkFunctions()))
    return failure();
  FailureOr<LogicalParameters> parameters = collectParameters(module);
  if (failed(parameters))
    return failure();
  auto axisAttr = AxisAttr::get(&getContext(), axis, ranks);
  FailureOr<BucketPlan> plan =
      planBuckets(module, *parameters,
                  {axisAttr, stage, persistenceThreshold, minBucketElements,
                   maxBucketElements});
  if (failed(plan))
    return failure();

  SymbolTable symbols(module);
  if (failed(declare(*plan, symbols)))
    return failure();
  ShardContext context{*parameters, *plan, axisAttr, stage, wire, symbols};
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      continue;
    bool applies = function.getName() == train::kApplyStep;
    if (failed(applies ? shardApplyStep(function, context)
                       : shardMicroStep(function, context)))
      return failure();
  }
  return eraseLogicalStates(*parameters);
}
