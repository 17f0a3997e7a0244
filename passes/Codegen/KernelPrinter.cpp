//===- KernelPrinter.cpp - Prints kernel bodies as C++ or CUDA ------------===//
#include "passes/Codegen/KernelPrinter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Codegen/ProgramPrinter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace ciuic;
using namespace ciuic::codegen;

namespace {
class Printer {
public:
  Printer(sched::KernelOp kernel, Language language, raw_ostream &os)
      : kernel(kernel), cuda(language == Language::Cuda), os(os) {}

  LogicalResult print();

private:
  void printHead();
  LogicalResult printBlock(Block &block);
  LogicalResult printOp(Operation &op);
  LogicalResult printLoop(scf::ForOp loop);
  LogicalResult printStore(memref::StoreOp store);
  FailureOr<std::string> expression(Operation &op);
  std::string literal(arith::ConstantOp constant);
  std::string address(Value memref, ValueRange indices);
  FailureOr<std::string> typeName(Type type, Operation *op);

  /// Declares a constant with the value of `text` and names `value` after it.
  LogicalResult declare(Value value, const std::string &text);
  /// Whether `op`'s text may stand in its only user: pure and in its block.
  static bool isInlined(Operation &op);

  raw_ostream &line() { return os.indent(depth * 2); }
  std::string fresh(StringRef stem) {
    return (stem + Twine(counts[stem]++)).str();
  }

  sched::KernelOp kernel;
  bool cuda;
  raw_ostream &os;
  unsigned depth = 1;
  llvm::DenseMap<Value, std::string> names;
  llvm::StringMap<int> counts;
};
} // namespace

FailureOr<std::string> Printer::typeName(Type type, Operation *op) {
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
    return std::string("int64_t");
  return op->emitOpError() << "has type " << type
                           << ", which kernels cannot hold";
}

std::string Printer::literal(arith::ConstantOp constant) {
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

/// Row-major element of a memref argument.
std::string Printer::address(Value memref, ValueRange indices) {
  auto type = cast<MemRefType>(memref.getType());
  std::string index;
  for (auto [i, value] : llvm::enumerate(indices)) {
    if (i > 0)
      index = (i > 1 ? "(" + index + ")" : index) + " * " +
              std::to_string(type.getDimSize(i)) + " + ";
    index += names.lookup(value);
  }
  return names.lookup(memref) + "[" + (index.empty() ? "0" : index) + "]";
}

bool Printer::isInlined(Operation &op) {
  if (isa<memref::LoadOp>(op))
    return false; // A load must not move past a store.
  return op.hasOneUse() && (*op.user_begin())->getBlock() == op.getBlock() &&
         !isa<arith::MaximumFOp, arith::MinimumFOp, arith::SelectOp>(
             *op.user_begin());
}

FailureOr<std::string> Printer::expression(Operation &op) {
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
          .Case<arith::DivFOp, arith::DivUIOp>([&](auto) { return infix("/"); })
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
          .Case([&](math::RsqrtOp) { return call("rsqrtf"); })
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
  if (succeeded(text) && (type.isF16() || type.isBF16()))
    return (type.isF16() ? "fromFloat<f16>(" : "fromFloat<bf16>(") + *text +
           ")";
  return text;
}

LogicalResult Printer::declare(Value value, const std::string &text) {
  FailureOr<std::string> type =
      typeName(value.getType(), value.getDefiningOp());
  if (failed(type))
    return failure();
  std::string name = fresh(value.getType().isIndex() ? "i" : "t");
  line() << "const " << *type << " " << name << " = " << text << ";\n";
  names[value] = name;
  return success();
}

LogicalResult Printer::printStore(memref::StoreOp store) {
  std::string target = address(store.getMemRef(), store.getIndices());
  // Outside of a loop one thread of the block speaks for the row.
  bool guard = cuda && !store->getParentOfType<scf::ForOp>();
  line() << (guard ? "if (threadIdx.x == 0) " : "") << target << " = "
         << names.lookup(store.getValueToStore()) << ";\n";
  return success();
}

LogicalResult Printer::printLoop(scf::ForOp loop) {
  // A loop that holds none is the one that lanes or threads share.
  bool innermost = loop.getBody()->getOps<scf::ForOp>().empty();
  std::string sum;
  if (getConstantIntValue(loop.getStep()) != 1)
    return loop.emitOpError() << "has a step that is not the constant 1";
  if (loop.getNumResults() > 1)
    return loop.emitOpError() << "carries " << loop.getNumResults()
                              << " values, expected at most one sum";
  if (loop.getNumResults() == 1) {
    Value carried = loop.getRegionIterArgs().front();
    auto add = loop.getYieldedValues().front().getDefiningOp<arith::AddFOp>();
    if (!innermost || !add || add.getLhs() != carried || !carried.hasOneUse() ||
        !carried.getType().isF32())
      return loop.emitOpError() << "carries a value that is no plain f32 sum";
    sum = fresh("sum");
    line() << "float " << sum << " = " << names.lookup(loop.getInitArgs()[0])
           << ";\n";
    names[carried] = sum;
  }
  std::string index = fresh("j");
  names[loop.getInductionVar()] = index;
  std::string begin = names.lookup(loop.getLowerBound());
  std::string end = names.lookup(loop.getUpperBound());
  if (!cuda && innermost) {
    if (sum.empty())
      line() << "CIUIC_SIMD\n";
    else
      line() << "#pragma omp simd reduction(+ : " << sum << ")\n";
  }
  bool shared = cuda && innermost;
  if (shared)
    line() << "for (int64_t " << index << " = "
           << (begin == "0" ? "" : begin + " + ") << "threadIdx.x; " << index
           << " < " << end << "; " << index << " += blockDim.x) {\n";
  else
    line() << "for (int64_t " << index << " = " << begin << "; " << index
           << " < " << end << "; ++" << index << ") {\n";
  ++depth;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (!sum.empty() &&
        &op == loop.getYieldedValues().front().getDefiningOp()) {
      line() << sum << " += " << names.lookup(op.getOperand(1)) << ";\n";
      continue;
    }
    if (failed(printOp(op)))
      return failure();
  }
  --depth;
  line() << "}\n";
  if (!sum.empty()) {
    if (cuda)
      line() << sum << " = blockSum(" << sum << ");\n";
    names[loop.getResult(0)] = sum;
  }
  return success();
}

