//===- KernelPrinter.cpp - Names, types and expressions of kernels --------===//
#include "passes/Codegen/KernelPrinter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Codegen/KernelText.h"
#include "passes/Codegen/ProgramPrinter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

std::string codegen::shapeText(Value memref) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(cast<MemRefType>(memref.getType()).getShape(), stream, "x");
  return text.empty() ? std::string("scalar") : text;
}

bool codegen::isInnermost(scf::ForOp loop) {
  return loop.getBody()->getOps<scf::ForOp>().empty();
}

LogicalResult codegen::checkLoop(scf::ForOp loop) {
  if (getConstantIntValue(loop.getStep()) != 1)
    return loop.emitOpError() << "has a step that is not the constant 1";
  if (loop.getNumResults() > 1)
    return loop.emitOpError() << "carries " << loop.getNumResults()
                              << " values, expected at most one sum";
  if (loop.getNumResults() == 0)
    return success();
  Value carried = loop.getRegionIterArgs().front();
  auto add = loop.getYieldedValues().front().getDefiningOp<arith::AddFOp>();
  if (!isInnermost(loop) || !add || add.getLhs() != carried ||
      !carried.hasOneUse() || !add->hasOneUse() || !carried.getType().isF32())
    return loop.emitOpError() << "carries a value that is no plain f32 sum";
  return success();
}

LogicalResult KernelText::nameMemrefs() {
  if (!isIdentifier(kernel.getSymName()))
    return kernel.emitOpError() << "has the name \"" << kernel.getSymName()
                                << "\", which is no C++ identifier";
  unsigned inputs = memrefs().size() - kernel.getOutputs();
  for (auto [i, argument] : llvm::enumerate(memrefs())) {
    auto type = cast<MemRefType>(argument.getType());
    FailureOr<std::string> element = typeName(type.getElementType(), kernel);
    if (failed(element))
      return failure();
    types.push_back((i < inputs ? "const " : "") + *element);
    names[argument] = i < inputs ? "in" + std::to_string(i)
                                 : "out" + std::to_string(i - inputs);
  }
  names[row()] = "row";
  return success();
}

FailureOr<std::string> KernelText::typeName(Type type, Operation *op) {
  if (type.isF32())
    return std::string("float");
  if (type.isF16())
    return std::string("f16");
  if (type.isBF16())
    return std::string("bf16");
  if (type.isF64())
    return std::string("double");
  if (type.isInteger(1))
    return std::string("bool");
  if (type.isInteger(32))
    return std::string("int32_t");
  if (type.isIndex())
    return indexType;
  return op->emitOpError() << "has type " << type
                           << ", which kernels cannot hold";
}

std::string KernelText::literal(arith::ConstantOp constant) {
  Type type = constant.getType();
  if (auto integer = dyn_cast<IntegerAttr>(constant.getValue())) {
    if (type.isInteger(1))
      return integer.getValue().isZero() ? "false" : "true";
    return std::to_string(integer.getInt());
  }
  // Exact in f64, whatever the type; digits that read back as the same bits.
  auto real = cast<FloatAttr>(constant.getValue()).getValue();
  bool lost, isDouble = type.isF64();
  real.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  std::string text;
  if (real.isNaN()) {
    text = isDouble ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  } else if (real.isInfinity()) {
    text = isDouble ? "__builtin_inf()" : "__builtin_inff()";
  } else {
    llvm::raw_string_ostream(text) << llvm::format(
        isDouble ? "%.17g" : "%.9g", std::abs(real.convertToDouble()));
    if (text.find_first_of(".e") == std::string::npos)
      text += ".0";
    text += isDouble ? "" : "f";
  }
  // In parentheses, or the minus of a negation would make it a decrement.
  if (real.isNegative() && !real.isNaN())
    text = "(-" + text + ")";
  if (type.isF16() || type.isBF16())
    text = (type.isF16() ? "fromFloat<f16>(" : "fromFloat<bf16>(") + text + ")";
  return text;
}

std::string KernelText::indexText(Value memref, ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  std::string index;
  for (auto [i, value] : llvm::enumerate(indices)) {
    if (i > 0)
      index = (i > 1 ? "(" + index + ")" : index) + " * " +
              std::to_string(type.getDimSize(i)) + " + ";
    index += names.lookup(value);
  }
  return index.empty() ? "0" : index;
}

std::string KernelText::address(Value memref, ValueRange indices) {
  return names.lookup(memref) + "[" + indexText(memref, indices) + "]";
}

bool KernelText::isInlined(Operation &op) {
  if (isa<memref::LoadOp>(op))
    return false; // A load must not move past a store.
  return op.hasOneUse() && (*op.user_begin())->getBlock() == op.getBlock() &&
         !isa<arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp>(
             *op.user_begin());
}

/// Whether `division` is 1 / (1 + e^x): its divisor is at least 1, so that the
/// fast reciprocal serves, which is inexact only where results are subnormal.
static bool isSigmoid(arith::DivFOp division) {
  auto isOne = [](Value value) {
    auto constant = value.getDefiningOp<arith::ConstantOp>();
    auto real = constant ? dyn_cast<FloatAttr>(constant.getValue()) : nullptr;
    return real && real.getType().isF32() && real.getValueAsDouble() == 1.0;
  };
  auto sum = division.getRhs().getDefiningOp<arith::AddFOp>();
  if (!sum || !isOne(division.getLhs()))
    return false;
  Value power = isOne(sum.getLhs()) ? sum.getRhs() : sum.getLhs();
  return (isOne(sum.getLhs()) || isOne(sum.getRhs())) &&
         power.getDefiningOp<math::ExpOp>();
}

