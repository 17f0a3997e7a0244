//===- Pointwise.cpp - arith and math, element by element -----------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tools/oracle/Kernels.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace ciuic::oracle;

//===----------------------------------------------------------------------===//
// Functions of one, two and three numbers
//===----------------------------------------------------------------------===//

using Unary = double (*)(double);
using Binary = double (*)(double, double);
using Ternary = double (*)(double, double, double);

static Unary findUnary(StringRef name) {
  return llvm::StringSwitch<Unary>(name)
      .Case("arith.negf", [](double x) { return -x; })
      .Cases({"arith.extf", "arith.truncf", "arith.trunci"},
             [](double x) { return x; })
      .Cases({"arith.fptosi", "arith.fptoui"},
             [](double x) { return std::trunc(x); })
      .Case("math.absf", [](double x) { return std::fabs(x); })
      .Case("math.acos", [](double x) { return std::acos(x); })
      .Case("math.asin", [](double x) { return std::asin(x); })
      .Case("math.atan", [](double x) { return std::atan(x); })
      .Case("math.cbrt", [](double x) { return std::cbrt(x); })
      .Case("math.ceil", [](double x) { return std::ceil(x); })
      .Case("math.cos", [](double x) { return std::cos(x); })
      .Case("math.cosh", [](double x) { return std::cosh(x); })
      .Case("math.erf", [](double x) { return std::erf(x); })
      .Case("math.erfc", [](double x) { return std::erfc(x); })
      .Case("math.exp", [](double x) { return std::exp(x); })
      .Case("math.exp2", [](double x) { return std::exp2(x); })
      .Case("math.expm1", [](double x) { return std::expm1(x); })
      .Case("math.floor", [](double x) { return std::floor(x); })
      .Case("math.log", [](double x) { return std::log(x); })
      .Case("math.log10", [](double x) { return std::log10(x); })
      .Case("math.log1p", [](double x) { return std::log1p(x); })
      .Case("math.log2", [](double x) { return std::log2(x); })
      .Case("math.round", [](double x) { return std::round(x); })
      .Case("math.roundeven", [](double x) { return std::nearbyint(x); })
      .Case("math.rsqrt", [](double x) { return 1.0 / std::sqrt(x); })
      .Case("math.sin", [](double x) { return std::sin(x); })
      .Case("math.sinh", [](double x) { return std::sinh(x); })
      .Case("math.sqrt", [](double x) { return std::sqrt(x); })
      .Case("math.tan", [](double x) { return std::tan(x); })
      .Case("math.tanh", [](double x) { return std::tanh(x); })
      .Case("math.trunc", [](double x) { return std::trunc(x); })
      .Default(nullptr);
}

