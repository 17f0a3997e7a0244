//===- Activity.cpp - Which values carry a gradient -----------------------===//
#include "passes/Train/Activity.h"

using namespace mlir;

namespace ciuic::train {

/// Integers and truth values have no derivative: a path through them is none.
static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

Activity::Activity(Block &block, ArrayRef<ReadOp> trainable, Value loss) {
  for (ReadOp read : trainable)
    varied.insert(read.getResult());
  for (Operation &op : block)
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return varied.contains(value); }))
      for (Value result : op.getResults())
        if (isFloat(result))
          varied.insert(result);

  useful.insert(loss);
  for (Operation &op : llvm::reverse(block))
    if (llvm::any_of(op.getResults(),
                     [&](Value value) { return useful.contains(value); }))
      for (Value operand : op.getOperands())
        if (isFloat(operand))
          useful.insert(operand);
}

bool Activity::carries(Operation *op) const {
  auto carried = [&](Value value) { return carries(value); };
  return llvm::any_of(op->getResults(), carried) &&
         llvm::any_of(op->getOperands(), carried);
}

ReadOp Activity::parameterBehind(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (auto read = dyn_cast<ReadOp>(op))
      return read;
    auto next = llvm::find_if(op->getOperands(),
                              [&](Value operand) { return carries(operand); });
    if (next == op->operand_end())
      break;
    value = *next;
  }
  return nullptr;
}

} // namespace ciuic::train
