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

/// rstd = 1/sqrt(mean x^2 + eps); y = w * (x * rstd).
LogicalResult ProgramLowering::lowerRMSNorm(train::RMSNormOp op) {
  RankedTensorType type = typeOf(op.getX());
  int64_t columns = type.getDimSize(1);
  KernelBuilder k(op.getContext(), shapedName("rms_norm", type),
                  {type, typeOf(op.getWeight())}, {type, typeOf(op.getRstd())});
  enum { X, W, Y, Rstd };
  Value row = k.row();
  Value squares = k.sum(columns, [&](Value j) {
    Value x = k.load(X, {row, j});
    return k.mul(x, x);
  });
  Value mean = arith::DivFOp::create(k.builder, k.loc, squares,
                                     k.real(static_cast<double>(columns)));
  Value rstd = math::RsqrtOp::create(
      k.builder, k.loc, k.add(mean, k.real(op.getEps().convertToDouble())));
  k.store(rstd, Rstd, {row});
  k.forEach(k.index(0), k.index(columns), [&](Value j) {
    Value h = k.mul(k.load(X, {row, j}), rstd);
    k.store(k.mul(k.load(W, {j}), h), Y, {row, j});
  });
  launch(op, "", k.kernel, type.getDimSize(0), columns,
         {read(op.getX()), read(op.getWeight()), write(op.getResult()),
          makePlace(op.getRstd(), nameOf(op) + ".rstd").view(Access::Write)});
  return success();
}

/// With h = x * rstd: dx = rstd * (w*dy - h * mean(w*dy*h)).
LogicalResult ProgramLowering::lowerRMSNormGrad(train::RMSNormGradOp op) {
  RankedTensorType type = typeOf(op.getX());
  int64_t columns = type.getDimSize(1);
  KernelBuilder k(op.getContext(), shapedName("rms_norm_grad", type),
                  {type, type, typeOf(op.getWeight()), typeOf(op.getRstd())},
                  {type});
  enum { Dy, X, W, Rstd, Dx };
  Value row = k.row();
  Value rstd = k.load(Rstd, {row});
  Value products = k.sum(columns, [&](Value j) {
    Value wdy = k.mul(k.load(W, {j}), k.load(Dy, {row, j}));
    return k.mul(wdy, k.mul(k.load(X, {row, j}), rstd));
  });
  Value mean = arith::DivFOp::create(k.builder, k.loc, products,
                                     k.real(static_cast<double>(columns)));
  k.forEach(k.index(0), k.index(columns), [&](Value j) {
    Value wdy = k.mul(k.load(W, {j}), k.load(Dy, {row, j}));
    Value h = k.mul(k.load(X, {row, j}), rstd);
    k.store(k.mul(rstd, k.sub(wdy, k.mul(h, mean))), Dx, {row, j});
  });
  if (!op.getDx().use_empty())
    launch(op, ".dx", k.kernel, type.getDimSize(0), columns,
           {read(op.getDy()), read(op.getX()), read(op.getWeight()),
            read(op.getRstd()), write(op.getDx())});
  else
    k.kernel.erase();
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
