//===- Transpose.h - Small f32 transpositions in registers ------*- C++ -*-===//
//
// Included inside the namespace of one instruction set.
//
//===----------------------------------------------------------------------===//

typedef float Vector8 __attribute__((vector_size(32), aligned(4), may_alias));

/// to[j * toRow + i] = from[i * fromRow + j] for i, j < 8.
static void transpose8(const float *from, int64_t fromRow, float *to,
                       int64_t toRow) {
  Vector8 a[8], b[8];
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i)
    a[i] = *reinterpret_cast<const Vector8 *>(from + i * fromRow);
  // Pairs of rows, then fours, then the halves.
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] =
        __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += 4)
#pragma clang loop unroll(full)
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9,
                                             4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3,
                                                 10, 11, 6, 7, 14, 15);
    }
#pragma clang loop unroll(full)
  for (int j = 0; j < 4; ++j) {
    *reinterpret_cast<Vector8 *>(to + j * toRow) =
        __builtin_shufflevector(a[j], a[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<Vector8 *>(to + (j + 4) * toRow) =
        __builtin_shufflevector(a[j], a[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

typedef float Vector4 __attribute__((vector_size(16), aligned(4), may_alias));

/// The same for i, j < 4.
static void transpose4(const float *from, int64_t fromRow, float *to,
                       int64_t toRow) {
  Vector4 a[4], b[4];
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i)
    a[i] = *reinterpret_cast<const Vector4 *>(from + i * fromRow);
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 4, 1, 5);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 6, 3, 7);
  }
#pragma clang loop unroll(full)
  for (int j = 0; j < 2; ++j) {
    *reinterpret_cast<Vector4 *>(to + 2 * j * toRow) =
        __builtin_shufflevector(b[j], b[j + 2], 0, 1, 4, 5);
    *reinterpret_cast<Vector4 *>(to + (2 * j + 1) * toRow) =
        __builtin_shufflevector(b[j], b[j + 2], 2, 3, 6, 7);
  }
}

/// to[j * toRow + i] = from[i * fromRow + j] for i < rows, j < columns.
static void transpose(const float *from, int64_t fromRow, int64_t rows,
                      int64_t columns, float *to, int64_t toRow) {
  int64_t eights = rows / 8 * 8, fours = rows / 4 * 4;
  int64_t wide = columns / 8 * 8, narrow = columns / 4 * 4;
  for (int64_t i = 0; i < eights; i += 8)
    for (int64_t j = 0; j < wide; j += 8)
      transpose8(from + i * fromRow + j, fromRow, to + j * toRow + i, toRow);
  for (int64_t i = 0; i < fours; i += 4)
    for (int64_t j = i < eights ? wide : 0; j < narrow; j += 4)
      transpose4(from + i * fromRow + j, fromRow, to + j * toRow + i, toRow);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < fours ? narrow : 0; j < columns; ++j)
      to[j * toRow + i] = from[i * fromRow + j];
}

/// Rows of f32 whose width is padded with zeros to `width`.
static void unpackRows(abi::DType type, const void *from, int64_t fromRow,
                       int64_t rows, int64_t columns, float *to,
                       int64_t width) {
  withType(type, [&](auto *tag) {
    auto *x = static_cast<const CIUIC_TYPE(tag) *>(from);
    for (int64_t i = 0; i < rows; ++i) {
      float *CIUIC_RESTRICT y = to + i * width;
      CIUIC_SIMD
      for (int64_t j = 0; j < columns; ++j)
        y[j] = toFloat(x[i * fromRow + j]);
      for (int64_t j = columns; j < width; ++j)
        y[j] = 0.0f;
    }
  });
}

/// The reverse: factor * from, rounded.
static void packRows(const float *from, int64_t width, float factor,
                     abi::DType type, void *to, int64_t toRow, int64_t rows,
                     int64_t columns) {
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    for (int64_t i = 0; i < rows; ++i) {
      const float *CIUIC_RESTRICT x = from + i * width;
      T *CIUIC_RESTRICT y = static_cast<T *>(to) + i * toRow;
      CIUIC_SIMD
      for (int64_t j = 0; j < columns; ++j)
        y[j] = fromFloat<T>(factor * x[j]);
    }
  });
}

/// Element `index` of an array of `type`.
CIUIC_INLINE const void *at(abi::DType type, const void *data, int64_t index) {
  return static_cast<const char *>(data) +
         index * (type == abi::DType::F32 ? 4 : 2);
}
CIUIC_INLINE void *at(abi::DType type, void *data, int64_t index) {
  return static_cast<char *>(data) + index * (type == abi::DType::F32 ? 4 : 2);
}
