//===- HostKernels.h - Serial loops of one instruction set ------*- C++ -*-===//
//
// The innermost loops of the runtime's kernels. Their sources (isa/) are
// compiled once for x86-64-v3 and once for x86-64-v4; hostKernels() chooses by
// what the processor has. A function here runs on one thread, on the piece of
// work it is given, and neither allocates nor fails.
//
// Reductions keep a fixed number of partial sums (lanes) and add them in a
// fixed order. 16-bit data is computed on in f32 and rounded once.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_HOST_HOSTKERNELS_H
#define CIUIC_RUNTIME_KERNELS_HOST_HOSTKERNELS_H

#include "runtime/abi/Program.h"
#include "runtime/kernels/host/Scratch.h"

#include <cstdint>

namespace ciuic::rt {

/// One step of Adam, its scalars computed once in double.
struct AdamScalars {
  float beta1, beta2;
  float oneMinusBeta1, oneMinusBeta2;
  float eps;
  float coef;            ///< What the gradient is multiplied by.
  float coupledDecay;    ///< g += coupledDecay * p
  float decoupledFactor; ///< p *= decoupledFactor, 1 - lr * decay
  float stepSize;        ///< lr / (1 - beta1^t)
  float inverseRoot2;    ///< 1 / sqrt(1 - beta2^t)
};

struct SgdScalars {
  float lr, coef, momentum, decay;
  bool nesterov;
};

/// Blocks of attention: `rows` x `dim` pieces of strided matrices.
struct AttentionShape {
  int64_t seq;        ///< Rows of one sequence.
  int64_t dim;        ///< Features of one head.
  int64_t queryHeads; ///< That share one key/value head.
  float scale;
};

/// A head's rows within a matrix of many: element (row, feature) is at
/// data + row * stride + feature.
struct HeadView {
  void *data;
  int64_t stride;
};

/// One block of a matrix product in f32: C = op(A) op(B), packed as it goes.
/// Element (i, k) of op(A) is at a + i * aRow + k * aColumn, and so on.
struct GemmBlock {
  int64_t m, n, k;
  const void *a;
  int64_t aRow, aColumn;
  abi::DType aType;
  const void *b;
  int64_t bRow, bColumn; ///< op(B): k x n.
  abi::DType bType;
  void *c;
  int64_t cRow;
  abi::DType cType;
  const void *bias; ///< n elements, or null.
  abi::DType biasType;
  bool accumulate;
  float *scratch; ///< gemmScratchFloats(m, n, k) floats.
};

struct HostKernels {
  const char *isa;

  /// out[i] = in[i] in another type (f32, f16, bf16).
  void (*convert)(abi::DType from, const void *in, abi::DType to, void *out,
                  int64_t n);
  /// out = x, or out += x.
  void (*accumulate)(abi::DType type, const void *x, float *out, int64_t n,
                     bool add);
  /// out += x for any of the three types.
  void (*addTo)(abi::DType type, const void *x, void *out, int64_t n);
  double (*squareSum)(abi::DType type, const void *x, int64_t n);
  /// out[i] = factor * (sum over r of parts[r][i]), r rising.
  void (*reduceRanks)(abi::DType type, const void *const *parts, int64_t ranks,
                      void *out, int64_t n, double factor);

  void (*adam)(const AdamScalars &s, float *p, const float *grad, float *m,
               float *v, abi::DType halfType, void *half, int64_t n);
  void (*sgd)(const SgdScalars &s, float *p, const float *grad, float *m,
              abi::DType halfType, void *half, int64_t n);

  /// out[j] (+)= sum over rows of the list of x[row, j], n columns.
  void (*sumListedRows)(abi::DType type, const void *x, int64_t xRow,
                        const int32_t *next, int32_t first, void *out,
                        int64_t n, bool add);
  /// out[j] = sum over i of x[i, j] for at most 64 columns.
  void (*columnSum)(abi::DType type, const void *x, int64_t xRow, int64_t rows,
                    int64_t n, abi::DType outType, void *out);
  /// out[j] = sum over i of dy[i, j] * x[i, j] * rstd[i], at most 64 columns.
  void (*normWeightGrad)(abi::DType type, const void *dy, int64_t dyRow,
                         const void *x, int64_t xRow, const float *rstd,
                         int64_t rows, int64_t n, abi::DType outType,
                         void *out);

  /// log of the sum of exp(x[j]).
  float (*logSumExp)(abi::DType type, const void *x, int64_t n);
  /// out[j] = seed * exp(x[j] - lse), minus seed at `label`; may be in place.
  void (*softmaxGrad)(abi::DType type, const void *x, float lse, float seed,
                      int64_t label, void *out, int64_t n);

  /// Query rows [begin, end) of one sequence and query head. `lse` of row i is
  /// at lse[i * lseStride]. Pointers are to the sequence's first row.
  void (*attentionForward)(const AttentionShape &shape, abi::DType type,
                           int64_t begin, int64_t end, HeadView q, HeadView k,
                           HeadView v, HeadView out, float *lse,
                           int64_t lseStride, float *scratch);
  /// One sequence and key/value head with all its query heads: `q`, `dy`, `y`,
  /// `dq`, `lse` point to the first of them, the others follow `dim` columns
  /// (lse: one column) apart.
  void (*attentionBackward)(const AttentionShape &shape, abi::DType type,
                            HeadView dy, HeadView q, HeadView k, HeadView v,
                            HeadView y, const float *lse, int64_t lseStride,
                            HeadView dq, HeadView dk, HeadView dv,
                            float *scratch);

  void (*gemm)(const GemmBlock &block);
};

/// The build for this processor; null if it has not even x86-64-v3.
const HostKernels *hostKernelsFor(const char *isa);
const HostKernels &hostKernels();

/// "x86-64-v4", "x86-64-v3" or "x86-64": the best that this processor runs.
const char *processorIsa();

/// Whether code built for `isa` runs on this processor.
bool processorRuns(const char *isa);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_KERNELS_HOST_HOSTKERNELS_H
