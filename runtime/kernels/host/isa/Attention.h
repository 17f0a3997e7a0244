//===- Attention.h - Blockwise causal attention -----------------*- C++ -*-===//
//
// Included inside the namespace of one instruction set.
//
// Scores are kept transposed, a row a key and a column a query, for one block
// of keys and one of queries: so maxima, exponentials and sums run along
// vectors of queries, and every product is row-major times row-major. The
// softmax is online: each query keeps its running maximum and sum.
//
//===----------------------------------------------------------------------===//

inline constexpr int64_t queryBlock = attentionQueryRows;
inline constexpr int64_t keyBlock = attentionMostKeys;

CIUIC_INLINE int64_t roundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}
CIUIC_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// scores[u][t] for keys u0 + u > query t0 + t become `value`.
static void maskFuture(float *scores, int64_t keys, int64_t u0, int64_t queries,
                       int64_t t0, float value) {
  for (int64_t u = 0; u < keys; ++u) {
    int64_t end = least(queries, u0 + u - t0);
    for (int64_t t = 0; t < end; ++t)
      scores[u * queryBlock + t] = value;
  }
}

static void attentionForward(const AttentionShape &shape, abi::DType type,
                             int64_t begin, int64_t end, HeadView q, HeadView k,
                             HeadView v, HeadView out, float *lse,
                             int64_t lseStride, float *scratch) {
  const int64_t dim = shape.dim, width = roundUp(dim, 16);
  const int64_t queries = end - begin;
  const float infinity = floatOf(0x7f800000u);
  float *rows = scratch;                    // queryBlock x width
  float *qt = rows + queryBlock * width;    // width x queryBlock
  float *keyRows = qt + queryBlock * width; // keyBlock x width
  float *valueRows = keyRows + keyBlock * width;
  float *scores = valueRows + keyBlock * width; // keyBlock x queryBlock
  float *sums = scores + keyBlock * queryBlock; // queryBlock x width
  float top[queryBlock], total[queryBlock], shrink[queryBlock];

  unpackRows(type, at(type, q.data, begin * q.stride), q.stride, queries, dim,
             rows, width);
  for (int64_t i = 0; i < queryBlock * width; ++i)
    qt[i] = 0.0f;
  transpose(rows, width, queries, dim, qt, queryBlock);
  for (int64_t i = 0; i < dim * queryBlock; ++i)
    qt[i] *= shape.scale;
  for (int64_t i = 0; i < queryBlock * width; ++i)
    sums[i] = 0.0f;
  for (int64_t t = 0; t < queryBlock; ++t) {
    top[t] = -infinity;
    total[t] = 0.0f;
  }

  for (int64_t u0 = 0; u0 < end; u0 += keyBlock) {
    int64_t keys = least(keyBlock, end - u0);
    unpackRows(type, at(type, k.data, u0 * k.stride), k.stride, keys, dim,
               keyRows, width);
    unpackRows(type, at(type, v.data, u0 * v.stride), v.stride, keys, dim,
               valueRows, width);
    multiply(keys, queryBlock, dim, keyRows, width, 1, qt, queryBlock, scores,
             queryBlock, false);
    maskFuture(scores, keys, u0, queries, begin, -infinity);
    float next[queryBlock], part[queryBlock];
    for (int64_t t = 0; t < queryBlock; ++t) {
      next[t] = top[t];
      part[t] = 0.0f;
    }
    for (int64_t u = 0; u < keys; ++u) {
      CIUIC_SIMD
      for (int64_t t = 0; t < queryBlock; ++t) {
        float score = scores[u * queryBlock + t];
        next[t] = score > next[t] ? score : next[t];
      }
    }
    for (int64_t u = 0; u < keys; ++u) {
      CIUIC_SIMD
      for (int64_t t = 0; t < queryBlock; ++t) {
        float p = kernel::expf(scores[u * queryBlock + t] - next[t]);
        scores[u * queryBlock + t] = p;
        part[t] += p;
      }
    }
    CIUIC_SIMD
    for (int64_t t = 0; t < queryBlock; ++t) {
      shrink[t] = kernel::expf(top[t] - next[t]);
      total[t] = total[t] * shrink[t] + part[t];
      top[t] = next[t];
    }
    if (u0 > 0)
      for (int64_t t = 0; t < queries; ++t) {
        CIUIC_SIMD
        for (int64_t j = 0; j < width; ++j)
          sums[t * width + j] *= shrink[t];
      }
    multiply(queries, width, keys, scores, 1, queryBlock, valueRows, width,
             sums, width, true);
  }
  for (int64_t t = 0; t < queries; ++t) {
    packRows(sums + t * width, width, 1.0f / total[t], type,
             at(type, out.data, (begin + t) * out.stride), out.stride, 1, dim);
    lse[(begin + t) * lseStride] = top[t] + kernel::logf(total[t]);
  }
}

