//===- TrainStateOps.cpp - State and access to it -------------------------===//
#include "dialect/Train/Train.h"

using namespace mlir;
using namespace ciuic::train;

LogicalResult StateOp::verify() {
  Role role = getRole();

  // (C1)
  if (!isa<ConstantInitAttr, NormalInitAttr, RopeInitAttr>(getInit()))
    return emitOpError() << "initialiser is " << getInit()
                         << ", expected #train.constant, #train.normal or "
                            "#train.rope";

  // (C2)
  bool follows =
      role == Role::Gradient || role == Role::Master || role == Role::Moment;
  if (follows && !getOf())
    return emitOpError() << "with role " << stringifyRole(role)
                         << " names no parameter; expected 'of @...'";
  if (!follows && getOf() && role != Role::Parameter)
    return emitOpError() << "with role " << stringifyRole(role)
                         << " belongs to no parameter, found 'of "
                         << getOfAttr() << "'";

  // (C3)
  if (role != Role::Parameter && (getTrainable() || getBucket()))
    return emitOpError() << "with role " << stringifyRole(role) << " is "
                         << (getTrainable() ? "trainable" : "in a bucket")
                         << "; only a parameter can be";

  // (C4)
  if (auto rope = dyn_cast<RopeInitAttr>(getInit())) {
    RankedTensorType type = getTensorType();
    if (type.getRank() != 2 || type.getDimSize(1) * 2 != rope.getDim())
      return emitOpError() << "rotary table of dim " << rope.getDim()
                           << " fills a tensor of T x " << rope.getDim() / 2
                           << ", found " << type;
  }

  // (C5)
  if (getBucket().has_value() != getOffset().has_value() ||
      (getOffset() && static_cast<int64_t>(*getOffset()) < 0))
    return emitOpError() << "needs both a bucket and an element offset of 0 or "
                            "more";

  // (C6)
  if ((role == Role::Moment) != getSlot().has_value())
    return emitOpError() << "with role " << stringifyRole(role)
                         << (getSlot() ? " has" : " has no")
                         << " slot; moments have one, others none";
  return success();
}

/// Finds the state that `op` names, or emits why there is none.
static FailureOr<StateOp> lookupState(Operation *op, FlatSymbolRefAttr name,
                                      SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state)
    return op->emitOpError()
           << "names " << name << ", which is no train.state of this module";
  return state;
}

/// (C1) of read and write: the value has the state's type.
static LogicalResult verifyAccess(Operation *op, FlatSymbolRefAttr name,
                                  Type type, SymbolTableCollection &symbols) {
  FailureOr<StateOp> state = lookupState(op, name, symbols);
  if (failed(state))
    return failure();
  if (state->getType() != type) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "has type " << type << ", but state " << name
                              << " has " << state->getType();
    diag.attachNote(state->getLoc()) << "the state is declared here";
    return diag;
  }
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAccess(*this, getStateAttr(), getResult().getType(), symbols);
}

/// Names the result after the last parts of its state: %q_proj.weight.
void ReadOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getState());
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAccess(*this, getStateAttr(), getValue().getType(), symbols);
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<StateOp> state = lookupState(*this, getStateAttr(), symbols);
  if (failed(state))
    return failure();
  // (C1)
  Role role = state->getRole();
  if (role != Role::Gradient && role != Role::Metric)
    return emitOpError() << "adds to " << getStateAttr() << ", a "
                         << stringifyRole(role)
                         << "; expected a gradient or metric";
  auto valueType = cast<RankedTensorType>(getValue().getType());
  RankedTensorType stateType = state->getTensorType();
  if (valueType.getShape() != stateType.getShape() ||
      valueType.getElementTypeBitWidth() > stateType.getElementTypeBitWidth())
    return emitOpError() << "adds " << valueType << " to state "
                         << getStateAttr() << " of " << stateType
                         << "; expected the same shape and no wider elements";
  return success();
}

LogicalResult RecomputeOp::verify() {
  // (C1)
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "has " << getInputs().size()
                         << " operands whose types differ from its block's "
                         << block.getNumArguments() << " arguments";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getValues().getTypes() != getResultTypes())
    return emitOpError() << "yields other types than its results";
  return success();
}