/// A NaN on either side wins.
static double maximum(double x, double y) {
  if (std::isnan(x) || std::isnan(y))
    return x + y;
  if (x == y) // +0 is above -0.
    return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

static double minimum(double x, double y) { return -maximum(-x, -y); }

/// Integer arithmetic on the low 64 bits; the result is wrapped to its type.
template <uint64_t (*fn)(uint64_t, uint64_t)>
static double integers(double x, double y) {
  return static_cast<double>(
      static_cast<int64_t>(fn(static_cast<uint64_t>(static_cast<int64_t>(x)),
                              static_cast<uint64_t>(static_cast<int64_t>(y)))));
}

static uint64_t addBits(uint64_t x, uint64_t y) { return x + y; }
static uint64_t subBits(uint64_t x, uint64_t y) { return x - y; }
static uint64_t mulBits(uint64_t x, uint64_t y) { return x * y; }
static uint64_t andBits(uint64_t x, uint64_t y) { return x & y; }
static uint64_t orBits(uint64_t x, uint64_t y) { return x | y; }
static uint64_t xorBits(uint64_t x, uint64_t y) { return x ^ y; }

static Binary findBinary(StringRef name) {
  return llvm::StringSwitch<Binary>(name)
      .Case("arith.addf", [](double x, double y) { return x + y; })
      .Case("arith.subf", [](double x, double y) { return x - y; })
      .Case("arith.mulf", [](double x, double y) { return x * y; })
      .Case("arith.divf", [](double x, double y) { return x / y; })
      .Case("arith.remf", [](double x, double y) { return std::fmod(x, y); })
      .Case("arith.maximumf", maximum)
      .Case("arith.minimumf", minimum)
      .Case("arith.maxnumf", [](double x, double y) { return std::fmax(x, y); })
      .Case("arith.minnumf", [](double x, double y) { return std::fmin(x, y); })
      .Case("arith.addi", integers<addBits>)
      .Case("arith.subi", integers<subBits>)
      .Case("arith.muli", integers<mulBits>)
      .Case("arith.andi", integers<andBits>)
      .Case("arith.ori", integers<orBits>)
      .Case("arith.xori", integers<xorBits>)
      .Case("arith.maxsi", [](double x, double y) { return x > y ? x : y; })
      .Case("arith.minsi", [](double x, double y) { return x < y ? x : y; })
      .Case("math.atan2", [](double x, double y) { return std::atan2(x, y); })
      .Case("math.copysign",
            [](double x, double y) { return std::copysign(x, y); })
      .Case("math.powf", [](double x, double y) { return std::pow(x, y); })
      .Default(nullptr);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static LogicalResult applyUnary(const Invocation &call) {
  Unary fn = findUnary(call.op->getName().getStringRef());
  for (auto [x, y] : llvm::zip_equal(call.operand(0).data, call.out[0].data))
    y = fn(x);
  return success();
}

static LogicalResult applyBinary(const Invocation &call) {
  Binary fn = findBinary(call.op->getName().getStringRef());
  for (auto [x, y, z] : llvm::zip_equal(call.operand(0).data,
                                        call.operand(1).data, call.out[0].data))
    z = fn(x, y);
  return success();
}

/// Rounds once, as the op promises.
static LogicalResult applyFma(const Invocation &call) {
  for (int64_t i = 0; i < call.out[0].size(); ++i)
    call.out[0].data[i] =
        std::fma(call.operand(0).data[i], call.operand(1).data[i],
                 call.operand(2).data[i]);
  return success();
}

static LogicalResult applyConstant(const Invocation &call) {
  std::vector<double> &data = call.out[0].data;
  Attribute value = cast<arith::ConstantOp>(call.op).getValue();
  bool isTruth = call.out[0].element == Element::I1;
  auto fromInt = [&](const APInt &number) {
    return isTruth ? static_cast<double>(number.getZExtValue())
                   : static_cast<double>(number.getSExtValue());
  };
  auto fromFloat = [](APFloat number) {
    bool losesInfo = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &losesInfo);
    return number.convertToDouble();
  };
  if (auto number = dyn_cast<FloatAttr>(value)) {
    data[0] = number.getValueAsDouble();
    return success();
  }
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    data[0] = fromInt(number.getValue());
    return success();
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return call.op->emitOpError() << "has a value that ciuic-run does not read";
  if (isFloat(call.out[0].element)) {
    for (auto [number, slot] :
         llvm::zip_equal(dense.getValues<APFloat>(), data))
      slot = fromFloat(number);
    return success();
  }
  for (auto [number, slot] : llvm::zip_equal(dense.getValues<APInt>(), data))
    slot = fromInt(number);
  return success();
}

/// The outcomes that a predicate accepts, as bits: 1 equal, 2 greater, 4 less,
/// 8 unordered.
static unsigned acceptedOutcomes(arith::CmpFPredicate predicate) {
  auto number = static_cast<unsigned>(predicate);
  if (predicate == arith::CmpFPredicate::UNO)
    return 8;
  if (predicate == arith::CmpFPredicate::AlwaysTrue)
    return 15;
  // The ordered ones are numbered by their bits, the unordered ones follow.
  return number < 8 ? number : 8 | (number - 7);
}

static LogicalResult applyCmpF(const Invocation &call) {
  unsigned accepted =
      acceptedOutcomes(cast<arith::CmpFOp>(call.op).getPredicate());
  for (auto [x, y, z] : llvm::zip_equal(call.operand(0).data,
                                        call.operand(1).data, call.out[0].data))
    z = accepted & (x == y ? 1u : x > y ? 2u : x < y ? 4u : 8u) ? 1.0 : 0.0;
  return success();
}

/// The value of an integer's bits read without a sign.
static double unsignedValue(double value, unsigned width) {
  return value < 0.0 ? value + std::ldexp(1.0, static_cast<int>(width)) : value;
}

static bool compareIntegers(arith::CmpIPredicate predicate, double x, double y,
                            unsigned width) {
  using Predicate = arith::CmpIPredicate;
  // A truth value is kept as 0 or 1; read with a sign, 1 is -1.
  double sx = width == 1 ? -x : x, sy = width == 1 ? -y : y;
  double ux = unsignedValue(x, width), uy = unsignedValue(y, width);
  switch (predicate) {
  case Predicate::eq:
    return x == y;
  case Predicate::ne:
    return x != y;
  case Predicate::slt:
    return sx < sy;
  case Predicate::sle:
    return sx <= sy;
  case Predicate::sgt:
    return sx > sy;
  case Predicate::sge:
    return sx >= sy;
  case Predicate::ult:
    return ux < uy;
  case Predicate::ule:
    return ux <= uy;
  case Predicate::ugt:
    return ux > uy;
  case Predicate::uge:
    return ux >= uy;
  }
  return false;
}

static LogicalResult applyCmpI(const Invocation &call) {
  arith::CmpIPredicate predicate = cast<arith::CmpIOp>(call.op).getPredicate();
  unsigned width = integerWidth(call.operand(0).element);
  for (auto [x, y, z] : llvm::zip_equal(call.operand(0).data,
                                        call.operand(1).data, call.out[0].data))
    z = compareIntegers(predicate, x, y, width) ? 1.0 : 0.0;
  return success();
}

static LogicalResult applySelect(const Invocation &call) {
  const Tensor &condition = call.operand(0);
  bool one = condition.size() == 1; // A scalar chooses for all elements.
  for (int64_t i = 0; i < call.out[0].size(); ++i)
    call.out[0].data[i] =
        call.operand(condition.data[one ? 0 : i] != 0.0 ? 1 : 2).data[i];
  return success();
}

/// From bits read without a sign: extui and uitofp.
static LogicalResult applyUnsigned(const Invocation &call) {
  unsigned width = integerWidth(call.operand(0).element);
  for (auto [x, y] : llvm::zip_equal(call.operand(0).data, call.out[0].data))
    y = unsignedValue(x, width);
  return success();
}

/// extsi and sitofp. A truth value is kept as 0 or 1; with a sign, 1 is -1.
static LogicalResult applySigned(const Invocation &call) {
  double one = call.operand(0).element == Element::I1 ? -1.0 : 1.0;
  for (auto [x, y] : llvm::zip_equal(call.operand(0).data, call.out[0].data))
    y = one * x;
  return success();
}

/// Division and remainder toward zero; dividing by zero is an error here.
static LogicalResult applyDivision(const Invocation &call) {
  bool remainder = isa<arith::RemSIOp>(call.op);
  for (int64_t i = 0; i < call.out[0].size(); ++i) {
    double x = call.operand(0).data[i], y = call.operand(1).data[i];
    if (y == 0.0)
      return call.op->emitOpError() << "divides by 0 in element " << i;
    call.out[0].data[i] = remainder ? std::fmod(x, y) : std::trunc(x / y);
  }
  return success();
}

Kernel ciuic::oracle::findPointwiseKernel(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (findUnary(name))
    return applyUnary;
  if (findBinary(name))
    return applyBinary;
  return llvm::StringSwitch<Kernel>(name)
      .Case("arith.constant", applyConstant)
      .Case("arith.cmpf", applyCmpF)
      .Case("arith.cmpi", applyCmpI)
      .Case("arith.select", applySelect)
      .Cases({"arith.extsi", "arith.sitofp"}, applySigned)
      .Cases({"arith.extui", "arith.uitofp"}, applyUnsigned)
      .Cases({"arith.divsi", "arith.remsi"}, applyDivision)
      .Case("math.fma", applyFma)
      .Default(nullptr);
}
