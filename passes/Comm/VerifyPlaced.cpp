//===- VerifyPlaced.cpp - The gate after placement ------------------------===//
#include "dialect/Comm/Comm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Comm/Passes.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ciuic::comm {
#define GEN_PASS_DEF_VERIFYPLACEDPASS
#include "passes/Comm/Passes.h.inc"
} // namespace ciuic::comm

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::Space;
using train::StateOp;

namespace {
struct VerifyPlaced : comm::impl::VerifyPlacedPassBase<VerifyPlaced> {
  using VerifyPlacedPassBase::VerifyPlacedPassBase;

  void runOnOperation() final {
    states.clear();
    for (auto state : getOperation().getOps<StateOp>())
      states[state.getSymName()] = state;
    if (failed(verifyStates()))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      spaces.clear();
      if (!function.isDeclaration() && (failed(verifyFunction(function)) ||
                                        failed(verifyRecompute(function))))
        return signalPassFailure();
    }
  }

  LogicalResult verifyStates();
  LogicalResult verifyFunction(func::FuncOp function);
  LogicalResult verifyOp(Operation *op, bool applies);
  LogicalResult verifyRecompute(func::FuncOp function);

  llvm::StringMap<StateOp> states;
  /// The memory of every value but scalars.
  llvm::DenseMap<Value, Space> spaces;
};
} // namespace

static StringRef whereIs(Space space) {
  switch (space) {
  case Space::Device:
    return "on the device";
  case Space::Host:
    return "on the host";
  case Space::Nvme:
    return "in a file";
  }
  llvm_unreachable("unknown space");
}

LogicalResult VerifyPlaced::verifyStates() {
  llvm::StringMap<StateOp> first;
  for (auto state : getOperation().getOps<StateOp>()) {
    Role role = state.getRole();
    bool ofOptimizer = role == Role::Master || role == Role::Moment;
    bool isOffloadable =
        ofOptimizer || (role == Role::Parameter && state.getOf() &&
                        state.getSpace() == Space::Host);
    if (state.getSpace() != Space::Device && !isOffloadable)
      return state.emitError()
             << stringifyRole(role) << " @" << state.getSymName() << " lives "
             << whereIs(state.getSpace())
             << ", expected on the device: only buckets' parameters (on the "
                "host), master copies and moments can be offloaded";
    if (!ofOptimizer || !state.getOf())
      continue;
    StateOp other = first.try_emplace(*state.getOf(), state).first->second;
    if (other.getSpace() != state.getSpace()) {
      InFlightDiagnostic diag =
          state.emitError()
          << stringifyRole(role) << " @" << state.getSymName() << " lives "
          << whereIs(state.getSpace()) << ", other states of @"
          << *state.getOf() << " " << whereIs(other.getSpace());
      diag.attachNote(other.getLoc())
          << "@" << other.getSymName() << " is declared here";
      return diag;
    }
  }
  return success();
}

static bool isScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return !type || type.getRank() == 0;
}

LogicalResult VerifyPlaced::verifyFunction(func::FuncOp function) {
  bool applies = function.getName() == train::kApplyStep;
  WalkResult result =
      function.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
        if (op == function)
          return WalkResult::advance();
        return failed(verifyOp(op, applies)) ? WalkResult::interrupt()
                                             : WalkResult::advance();
      });
  return failure(result.wasInterrupted());
}

LogicalResult VerifyPlaced::verifyOp(Operation *op, bool applies) {
  // What no op has put on the host is on the device.
  auto spaceOf = [&](Value value) {
    auto it = spaces.find(value);
    return it == spaces.end() ? Space::Device : it->second;
  };
  Space space = Space::Device;
  bool known = false;
  for (Value operand : op->getOperands()) {
    if (isScalar(operand))
      continue;
    if (known && spaceOf(operand) != space)
      return op->emitOpError()
             << "takes tensors from "
             << stringifySpace(std::min(space, spaceOf(operand))) << " and "
             << stringifySpace(std::max(space, spaceOf(operand)))
             << " memory; expected comm.transfer between them";
    space = spaceOf(operand);
    known = true;
  }
  if (auto read = dyn_cast<train::ReadOp>(op)) {
    if (StateOp state = states.lookup(read.getState()))
      space = state.getSpace();
  } else if (auto move = dyn_cast<TransferOp>(op)) {
    if (space == move.getSpace())
      return op->emitOpError() << "moves a value of " << stringifySpace(space)
                               << " memory to where it is";
    if ((space == Space::Nvme || move.getSpace() == Space::Nvme) &&
        space != Space::Host && move.getSpace() != Space::Host)
      return op->emitOpError() << "moves a value from " << stringifySpace(space)
                               << " to " << stringifySpace(move.getSpace())
                               << " memory, expected by way of the host";
    space = move.getSpace();
  } else if (isa<train::WriteOp, train::AccumulateOp>(op)) {
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("state");
    StateOp state = states.lookup(name.getValue());
    if (known && state && state.getSpace() != space)
      return op->emitOpError() << "gives " << name << ", which lives "
                               << whereIs(state.getSpace()) << ", a value of "
                               << stringifySpace(space) << " memory";
  } else if (space == Space::Host &&
             isa<AllGatherOp, ReduceScatterOp, AllReduceOp>(op)) {
    return op->emitOpError()
           << "works on host memory, expected comm.transfer to device before";
  }
  if (space == Space::Nvme &&
      !isa<train::ReadOp, train::WriteOp, TransferOp>(op))
    return op->emitOpError()
           << "works on nvme memory, expected comm.transfer to host before";
  if (space != Space::Device && !applies &&
      !(space == Space::Host && isa<train::ReadOp, TransferOp>(op)))
    return op->emitOpError()
           << "works on " << stringifySpace(space) << " memory outside of @"
           << train::kApplyStep << ", expected comm.transfer to device before";
  for (Value result : op->getResults())
    if (!isScalar(result))
      spaces[result] = space;
  return success();
}

LogicalResult VerifyPlaced::verifyRecompute(func::FuncOp function) {
  llvm::StringSet<> repeated;
  for (auto region : function.getOps<train::RecomputeOp>())
    if (region.getLabel() == blockOf(region)) // Else it repeats a part.
      repeated.insert(region.getLabel());
  for (Operation &op : function.getOps()) {
    StringRef block = blockOf(&op);
    if (!isBackward(&op) || !repeated.contains(block))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp();
          isForwardOf(producer, block) && !isKeptForOthers(operand, block)) {
        InFlightDiagnostic diag =
            op.emitOpError() << "keeps a forward value of block \"" << block
                             << "\" alive, which is computed again";
        diag.attachNote(producer->getLoc()) << "the value is computed here";
        return diag;
      }
  }
  return success();
}
