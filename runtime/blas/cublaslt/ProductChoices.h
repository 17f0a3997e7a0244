//===- ProductChoices.h - How products are done, kept -----------*- C++ -*-===//
//
// `tuning/gemm.json` of a bundle. One way of doing a product is 64 bytes of the
// library's; they are kept under all that the product depends on, for one
// device and version of the library, so that a run does what the run before
// did, to the bit. The file is not trusted: what does not read well is refused,
// and its bytes are only compared with those that the library offers.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BLAS_CUBLASLT_PRODUCTCHOICES_H
#define CIUIC_RUNTIME_BLAS_CUBLASLT_PRODUCTCHOICES_H

#include "runtime/abi/Program.h"
#include "runtime/base/Status.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace ciuic::rt {

/// What a product is, as the library sees it.
struct ProductKey {
  int64_t m = 0, n = 0, k = 0;       ///< Of the row-major C (m x n).
  int64_t lda = 0, ldb = 0, ldc = 0; ///< Elements from row to row.
  abi::DType in = abi::DType::F32, out = abi::DType::F32;
  abi::DType biasType = abi::DType::F32;
  bool transposeA = false, transposeB = false;
  bool accumulate = false, bias = false, tf32 = false;
  /// Bytes that the addresses of A, B and C are multiples of, at most 256.
  uint32_t alignA = 256, alignB = 256, alignC = 256;
  uint64_t workspace = 0; ///< Bytes at hand.

  auto operator<=>(const ProductKey &) const = default;
  std::string str() const;
};

/// The bytes of a cublasLtMatmulAlgo_t.
using ProductChoice = std::array<uint64_t, 8>;

class ProductChoices {
public:
  /// For a device and a version of the library; kept choices of others are
  /// left where they are.
  ProductChoices(std::string device, uint64_t version)
      : device(std::move(device)), version(version) {}

  /// Adds those of a file's text. Code::Invalid, with `path`, if it is not
  /// what write() writes.
  Status read(const std::string &text, const std::string &path);

  std::optional<ProductChoice> find(const ProductKey &key) const;
  void set(const ProductKey &key, const ProductChoice &choice);

  /// Whether set() has been called.
  bool hasChanged() const { return changed; }

  /// The file's text: what was read and what was set.
  Result<std::string> write() const;

private:
  /// By device, version of the library and product.
  using Place = std::tuple<std::string, uint64_t, ProductKey>;

  std::string device;
  uint64_t version;
  bool changed = false;
  std::map<Place, ProductChoice> choices;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BLAS_CUBLASLT_PRODUCTCHOICES_H