static void attentionBackward(const AttentionShape &shape, abi::DType type,
                              HeadView dy, HeadView q, HeadView k, HeadView v,
                              HeadView y, const float *lse, int64_t lseStride,
                              HeadView dq, HeadView dk, HeadView dv,
                              float *scratch) {
  const int64_t seq = shape.seq, dim = shape.dim, width = roundUp(dim, 16);
  const int64_t padded = roundUp(seq, queryBlock);
  const int64_t size = padded * width;
  float *keyRows = scratch, *valueRows = keyRows + size;
  float *dkRows = valueRows + size, *dvRows = dkRows + size;
  float *queryRows = dvRows + size, *dyRows = queryRows + size;
  float *dqRows = dyRows + size;
  // Blocks of queryBlock rows, each transposed: width x queryBlock.
  float *qt = dqRows + size, *dyt = qt + size;
  float *scores = dyt + size; // keyBlock x queryBlock
  float *dscores = scores + keyBlock * queryBlock;
  float *dots = dscores + keyBlock * queryBlock; // padded
  float *logs = dots + padded;                   // padded

  unpackRows(type, k.data, k.stride, seq, dim, keyRows, width);
  unpackRows(type, v.data, v.stride, seq, dim, valueRows, width);
  for (int64_t i = 0; i < size; ++i)
    dkRows[i] = dvRows[i] = 0.0f;

  for (int64_t head = 0; head < shape.queryHeads; ++head) {
    auto of = [&](HeadView view) __attribute__((always_inline)) {
      return at(type, view.data, head * dim);
    };
    // y is only needed for dots; its rows pass through dqRows.
    unpackRows(type, of(q), q.stride, seq, dim, queryRows, width);
    unpackRows(type, of(dy), dy.stride, seq, dim, dyRows, width);
    unpackRows(type, of(y), y.stride, seq, dim, dqRows, width);
    for (int64_t t = 0; t < padded; ++t) {
      float sum = 0.0f;
      if (t < seq) {
        float parts[16] = {};
        for (int64_t j = 0; j < width; j += 16) {
          CIUIC_SIMD
          for (int64_t lane = 0; lane < 16; ++lane)
            parts[lane] +=
                dyRows[t * width + j + lane] * dqRows[t * width + j + lane];
        }
        for (int step = 8; step >= 1; step /= 2)
          for (int lane = 0; lane < step; ++lane)
            parts[lane] += parts[lane + step];
        sum = parts[0];
      }
      dots[t] = sum;
      logs[t] = t < seq ? lse[t * lseStride + head] : 0.0f;
    }
    for (int64_t t0 = 0; t0 < seq; t0 += queryBlock) {
      int64_t queries = least(queryBlock, seq - t0);
      if (queries < queryBlock)
        for (int64_t i = 0; i < width * queryBlock; ++i)
          qt[t0 * width + i] = dyt[t0 * width + i] = 0.0f;
      transpose(queryRows + t0 * width, width, queries, dim, qt + t0 * width,
                queryBlock);
      transpose(dyRows + t0 * width, width, queries, dim, dyt + t0 * width,
                queryBlock);
    }
    for (int64_t i = 0; i < size; ++i)
      dqRows[i] = 0.0f;

    for (int64_t u0 = 0; u0 < seq; u0 += keyBlock) {
      int64_t keys = least(keyBlock, seq - u0);
      for (int64_t t0 = u0 / queryBlock * queryBlock; t0 < seq;
           t0 += queryBlock) {
        int64_t queries = least(queryBlock, seq - t0);
        // Keys after the block's last query take no part.
        int64_t seen = least(keys, t0 + queries - u0);
        multiply(seen, queryBlock, dim, keyRows + u0 * width, width, 1,
                 qt + t0 * width, queryBlock, scores, queryBlock, false);
        multiply(seen, queryBlock, dim, valueRows + u0 * width, width, 1,
                 dyt + t0 * width, queryBlock, dscores, queryBlock, false);
        for (int64_t u = 0; u < seen; ++u) {
          float *CIUIC_RESTRICT s = scores + u * queryBlock;
          float *CIUIC_RESTRICT d = dscores + u * queryBlock;
          CIUIC_SIMD
          for (int64_t t = 0; t < queryBlock; ++t) {
            float p = kernel::expf(s[t] * shape.scale - logs[t0 + t]);
            s[t] = p;
            d[t] = p * (d[t] - dots[t0 + t]);
          }
        }
        maskFuture(scores, seen, u0, queries, t0, 0.0f);
        maskFuture(dscores, seen, u0, queries, t0, 0.0f);
        multiply(seen, width, queries, scores, queryBlock, 1,
                 dyRows + t0 * width, width, dvRows + u0 * width, width, true);
        multiply(seen, width, queries, dscores, queryBlock, 1,
                 queryRows + t0 * width, width, dkRows + u0 * width, width,
                 true);
        multiply(queries, width, seen, dscores, 1, queryBlock,
                 keyRows + u0 * width, width, dqRows + t0 * width, width, true);
      }
    }
    packRows(dqRows, width, shape.scale, type, of(dq), dq.stride, seq, dim);
  }
  packRows(dkRows, width, shape.scale, type, dk.data, dk.stride, seq, dim);
  packRows(dvRows, width, 1.0f, type, dv.data, dv.stride, seq, dim);
}
