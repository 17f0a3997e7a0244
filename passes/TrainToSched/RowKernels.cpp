//===- RowKernels.cpp - Norms and rotary embeddings -----------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

/// Elements that one chunk of a kernel's rows should hold: enough to hide the
/// cost of starting it, few enough for all cores to have one.
static constexpr int64_t kChunkElements = 32768;

void ProgramLowering::launch(Operation *op, StringRef suffix, KernelOp kernel,
                             int64_t rows, int64_t columns,
                             ArrayRef<ViewAttr> views) {
  int64_t grain = std::max<int64_t>(
      1, std::min(rows, kChunkElements / std::max<int64_t>(1, columns)));
  kernel.setOriginAttr(builder.getStringAttr(nameOf(op)));
  FlatSymbolRefAttr symbol = shared.addKernel(kernel);
  bool host = llvm::any_of(
      op->getResults(), [&](Value result) { return onHost.contains(result); });
  TaskOp made = task(op, Kind::Launch, host ? Stream::Host : Stream::Compute,
                     views, {rows, grain}, {}, suffix);
  made.setKernelAttr(symbol);
}

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static std::string shapedName(StringRef name, RankedTensorType type) {
  std::string text = name.str() + "_";
  llvm::raw_string_ostream os(text);
  llvm::interleave(type.getShape(), os, "x");
  return text;
}

/// Tensors that a row kernel loads and stores beside its own work, at most: a
/// thread has registers for so many.
static constexpr size_t kMostJoined = 6;

bool ProgramLowering::joinsBefore(ArrayRef<Value> group, Value x,
                                  ArrayRef<Value> wanted) const {
  return !group.empty() &&
         typeOf(group.front()).getShape() == typeOf(x).getShape() &&
         !onHost.contains(group.front()) && !onHost.contains(x) &&
         llvm::any_of(group,
                      [&](Value v) { return llvm::is_contained(wanted, v); }) &&
         collectGroup(group).roots.size() + group.size() <= kMostJoined;
}

bool ProgramLowering::joinsAfter(ArrayRef<Value> group, Value dx) const {
  if (group.empty() || !collectGroup(group).roots.contains(dx) ||
      typeOf(group.front()).getShape() != typeOf(dx).getShape() ||
      onHost.contains(group.front()) ||
      collectGroup(group).roots.size() + group.size() > kMostJoined)
    return false;
  // Every way from dx ends in the group.
  SmallVector<Value> ways = {dx};
  while (!ways.empty())
    for (Operation *user : ways.pop_back_val().getUsers()) {
      if (!isPointwise(user))
        return false;
      Value result = user->getResult(0);
      if (llvm::is_contained(group, result))
        continue;
      if (isStored(result))
        return false;
      ways.push_back(result);
    }
  return true;
}

/// A kernel over rows, by the tensor values that it loads and stores.
class sched::RowKernel {
public:
  explicit RowKernel(MLIRContext *context) : context(context) {}

  void input(Value value, Place place) {
    if (memrefs.try_emplace(value, views.size()).second) {
      inputs.push_back(place.type);
      views.push_back(place.view(Access::Read));
    }
  }
  /// After all inputs.
  void output(Value value, Place place) {
    memrefs[value] = views.size();
    outputs.push_back(place.type);
    views.push_back(place.view(Access::Write));
  }
  KernelBuilder build(const std::string &name) const {
    return KernelBuilder(context, name, inputs, outputs);
  }
  unsigned of(Value value) const { return memrefs.lookup(value); }
  ArrayRef<ViewAttr> getViews() const { return views; }

private:
  MLIRContext *context;
  llvm::DenseMap<Value, unsigned> memrefs;
  SmallVector<RankedTensorType> inputs, outputs;
  SmallVector<ViewAttr> views;
};

/// Loads the element of a tensor value at `indices`, unextended.
static auto loaderOf(KernelBuilder &k, const RowKernel &row,
                     ValueRange indices) {
  SmallVector<Value> at(indices);
  return [&k, &row, at](Value value) -> Value {
    return memref::LoadOp::create(k.builder, k.loc, k.memref(row.of(value)),
                                  at);
  };
}

