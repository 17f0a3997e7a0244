//===- Gemm.h - A packed f32 product for any storage type -------*- C++ -*-===//
//
// Included inside the namespace of one instruction set.
//
// Operands of 16 bits are extended while they are packed. B's panels (panel
// columns of a slice of k) stay in the first-level cache while A's run by.
//
//===----------------------------------------------------------------------===//

inline constexpr int64_t sliceDepth = 256;

/// Panels of `block` rows of A one after another, each as to[k][r] =
/// A(i0 + r, k) for k < depth; rows past the last are zero. `temporary` has
/// room for one row of all panels, and for `block` rows of `depth`.
template <int block>
static void packPanels(abi::DType type, const void *from, int64_t row,
                       int64_t column, int64_t rows, int64_t depth, float *to,
                       float *temporary) {
  if (row == 1) {
    // Contiguous across panels: a row at a time.
    for (int64_t p = 0; p < depth; ++p) {
      convert(type, at(type, from, p * column), abi::DType::F32, temporary,
              rows);
      for (int64_t i = rows; i < roundUp(rows, block); ++i)
        temporary[i] = 0.0f;
      for (int64_t i0 = 0; i0 < rows; i0 += block)
        __builtin_memcpy(to + i0 * depth + p * block, temporary + i0,
                         block * sizeof(float));
    }
    return;
  }
  for (int64_t i0 = 0; i0 < rows; i0 += block) {
    int64_t count = least(block, rows - i0);
    float *panelTo = to + i0 * depth;
    if (count < block)
      for (int64_t i = 0; i < depth * block; ++i)
        panelTo[i] = 0.0f;
    const void *x = at(type, from, i0 * row);
    if (type == abi::DType::F32) {
      transpose(static_cast<const float *>(x), row, count, depth, panelTo,
                block);
    } else {
      unpackRows(type, x, row, count, depth, temporary, depth);
      transpose(temporary, depth, count, depth, panelTo, block);
    }
  }
}

static void gemm(const GemmBlock &g) {
  const int64_t width = roundUp(g.n, panel);
  float *sums = g.scratch; // m x width
  float *aPanels = sums + g.m * width;
  float *bPanels = aPanels + roundUp(g.m, mostRows) * sliceDepth;
  float *temporary = bPanels + width * sliceDepth; // panel x sliceDepth

  for (int64_t k0 = 0; k0 < g.k; k0 += sliceDepth) {
    int64_t depth = least(sliceDepth, g.k - k0);
    packPanels<mostRows>(g.aType, at(g.aType, g.a, k0 * g.aColumn), g.aRow,
                         g.aColumn, g.m, depth, aPanels, temporary);
    packPanels<panel>(g.bType, at(g.bType, g.b, k0 * g.bRow), g.bColumn, g.bRow,
                      g.n, depth, bPanels, temporary);
    for (int64_t j = 0; j < g.n; j += panel)
      for (int64_t i = 0; i < g.m; i += mostRows)
        tileRows<mostRows>(least(mostRows, g.m - i), panel, depth,
                           aPanels + i * depth, 1, mostRows,
                           bPanels + j * depth, panel, sums + i * width + j,
                           width, k0 > 0);
  }
  if (g.k == 0)
    for (int64_t i = 0; i < g.m * width; ++i)
      sums[i] = 0.0f;

  if (g.bias) {
    float *bias = bPanels; // Free by now.
    convert(g.biasType, g.bias, abi::DType::F32, bias, g.n);
    for (int64_t i = 0; i < g.m; ++i) {
      CIUIC_SIMD
      for (int64_t j = 0; j < g.n; ++j)
        sums[i * width + j] += bias[j];
    }
  }
  withType(g.cType, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    for (int64_t i = 0; i < g.m; ++i) {
      T *CIUIC_RESTRICT c = static_cast<T *>(g.c) + i * g.cRow;
      const float *CIUIC_RESTRICT sum = sums + i * width;
      if (g.accumulate) {
        CIUIC_SIMD
        for (int64_t j = 0; j < g.n; ++j)
          c[j] = fromFloat<T>(toFloat(c[j]) + sum[j]);
      } else {
        CIUIC_SIMD
        for (int64_t j = 0; j < g.n; ++j)
          c[j] = fromFloat<T>(sum[j]);
      }
    }
  });
}