LogicalResult Printer::printOp(Operation &op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (failed(typeName(constant.getType(), constant)))
      return failure();
    names[constant.getResult()] = literal(constant);
    return success();
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return printLoop(loop);
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return printStore(store);
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return declare(load.getResult(),
                   address(load.getMemRef(), load.getIndices()));
  if (op.getNumResults() != 1)
    return op.emitOpError() << "has no form in a printed kernel";
  FailureOr<std::string> text = expression(op);
  if (failed(text))
    return failure();
  if (!isInlined(op))
    return declare(op.getResult(0), *text);
  names[op.getResult(0)] = *text;
  return success();
}

LogicalResult Printer::printBlock(Block &block) {
  for (Operation &op : block)
    if (failed(printOp(op)))
      return failure();
  return success();
}

/// Says what the kernel is: its work, its operands' shapes.
void Printer::printHead() {
  os << "/// " << kernel.getSymName();
  if (kernel.getOrigin())
    os << ": first for " << escaped(*kernel.getOrigin());
  os << ".\n";
}

LogicalResult Printer::print() {
  Block &block = kernel.getBody().front();
  auto memrefs = block.getArguments().drop_front();
  unsigned inputs = memrefs.size() - kernel.getOutputs();
  if (!isIdentifier(kernel.getSymName()))
    return kernel.emitOpError() << "has the name \"" << kernel.getSymName()
                                << "\", which is no C++ identifier";
  printHead();
  SmallVector<std::string> types;
  for (auto [i, argument] : llvm::enumerate(memrefs)) {
    auto type = cast<MemRefType>(argument.getType());
    FailureOr<std::string> element = typeName(type.getElementType(), kernel);
    if (failed(element))
      return failure();
    types.push_back((i < inputs ? "const " : "") + *element);
    names[argument] = i < inputs ? "in" + std::to_string(i)
                                 : "out" + std::to_string(i - inputs);
  }
  names[block.getArgument(0)] = "row";

  auto shape = [](Value memref) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleave(cast<MemRefType>(memref.getType()).getShape(), stream,
                     "x");
    return text.empty() ? std::string("scalar") : text;
  };
  if (cuda) {
    os << "extern \"C\" __global__ void " << kernel.getSymName() << "(";
    for (auto [i, argument] : llvm::enumerate(memrefs))
      os << (i ? ",\n    " : "\n    ") << types[i] << " *__restrict__ "
         << names[argument] << " /* " << shape(argument) << " */";
    os << ") {\n";
    line() << "[[maybe_unused]] const int64_t row = blockIdx.x;\n";
    if (failed(printBlock(block)))
      return failure();
  } else {
    os << "extern \"C\" void " << kernel.getSymName()
       << "(int64_t begin, int64_t end,\n    void *const *pointers) {\n";
    for (auto [i, argument] : llvm::enumerate(memrefs))
      line() << "auto *CIUIC_RESTRICT " << names[argument] << " = static_cast<"
             << types[i] << " *>(pointers[" << i << "]); // " << shape(argument)
             << "\n";
    line() << "for (int64_t row = begin; row < end; ++row) {\n";
    ++depth;
    if (failed(printBlock(block)))
      return failure();
    --depth;
    line() << "}\n";
  }
  os << "}\n";
  return success();
}

LogicalResult codegen::printKernel(sched::KernelOp kernel, Language language,
                                   raw_ostream &os) {
  return Printer(kernel, language, os).print();
}