/// Adds what has a place; what a kernel computes itself has none yet.
LogicalResult ProgramLowering::addInputs(Operation *op, ArrayRef<Value> inputs,
                                         ArrayRef<Value> computed,
                                         RowKernel &kernel) {
  for (Value input : inputs) {
    if (llvm::is_contained(computed, input))
      continue;
    if (!placeOf(input))
      return op->emitOpError() << "reads a value that has no place yet";
    kernel.input(input, placeOf(input));
  }
  return success();
}

static std::string joinedName(const PointwiseGroup &before, StringRef name,
                              const PointwiseGroup &after) {
  std::string text = name.str();
  if (!before.ops.empty())
    text = before.name(3) + "_" + text;
  if (!after.ops.empty())
    text += "_" + after.name(3);
  return text;
}

/// rstd = 1/sqrt(mean x^2 + eps); y = w * (x * rstd). `before`, if any, has x:
/// the pass that sums its squares computes it, and a residual makes no trip
/// through memory of its own.
LogicalResult ProgramLowering::lowerRMSNorm(train::RMSNormOp op,
                                            ArrayRef<Value> before) {
  RankedTensorType type = typeOf(op.getX());
  int64_t columns = type.getDimSize(1);
  PointwiseGroup group = collectGroup(before);
  RowKernel kernel(op.getContext());
  SmallVector<Value> inputs(group.roots.begin(), group.roots.end());
  inputs.append({op.getX(), op.getWeight()});
  if (failed(addInputs(op, inputs, before, kernel)))
    return failure();
  for (Value output : before)
    kernel.output(output, makePlace(output));
  kernel.output(op.getResult(), makePlace(op.getResult()));
  kernel.output(op.getRstd(), makePlace(op.getRstd(), nameOf(op) + ".rstd"));

  KernelBuilder k =
      kernel.build(shapedName(joinedName(group, "rms_norm", {}), type));
  Value row = k.row();
  Value squares = k.sum(columns, [&](Value j) {
    llvm::DenseMap<Value, Value> made;
    auto load = loaderOf(k, kernel, {row, j});
    for (Value output : before)
      k.store(emitScalar(k, group, output, load, made), kernel.of(output),
              {row, j});
    Value x = made.lookup(op.getX());
    x = k.extended(x ? x : load(op.getX()));
    return k.mul(x, x);
  });
  Value mean = arith::DivFOp::create(k.builder, k.loc, squares,
                                     k.real(static_cast<double>(columns)));
  Value rstd = math::RsqrtOp::create(
      k.builder, k.loc, k.add(mean, k.real(op.getEps().convertToDouble())));
  k.store(rstd, kernel.of(op.getRstd()), {row});
  k.forEach(k.index(0), k.index(columns), [&](Value j) {
    Value h = k.mul(k.load(kernel.of(op.getX()), {row, j}), rstd);
    k.store(k.mul(k.load(kernel.of(op.getWeight()), {j}), h),
            kernel.of(op.getResult()), {row, j});
  });
  launch(op, "", k.kernel, type.getDimSize(0), columns, kernel.getViews());
  return success();
}

