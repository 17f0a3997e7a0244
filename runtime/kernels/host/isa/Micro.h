//===- Micro.h - Register-blocked f32 products ------------------*- C++ -*-===//
//
// Included by the sources that are built once an instruction set, inside their
// namespace. A tile of MR x (NV * lanes) sums stays in registers while k runs;
// each sum adds its products in rising k.
//
//===----------------------------------------------------------------------===//

#ifdef __AVX512F__
inline constexpr int lanes = 16;
inline constexpr int mostRows = 12; // 24 sums, 2 of B and 1 of A: 27 of 32.
#else
inline constexpr int lanes = 8;
inline constexpr int mostRows = 6; // 12 sums, 2 of B and 1 of A: 15 of 16.
#endif
inline constexpr int panel = 2 * lanes;

typedef float Vector
    __attribute__((vector_size(lanes * 4), aligned(4), may_alias));

CIUIC_INLINE Vector load(const float *from) {
  return *reinterpret_cast<const Vector *>(from);
}
CIUIC_INLINE void store(float *to, Vector value) {
  *reinterpret_cast<Vector *>(to) = value;
}

/// C[MR x NV*lanes] = or += A B, where A(i, k) is a[i * aRow + k * aColumn]
/// and row k of B starts at b + k * bRow.
template <int MR, int NV>
static void tile(int64_t k, const float *a, int64_t aRow, int64_t aColumn,
                 const float *b, int64_t bRow, float *c, int64_t cRow,
                 bool add) {
  Vector sum[MR][NV];
#pragma clang loop unroll(full)
  for (int i = 0; i < MR; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < NV; ++j)
      sum[i][j] = add ? load(c + i * cRow + j * lanes) : Vector{};
  for (int64_t p = 0; p < k; ++p) {
    Vector row[NV];
#pragma clang loop unroll(full)
    for (int j = 0; j < NV; ++j)
      row[j] = load(b + p * bRow + j * lanes);
#pragma clang loop unroll(full)
    for (int i = 0; i < MR; ++i) {
      float value = a[i * aRow + p * aColumn];
#pragma clang loop unroll(full)
      for (int j = 0; j < NV; ++j)
        sum[i][j] += value * row[j];
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < MR; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < NV; ++j)
      store(c + i * cRow + j * lanes, sum[i][j]);
}

template <int MR>
static void tileRows(int64_t m, int64_t n, int64_t k, const float *a,
                     int64_t aRow, int64_t aColumn, const float *b,
                     int64_t bRow, float *c, int64_t cRow, bool add) {
  if (m == MR) {
    int64_t j = 0;
    for (; j + panel <= n; j += panel)
      tile<MR, 2>(k, a, aRow, aColumn, b + j, bRow, c + j, cRow, add);
    if (j < n)
      tile<MR, 1>(k, a, aRow, aColumn, b + j, bRow, c + j, cRow, add);
    return;
  }
  if constexpr (MR > 1)
    tileRows<MR - 1>(m, n, k, a, aRow, aColumn, b, bRow, c, cRow, add);
}

/// C[m x n] = or += A B for any m and k and a multiple n of `lanes`.
static void multiply(int64_t m, int64_t n, int64_t k, const float *a,
                     int64_t aRow, int64_t aColumn, const float *b,
                     int64_t bRow, float *c, int64_t cRow, bool add) {
  for (int64_t i = 0; i < m; i += mostRows) {
    int64_t rows = m - i < mostRows ? m - i : mostRows;
    tileRows<mostRows>(rows, n, k, a + i * aRow, aRow, aColumn, b, bRow,
                       c + i * cRow, cRow, add);
  }
}
