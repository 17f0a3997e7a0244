//===- Rows.h - Sums over rows and along rows -----------------------------===//
//
// Included inside the namespace of one instruction set.
//
//===----------------------------------------------------------------------===//

static void sumListedRows(abi::DType type, const void *in, int64_t xRow,
                          const int32_t *next, int32_t first, void *out,
                          int64_t n, bool add) {
  constexpr int64_t block = 512;
  float sums[block];
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    for (int64_t begin = 0; begin < n; begin += block) {
      int64_t size = n - begin < block ? n - begin : block;
      T *y = static_cast<T *>(out) + begin;
      for (int64_t i = 0; i < size; ++i)
        sums[i] = 0.0f;
      for (int32_t row = first; row >= 0; row = next[row]) {
        const T *x = static_cast<const T *>(in) + row * xRow + begin;
        CIUIC_SIMD
        for (int64_t i = 0; i < size; ++i)
          sums[i] += toFloat(x[i]);
      }
      if (add) {
        CIUIC_SIMD
        for (int64_t i = 0; i < size; ++i)
          y[i] = fromFloat<T>(toFloat(y[i]) + sums[i]);
      } else {
        CIUIC_SIMD
        for (int64_t i = 0; i < size; ++i)
          y[i] = fromFloat<T>(sums[i]);
      }
    }
  });
}

inline constexpr int64_t columnBlock = 64;

/// Sums term(i, j) over i for n <= 64 columns: 64 rows at a time, then their
/// sums, so that the error does not grow with the number of rows.
template <typename Term>
CIUIC_INLINE void sumColumns(int64_t rows, int64_t n, abi::DType outType,
                             void *out, Term term) {
  float total[columnBlock] = {};
  for (int64_t begin = 0; begin < rows; begin += 64) {
    int64_t end = begin + 64 < rows ? begin + 64 : rows;
    float part[columnBlock] = {};
    if (n == columnBlock) {
      for (int64_t i = begin; i < end; ++i) {
        CIUIC_SIMD
        for (int64_t j = 0; j < columnBlock; ++j)
          part[j] += term(i, j);
      }
    } else {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < n; ++j)
          part[j] += term(i, j);
    }
    for (int64_t j = 0; j < columnBlock; ++j)
      total[j] += part[j];
  }
  convert(abi::DType::F32, total, outType, out, n);
}

static void columnSum(abi::DType type, const void *in, int64_t xRow,
                      int64_t rows, int64_t n, abi::DType outType, void *out) {
  withType(type, [&](auto *tag) {
    auto *x = static_cast<const CIUIC_TYPE(tag) *>(in);
    sumColumns(rows, n, outType, out,
               [&](int64_t i, int64_t j) __attribute__((always_inline)) {
                 return toFloat(x[i * xRow + j]);
               });
  });
}

static void normWeightGrad(abi::DType type, const void *dyIn, int64_t dyRow,
                           const void *xIn, int64_t xRow, const float *rstd,
                           int64_t rows, int64_t n, abi::DType outType,
                           void *out) {
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    auto *dy = static_cast<const T *>(dyIn);
    auto *x = static_cast<const T *>(xIn);
    sumColumns(rows, n, outType, out,
               [&](int64_t i, int64_t j) __attribute__((always_inline)) {
                 return toFloat(dy[i * dyRow + j]) *
                        (toFloat(x[i * xRow + j]) * rstd[i]);
               });
  });
}

static float logSumExp(abi::DType type, const void *in, int64_t n) {
  constexpr int width = 4 * lanes;
  const float infinity = floatOf(0x7f800000u);
  float result = 0;
  withType(type, [&](auto *tag) {
    auto *x = static_cast<const CIUIC_TYPE(tag) *>(in);
    // A NaN is left out of the maximum here and found by the sum.
    float tops[width];
    for (int lane = 0; lane < width; ++lane)
      tops[lane] = -infinity;
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      CIUIC_SIMD
      for (int lane = 0; lane < width; ++lane) {
        float value = toFloat(x[i + lane]);
        tops[lane] = value > tops[lane] ? value : tops[lane];
      }
    }
    for (int lane = 0; i < n; ++i, ++lane) {
      float value = toFloat(x[i]);
      tops[lane] = value > tops[lane] ? value : tops[lane];
    }
    float top = -infinity;
    for (int lane = 0; lane < width; ++lane)
      top = tops[lane] > top ? tops[lane] : top;
    // An infinite maximum would give inf - inf; subtract 0 instead, so that
    // +inf gives +inf and all -inf gives -inf.
    float shift = absolute(top) == infinity ? 0.0f : top;
    float sums[width] = {};
    for (i = 0; i + width <= n; i += width) {
      CIUIC_SIMD
      for (int lane = 0; lane < width; ++lane)
        sums[lane] += kernel::expf(toFloat(x[i + lane]) - shift);
    }
    for (int lane = 0; i < n; ++i, ++lane)
      sums[lane] += kernel::expf(toFloat(x[i]) - shift);
    for (int step = width / 2; step >= 1; step /= 2)
      for (int lane = 0; lane < step; ++lane)
        sums[lane] += sums[lane + step];
    result = shift + kernel::logf(sums[0]);
  });
  return result;
}

static void softmaxGrad(abi::DType type, const void *in, float lse, float seed,
                        int64_t label, void *out, int64_t n) {
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    auto *x = static_cast<const T *>(in);
    auto *y = static_cast<T *>(out);
    float atLabel = seed * (kernel::expf(toFloat(x[label]) - lse) - 1.0f);
    CIUIC_SIMD
    for (int64_t j = 0; j < n; ++j)
      y[j] = fromFloat<T>(seed * kernel::expf(toFloat(x[j]) - lse));
    y[label] = fromFloat<T>(atLabel);
  });
}
