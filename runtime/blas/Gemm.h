//===- Gemm.h - Matrix products on the CPU ----------------------*- C++ -*-===//
//
// A product is divided into tiles by its shape alone; each tile is one call on
// one thread. Which code multiplies is a fixed choice by element types and
// instruction set:
//
//   f32 x f32              oneDNN
//   bf16 x bf16            oneDNN where the CPU has avx512_bf16
//   everything else        the packed f32 product of HostKernels.h
//
// oneDNN's primitives are made when the program is loaded, one for each shape
// of tile, and shared by all tasks.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BLAS_GEMM_H
#define CIUIC_RUNTIME_BLAS_GEMM_H

#include "runtime/kernels/host/Operation.h"

#include <map>
#include <tuple>

namespace ciuic::rt {

/// A tile as oneDNN sees it.
struct TileKey {
  int64_t m, n, k;
  int64_t aRow, aColumn, bRow, bColumn, cRow;
  abi::DType in, out, biasType;
  bool hasBias, accumulate;
  auto operator<=>(const TileKey &) const = default;
};

class TilePrimitive;

/// The primitives of a program and what each thread needs to call them.
class GemmCache {
public:
  /// For up to `threads` threads of one arena.
  explicit GemmCache(int threads);
  ~GemmCache();

  /// Null where oneDNN does not take the tile. Its scratch is reserved.
  Result<TilePrimitive *> find(const TileKey &key, Workspace &workspace);

private:
  int threads;
  std::map<TileKey, std::unique_ptr<TilePrimitive>> primitives;
};

/// C = op(A) op(B) [+ bias] [+ C].
Result<OperationPtr> makeGemm(const TaskArguments &arguments);

/// Whether this processor multiplies bf16 itself.
bool hasNativeBf16();

/// Floating-point operations a second that `threads` threads reach in matrix
/// products of `dtype`, measured in about a tenth of a second.
double measureGemmPeak(abi::DType dtype, int threads);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BLAS_GEMM_H