FailureOr<std::string> KernelText::expression(Operation &op) {
  // 16-bit arithmetic is done in f32 and rounded.
  auto operand = [&](unsigned i) {
    Type type = op.getOperand(i).getType();
    std::string text = names.lookup(op.getOperand(i));
    return type.isF16() || type.isBF16() ? "toFloat(" + text + ")" : text;
  };
  auto infix = [&](StringRef sign) {
    return "(" + operand(0) + " " + sign.str() + " " + operand(1) + ")";
  };
  auto call = [&](StringRef function) -> FailureOr<std::string> {
    if (op.getOperand(0).getType().isF64())
      return op.emitOpError()
             << "is of f64, for which kernels have no function";
    return function.str() + "(" + operand(0) + ")";
  };
  // Between f32 and f64 a cast is said: the text may stand inside of
  // arithmetic, which is done in the type of its operands.
  auto converted = [&] {
    Type from = op.getOperand(0).getType(), to = op.getResult(0).getType();
    if (!from.isF64() && !to.isF64())
      return operand(0);
    return (to.isF64() ? "double(" : "float(") + operand(0) + ")";
  };
  FailureOr<std::string> text =
      llvm::TypeSwitch<Operation *, FailureOr<std::string>>(&op)
          .Case<arith::AddFOp, arith::AddIOp>([&](auto) { return infix("+"); })
          .Case<arith::SubFOp, arith::SubIOp>([&](auto) { return infix("-"); })
          .Case<arith::MulFOp, arith::MulIOp>([&](auto) { return infix("*"); })
          .Case([&](arith::DivFOp division) {
            return cuda && isSigmoid(division)
                       ? "reciprocal(" + operand(1) + ")"
                       : infix("/");
          })
          .Case([&](arith::DivUIOp) { return infix("/"); })
          .Case([&](arith::RemUIOp) { return infix("%"); })
          .Case([&](arith::NegFOp) { return "(-" + operand(0) + ")"; })
          .Case([&](arith::MinSIOp) {
            return "(" + operand(0) + " < " + operand(1) + " ? " + operand(0) +
                   " : " + operand(1) + ")";
          })
          // NaN wins, as the op says.
          .Case([&](arith::MaximumFOp) {
            return "(" + operand(0) + " > " + operand(1) + " || " + operand(0) +
                   " != " + operand(0) + " ? " + operand(0) + " : " +
                   operand(1) + ")";
          })
          .Case([&](arith::MinimumFOp) {
            return "(" + operand(0) + " < " + operand(1) + " || " + operand(0) +
                   " != " + operand(0) + " ? " + operand(0) + " : " +
                   operand(1) + ")";
          })
          .Case([&](arith::SelectOp) {
            return "(" + operand(0) + " ? " + operand(1) + " : " + operand(2) +
                   ")";
          })
          .Case<arith::ExtFOp, arith::TruncFOp>(
              [&](auto) { return converted(); })
          .Case([&](math::ExpOp) { return call("expf"); })
          .Case([&](math::LogOp) { return call("logf"); })
          .Case([&](math::TanhOp) { return call("tanhf"); })
          .Case([&](math::ErfOp) { return call("erff"); })
          .Case([&](math::SqrtOp) {
            return call(cuda ? "sqrtf" : "__builtin_sqrtf");
          })
          .Case([&](math::AbsFOp) {
            return call(cuda ? "fabsf" : "__builtin_fabsf");
          })
          .Case([&](math::RsqrtOp) {
            return call(cuda ? "reciprocalSqrt" : "rsqrtf");
          })
          .Case([&](arith::CmpFOp compare) -> FailureOr<std::string> {
            switch (compare.getPredicate()) {
            case arith::CmpFPredicate::OGT:
              return infix(">");
            case arith::CmpFPredicate::OLT:
              return infix("<");
            case arith::CmpFPredicate::OGE:
              return infix(">=");
            case arith::CmpFPredicate::OLE:
              return infix("<=");
            case arith::CmpFPredicate::OEQ:
              return infix("==");
            case arith::CmpFPredicate::UNE:
              return infix("!=");
            default:
              return op.emitOpError()
                     << "compares by "
                     << arith::stringifyCmpFPredicate(compare.getPredicate())
                     << ", which kernels cannot print";
            }
          })
          .Default([&](Operation *) -> FailureOr<std::string> {
            return op.emitOpError() << "has no form in a printed kernel";
          });
  Type type = op.getResult(0).getType();
  if (succeeded(text) && (type.isF16() || type.isBF16())) {
    unrounded[op.getResult(0)] = *text;
    return (type.isF16() ? "fromFloat<f16>(" : "fromFloat<bf16>(") + *text +
           ")";
  }
  return text;
}

LogicalResult KernelText::declare(Value value, const std::string &text) {
  FailureOr<std::string> type =
      typeName(value.getType(), value.getDefiningOp());
  if (failed(type))
    return failure();
  std::string name = fresh(value.getType().isIndex() ? "i" : "t");
  line() << "const " << *type << " " << name << " = " << text << ";\n";
  names[value] = name;
  return success();
}

LogicalResult KernelText::printPure(Operation &op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (failed(typeName(constant.getType(), constant)))
      return failure();
    names[constant.getResult()] = literal(constant);
    return success();
  }
  if (op.getNumResults() != 1 || op.getNumRegions() != 0)
    return op.emitOpError() << "has no form in a printed kernel";
  FailureOr<std::string> text = expression(op);
  if (failed(text))
    return failure();
  if (!isInlined(op))
    return declare(op.getResult(0), *text);
  names[op.getResult(0)] = *text;
  return success();
}

LogicalResult codegen::printKernel(sched::KernelOp kernel, Language language,
                                   raw_ostream &os) {
  return language == Language::Cuda ? printCudaKernel(kernel, os)
                                    : printCppKernel(kernel, os);
}