/// With h = x * rstd: dx = rstd * (w*dy - h * mean(w*dy*h)). `before`, if any,
/// has dy or x; `after`, if any, is computed from dx, which then is not stored.
LogicalResult ProgramLowering::lowerRMSNormGrad(train::RMSNormGradOp op,
                                                ArrayRef<Value> before,
                                                ArrayRef<Value> after) {
  RankedTensorType type = typeOf(op.getX());
  int64_t columns = type.getDimSize(1);
  for (Value operand : op->getOperands())
    if (!placeOf(operand) && !llvm::is_contained(before, operand))
      return op.emitOpError() << "reads a value that has no place";
  if (op.getDx().use_empty()) {
    if (!before.empty() && failed(lowerPointwiseGroup(before)))
      return failure();
  } else {
    PointwiseGroup first = collectGroup(before), last = collectGroup(after);
    RowKernel kernel(op.getContext());
    SmallVector<Value> inputs(first.roots.begin(), first.roots.end());
    inputs.append({op.getDy(), op.getX(), op.getWeight(), op.getRstd()});
    llvm::copy_if(last.roots, std::back_inserter(inputs),
                  [&](Value root) { return root != op.getDx(); });
    if (failed(addInputs(op, inputs, before, kernel)))
      return failure();
    for (Value output : before)
      kernel.output(output, makePlace(output));
    for (Value output : after)
      kernel.output(output, makePlace(output));
    if (after.empty())
      kernel.output(op.getDx(), makePlace(op.getDx()));

    KernelBuilder k = kernel.build(
        shapedName(joinedName(first, "rms_norm_grad", last), type));
    Value row = k.row();
    Value rstd = k.load(kernel.of(op.getRstd()), {row});
    Value products = k.sum(columns, [&](Value j) {
      llvm::DenseMap<Value, Value> made;
      auto load = loaderOf(k, kernel, {row, j});
      for (Value output : before)
        k.store(emitScalar(k, first, output, load, made), kernel.of(output),
                {row, j});
      auto scalar = [&](Value value) {
        Value known = made.lookup(value);
        return k.extended(known ? known : load(value));
      };
      Value w = k.load(kernel.of(op.getWeight()), {j});
      Value wdy = k.mul(w, scalar(op.getDy()));
      return k.mul(wdy, k.mul(scalar(op.getX()), rstd));
    });
    Value mean = arith::DivFOp::create(k.builder, k.loc, products,
                                       k.real(static_cast<double>(columns)));
    k.forEach(k.index(0), k.index(columns), [&](Value j) {
      Value w = k.load(kernel.of(op.getWeight()), {j});
      Value wdy = k.mul(w, k.load(kernel.of(op.getDy()), {row, j}));
      Value h = k.mul(k.load(kernel.of(op.getX()), {row, j}), rstd);
      Value dx = k.mul(rstd, k.sub(wdy, k.mul(h, mean)));
      if (after.empty())
        return k.store(dx, kernel.of(op.getDx()), {row, j});
      // Rounded as if it had been stored.
      if (Type element = typeOf(op.getDx()).getElementType();
          element != dx.getType())
        dx = arith::TruncFOp::create(k.builder, k.loc, element, dx);
      llvm::DenseMap<Value, Value> made;
      made[op.getDx()] = dx;
      auto load = loaderOf(k, kernel, {row, j});
      for (Value output : after)
        k.store(emitScalar(k, last, output, load, made), kernel.of(output),
                {row, j});
    });
    launch(op, ".dx", k.kernel, type.getDimSize(0), columns, kernel.getViews());
  }
  if (!op.getDweight().use_empty())
    task(op, Kind::NormWeightGrad, Stream::Compute,
         {read(op.getDy()), read(op.getX()), read(op.getRstd()),
          makePlace(op.getDweight(), nameOf(op) + ".dweight")
              .view(Access::Write)},
         {}, {}, ".dweight");
  return success();
}

/// Pairs (j, j + dim/2) of each head, rotated by the position's angles.
LogicalResult ProgramLowering::lowerRotary(train::RotaryOp op) {
  RankedTensorType type = typeOf(op.getX());
  int64_t half = typeOf(op.getCos()).getDimSize(1);
  int64_t positions = typeOf(op.getCos()).getDimSize(0);
  int64_t heads = type.getDimSize(1) / (2 * half);
  KernelBuilder k(
      op.getContext(),
      shapedName(op.getInverse() ? "rotary_inverse" : "rotary", type),
      {type, typeOf(op.getCos()), typeOf(op.getSin())}, {type});
  enum { X, Cos, Sin, Y };
  OpBuilder &b = k.builder;
  Value row = k.row();
  Value position = row;
  if (positions != type.getDimSize(0))
    position = arith::RemUIOp::create(b, k.loc, row, k.index(positions));
  k.forEach(k.index(0), k.index(heads), [&](Value head) {
    Value base = arith::MulIOp::create(b, k.loc, head, k.index(2 * half));
    k.forEach(k.index(0), k.index(half), [&](Value j) {
      Value low = arith::AddIOp::create(b, k.loc, base, j);
      Value high = arith::AddIOp::create(b, k.loc, low, k.index(half));
      Value a = k.load(X, {row, low}), c = k.load(X, {row, high});
      Value cos = k.load(Cos, {position, j});
      Value sin = k.load(Sin, {position, j});
      if (op.getInverse())
        sin = arith::NegFOp::create(b, k.loc, sin);
      k.store(k.sub(k.mul(a, cos), k.mul(c, sin)), Y, {row, low});
      k.store(k.add(k.mul(c, cos), k.mul(a, sin)), Y, {row, high});
    });
  });
  launch(op, "", k.kernel, type.getDimSize(0), type.getDimSize(1),
         {read(op.getX()), read(op.getCos()), read(op.getSin()),
          write(op.getResult())});
  return success();
}
