//===- Tensor.cpp - The oracle's values -----------------------------------===//
#include "tools/oracle/Tensor.h"
#include "runtime/base/HalfFloat.h"

#include <charconv>
#include <cmath>

using namespace ciuic;
using namespace ciuic::oracle;

unsigned oracle::integerWidth(Element element) {
  switch (element) {
  case Element::I64:
    return 64;
  case Element::I32:
    return 32;
  case Element::I16:
    return 16;
  case Element::I8:
    return 8;
  case Element::I1:
    return 1;
  default:
    return 0;
  }
}

llvm::StringRef oracle::name(Element element) {
  static constexpr llvm::StringLiteral names[] = {
      "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "i1"};
  return names[static_cast<size_t>(element)];
}

/// The low `width` bits of an integer, sign-extended; a truth value is 0 or 1.
static double wrap(unsigned width, double value) {
  if (!(std::fabs(value) < 0x1p63)) // Also NaN: no integer at all.
    return 0.0;
  auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
  if (width == 1)
    return static_cast<double>(bits & 1);
  if (width == 64)
    return std::trunc(value);
  unsigned unused = 64 - width;
  return static_cast<double>(static_cast<int64_t>(bits << unused) >>
                             static_cast<int>(unused));
}

double oracle::roundTo(Element element, double value) {
  switch (element) {
  case Element::F64:
    return value;
  case Element::F32:
    return static_cast<float>(value);
  case Element::F16:
    return rt::floatFromF16(rt::f16FromFloat(rt::floatRoundedToOdd(value)));
  case Element::BF16:
    return rt::floatFromBf16(rt::bf16FromFloat(rt::floatRoundedToOdd(value)));
  default:
    return wrap(integerWidth(element), value);
  }
}

void Tensor::round() {
  if (element == Element::F64)
    return;
  for (double &value : data)
    value = roundTo(element, value);
}

int64_t oracle::elementCount(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

static std::optional<Element> elementOf(mlir::Type type) {
  if (type.isF64())
    return Element::F64;
  if (type.isF32())
    return Element::F32;
  if (type.isF16())
    return Element::F16;
  if (type.isBF16())
    return Element::BF16;
  for (Element element :
       {Element::I64, Element::I32, Element::I16, Element::I8, Element::I1})
    if (type.isSignlessInteger(integerWidth(element)))
      return element;
  return std::nullopt;
}

std::optional<Tensor> oracle::describe(mlir::Type type) {
  Tensor tensor;
  mlir::Type elementType = type;
  if (auto ranked = llvm::dyn_cast<mlir::RankedTensorType>(type)) {
    if (!ranked.hasStaticShape())
      return std::nullopt;
    int64_t count = 1;
    for (int64_t dim : ranked.getShape())
      if (__builtin_mul_overflow(count, dim, &count) || count > kMaxElements)
        return std::nullopt;
    tensor.shape.assign(ranked.getShape().begin(), ranked.getShape().end());
    elementType = ranked.getElementType();
  }
  std::optional<Element> element = elementOf(elementType);
  if (!element)
    return std::nullopt;
  tensor.element = *element;
  return tensor;
}

bool oracle::identical(const Tensor &a, const Tensor &b) {
  if (a.element != b.element || a.shape != b.shape)
    return false;
  for (auto [x, y] : llvm::zip_equal(a.data, b.data))
    if (x != y && !(std::isnan(x) && std::isnan(y)))
      return false;
  return true;
}

TensorRef oracle::scalar(Element element, double value) {
  auto tensor = std::make_shared<Tensor>();
  tensor->element = element;
  tensor->data = {value};
  return tensor;
}

static void printNumber(std::string &text, double value, Element element,
                        bool exact) {
  char buffer[64];
  std::to_chars_result end = {};
  if (!isFloat(element))
    end = std::to_chars(buffer, buffer + sizeof buffer,
                        static_cast<int64_t>(value));
  else if (exact || element == Element::F64)
    end = std::to_chars(buffer, buffer + sizeof buffer, value);
  else
    end = std::to_chars(buffer, buffer + sizeof buffer,
                        static_cast<float>(value));
  text.append(buffer, end.ptr);
}

std::string oracle::print(const Tensor &tensor, bool exact) {
  std::string text = "tensor<";
  for (int64_t dim : tensor.shape)
    text += std::to_string(dim) + "x";
  text += name(tensor.element).str() + "> [";
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (i != 0)
      text += ", ";
    printNumber(text, tensor.data[static_cast<size_t>(i)], tensor.element,
                exact);
  }
  return text + "]";
}
