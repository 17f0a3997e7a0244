//===- Tensor.h - The oracle's values ---------------------------*- C++ -*-===//
//
// Every element is held as a double together with the tensor's element type.
// An op computes in double and its results are rounded once to their types;
// in exact mode nothing is rounded. Integers up to 2^53 are exact.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_ORACLE_TENSOR_H
#define CIUIC_TOOLS_ORACLE_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ciuic::oracle {

/// The element types that the oracle computes with.
enum class Element : uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, I1 };

inline bool isFloat(Element element) { return element <= Element::BF16; }

/// Bits of an integer element; 0 for floats.
unsigned integerWidth(Element element);

/// "f32", "i32", as MLIR writes them.
llvm::StringRef name(Element element);

/// The nearest value of type `element`, ties to even; integers wrap around.
double roundTo(Element element, double value);

struct Tensor {
  Element element = Element::F32;
  llvm::SmallVector<int64_t, 4> shape;
  std::vector<double> data; ///< Row-major.

  int64_t dim(unsigned index) const { return shape[index]; }
  int64_t size() const { return static_cast<int64_t>(data.size()); }

  /// Rounds every element to the element type.
  void round();
};

/// Values are shared between states, ranks and ops, and never changed.
using TensorRef = std::shared_ptr<const Tensor>;

/// One value of a function: a tensor on each rank.
using RankValues = llvm::SmallVector<TensorRef, 4>;

/// Tensors of more elements than this are refused, not allocated.
inline constexpr int64_t kMaxElements = int64_t(1) << 28;

/// Type and shape of `type`, its data left empty: a static tensor, or a scalar
/// (held as a tensor without dimensions). None for types that the oracle does
/// not know, or of more than kMaxElements elements.
std::optional<Tensor> describe(mlir::Type type);

/// Elements of a shape.
int64_t elementCount(llvm::ArrayRef<int64_t> shape);

/// Whether both hold the same type, shape and bits (NaNs count as equal).
bool identical(const Tensor &a, const Tensor &b);

/// A tensor without dimensions.
TensorRef scalar(Element element, double value);

/// "tensor<2xf32> [1, 2.5]": each number with the fewest digits that give it
/// back in its type, or in double where `exact`.
std::string print(const Tensor &tensor, bool exact);

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_TENSOR_H
