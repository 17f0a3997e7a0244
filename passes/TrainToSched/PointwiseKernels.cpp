//===- PointwiseKernels.cpp - arith and math on tensors -------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "passes/TrainToSched/ProgramLowering.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

/// Expressions longer than this many ops are cut by storing a value.
static constexpr int64_t kLongestExpression = 24;

/// Elements of a one-dimensional tensor that make a row of a kernel's grid.
static constexpr int64_t kFlatRow = 4096;

bool sched::isPointwise(Operation *op) {
  if (isa<train::SigmoidOp>(op))
    return true;
  StringRef dialect = op->getName().getDialectNamespace();
  return (dialect == "arith" || dialect == "math") &&
         op->getNumResults() == 1 &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

bool ProgramLowering::isStored(Value value) const {
  return stored.contains(value);
}

/// Decides which pointwise values get storage.
void ProgramLowering::planPointwise() {
  llvm::DenseMap<Value, int64_t> lengths;
  for (Operation &op : function.getBody().front()) {
    if (!isPointwise(&op) || isa<arith::ConstantOp>(op))
      continue;
    Value value = op.getResult(0);
    // The optimizer's kernel rounds its own result.
    if (isa<arith::TruncFOp>(op) &&
        isa_and_nonnull<train::AdamOp, train::SGDOp>(
            op.getOperand(0).getDefiningOp()))
      continue;
    int64_t length = 1;
    for (Value operand : op.getOperands())
      length += stored.contains(operand) ? 0 : lengths.lookup(operand);
    lengths[value] = length;
    // Truth values have no storage.
    bool storable =
        !cast<ShapedType>(value.getType()).getElementType().isInteger(1);
    if ((length > kLongestExpression && storable) ||
        llvm::any_of(value.getUsers(),
                     [](Operation *user) { return !isPointwise(user); }))
      stored.insert(value);
  }
}

namespace {
/// Emits scalar expressions for tensor values inside a kernel.
struct Expressions {
  KernelBuilder &kernel;
  function_ref<bool(Value)> isRoot;
  function_ref<Value(Value)> load;
  llvm::DenseMap<Value, Value> &made;

  Value emit(Value value) {
    if (Value known = made.lookup(value))
      return known;
    Value scalar = emitNew(value);
    made[value] = scalar;
    return scalar;
  }

  Value emitNew(Value value) {
    OpBuilder &builder = kernel.builder;
    if (isRoot(value))
      return load(value);
    Operation *op = value.getDefiningOp();
    Type element = cast<ShapedType>(value.getType()).getElementType();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      return arith::ConstantOp::create(
          builder, kernel.loc,
          cast<TypedAttr>(splat.getSplatValue<Attribute>()));
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(emit(operand));
    if (isa<train::SigmoidOp>(op)) {
      // exp overflows to inf for very negative x, and 1/inf is 0.
      Location loc = kernel.loc;
      Value one = arith::ConstantOp::create(
          builder, loc, cast<TypedAttr>(builder.getFloatAttr(element, 1.0)));
      Value minus = arith::NegFOp::create(builder, loc, operands[0]);
      Value power = math::ExpOp::create(builder, loc, minus);
      Value bottom = arith::AddFOp::create(builder, loc, one, power);
      return arith::DivFOp::create(builder, loc, one, bottom);
    }
    // All others are elementwise: the same op on scalars. Discardable
    // attributes (block, backward) are the tensor program's.
    OperationState state(kernel.loc, op->getName());
    state.addOperands(operands);
    state.addTypes(element);
    Operation *scalar = builder.create(state);
    scalar->copyProperties(op->getPropertiesStorage());
    return scalar->getResult(0);
  }
};
} // namespace

/// The roots and op names of the expression that ends in `value`.
static void collect(Value value, function_ref<bool(Value)> isRoot,
                    llvm::SetVector<Value> &roots,
                    llvm::SetVector<StringRef> &ops,
                    llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  if (isRoot(value)) {
    roots.insert(value);
    return;
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::ConstantOp>(op))
    return;
  for (Value operand : op->getOperands())
    collect(operand, isRoot, roots, ops, seen);
  StringRef name = op->getName().stripDialect();
  if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
    ops.insert(name);
}

/// What a kernel that computes `outputs` loads.
static auto rootsOf(ArrayRef<Value> outputs,
                    const llvm::DenseSet<Value> &stored) {
  return [outputs, &stored](Value value) {
    if (llvm::is_contained(outputs, value))
      return false;
    Operation *op = value.getDefiningOp();
    return !op || !isPointwise(op) || stored.contains(value);
  };
}

PointwiseGroup ProgramLowering::collectGroup(ArrayRef<Value> outputs) const {
  PointwiseGroup group;
  group.outputs.assign(outputs.begin(), outputs.end());
  llvm::DenseSet<Value> seen;
  for (Value output : outputs)
    collect(output, rootsOf(outputs, stored), group.roots, group.ops, seen);
  return group;
}

std::string PointwiseGroup::name(unsigned most) const {
  return llvm::join(ops.getArrayRef().take_front(most), "_");
}

Value ProgramLowering::emitScalar(KernelBuilder &kernel,
                                  const PointwiseGroup &group, Value output,
                                  function_ref<Value(Value)> load,
                                  llvm::DenseMap<Value, Value> &made) const {
  auto isRoot = rootsOf(group.outputs, stored);
  return Expressions{kernel, isRoot, load, made}.emit(output);
}

LogicalResult ProgramLowering::lowerPointwiseGroup(ArrayRef<Value> outputs) {
  PointwiseGroup group = collectGroup(outputs);
  const llvm::SetVector<Value> &roots = group.roots;
  SmallVector<RankedTensorType> inputTypes, outputTypes;
  SmallVector<ViewAttr> views;
  for (Value root : roots) {
    Place place = placeOf(root);
    if (!place)
      return outputs.back().getDefiningOp()->emitOpError()
             << "reads a value that has no place yet";
    inputTypes.push_back(place.type);
    views.push_back(place.view(Access::Read));
  }
  for (Value output : outputs) {
    if (cast<ShapedType>(output.getType()).getElementType().isInteger(1))
      return output.getDefiningOp()->emitOpError()
             << "makes truth values that an op which is not pointwise reads";
    Place place = makePlace(output);
    outputTypes.push_back(place.type);
    views.push_back(place.view(Access::Write));
  }

  ArrayRef<int64_t> shape = outputTypes.front().getShape();
  std::string kernelName = "fused";
  if (!group.ops.empty())
    kernelName += "_" + group.name(5);
  for (int64_t size : shape)
    kernelName += (size == shape.front() ? "_" : "x") + std::to_string(size);

  KernelBuilder kernel(builder.getContext(), kernelName, inputTypes,
                       outputTypes);
  auto emitAt = [&](ValueRange indices) {
    llvm::DenseMap<Value, Value> made;
    auto load = [&](Value root) -> Value {
      unsigned index = std::distance(roots.begin(), llvm::find(roots, root));
      return memref::LoadOp::create(kernel.builder, kernel.loc,
                                    kernel.memref(index), indices);
    };
    unsigned first = roots.size();
    for (auto [i, output] : llvm::enumerate(outputs))
      memref::StoreOp::create(kernel.builder, kernel.loc,
                              emitScalar(kernel, group, output, load, made),
                              kernel.memref(first + i), indices);
  };
  int64_t rows = 1, columns = 1;
  if (shape.empty()) {
    emitAt({});
  } else if (shape.size() == 1) {
    // Rows of a fixed width, the last one shorter.
    columns = std::min(shape[0], kFlatRow);
    rows = (shape[0] + columns - 1) / columns;
    OpBuilder &b = kernel.builder;
    Location loc = kernel.loc;
    Value width = kernel.index(columns);
    Value begin = arith::MulIOp::create(b, loc, kernel.row(), width);
    Value end = arith::AddIOp::create(b, loc, begin, width);
    if (shape[0] % columns != 0)
      end = arith::MinSIOp::create(b, loc, end, kernel.index(shape[0]));
    kernel.forEach(begin, end, [&](Value i) { emitAt(i); });
  } else {
    rows = shape[0];
    columns = shape[1];
    kernel.forEach(kernel.index(0), kernel.index(columns),
                   [&](Value j) { emitAt(ValueRange{kernel.row(), j}); });
  }
  launch(outputs.back().getDefiningOp(), "", kernel.kernel, rows, columns,
         views);
  return success();
}
