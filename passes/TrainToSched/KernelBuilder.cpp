//===- KernelBuilder.cpp - Builds the bodies of kernels -------------------===//
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/TrainToSched/ProgramLowering.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

KernelBuilder::KernelBuilder(MLIRContext *context, StringRef name,
                             ArrayRef<RankedTensorType> inputs,
                             ArrayRef<RankedTensorType> outputs)
    : builder(context), loc(UnknownLoc::get(context)) {
  kernel = KernelOp::create(builder, loc, builder.getStringAttr(name),
                            builder.getI64IntegerAttr(outputs.size()),
                            /*origin=*/StringAttr());
  Block &block = kernel.getBody().emplaceBlock();
  block.addArgument(builder.getIndexType(), loc);
  for (ArrayRef<RankedTensorType> types : {inputs, outputs})
    for (RankedTensorType type : types)
      block.addArgument(MemRefType::get(type.getShape(), type.getElementType()),
                        loc);
  builder.setInsertionPointToStart(&block);
}

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value KernelBuilder::real(double value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getF32FloatAttr(value));
}

Value KernelBuilder::load(unsigned i, ValueRange indices) {
  return extended(memref::LoadOp::create(builder, loc, memref(i), indices));
}

Value KernelBuilder::extended(Value value) {
  if (value.getType().getIntOrFloatBitWidth() < 32)
    value = arith::ExtFOp::create(builder, loc, builder.getF32Type(), value);
  return value;
}

void KernelBuilder::store(Value value, unsigned i, ValueRange indices) {
  Type element = cast<MemRefType>(memref(i).getType()).getElementType();
  if (value.getType() != element)
    value = arith::TruncFOp::create(builder, loc, element, value);
  memref::StoreOp::create(builder, loc, value, memref(i), indices);
}

void KernelBuilder::forEach(Value begin, Value end,
                            function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value KernelBuilder::sum(int64_t n, function_ref<Value(Value)> term) {
  auto loop = scf::ForOp::create(builder, loc, index(0), index(n), index(1),
                                 ValueRange{real(0.0)});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value next =
      add(loop.getRegionIterArgs().front(), term(loop.getInductionVar()));
  scf::YieldOp::create(builder, loc, next);
  return loop.getResult(0);
}

Value KernelBuilder::add(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, a, b);
}
Value KernelBuilder::sub(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, a, b);
}
Value KernelBuilder::mul(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, a, b);
}
