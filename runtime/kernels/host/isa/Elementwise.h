//===- Elementwise.h - Copies, sums and updates, element by element -------===//
//
// Included inside the namespace of one instruction set.
//
//===----------------------------------------------------------------------===//

/// Calls fn with a null pointer of the storage type that `type` names.
template <typename Fn> CIUIC_INLINE void withType(abi::DType type, Fn fn) {
  switch (type) {
  case abi::DType::F16:
    return fn(static_cast<f16 *>(nullptr));
  case abi::DType::BF16:
    return fn(static_cast<bf16 *>(nullptr));
  default:
    return fn(static_cast<float *>(nullptr));
  }
}

template <typename T> struct Pointee;
template <typename T> struct Pointee<T *> {
  using type = T;
};
/// The storage type behind a parameter of withType's callable.
#define CIUIC_TYPE(tag) typename Pointee<decltype(tag)>::type

static void convert(abi::DType from, const void *in, abi::DType to, void *out,
                    int64_t n) {
  withType(from, [&](auto *fromTag) {
    withType(to, [&](auto *toTag) {
      using From = CIUIC_TYPE(fromTag);
      using To = CIUIC_TYPE(toTag);
      auto *CIUIC_RESTRICT x = static_cast<const From *>(in);
      auto *CIUIC_RESTRICT y = static_cast<To *>(out);
      CIUIC_SIMD
      for (int64_t i = 0; i < n; ++i)
        y[i] = fromFloat<To>(toFloat(x[i]));
    });
  });
}

static void accumulate(abi::DType type, const void *in, float *out, int64_t n,
                       bool add) {
  withType(type, [&](auto *tag) {
    auto *CIUIC_RESTRICT x = static_cast<const CIUIC_TYPE(tag) *>(in);
    float *CIUIC_RESTRICT y = out;
    if (add) {
      CIUIC_SIMD
      for (int64_t i = 0; i < n; ++i)
        y[i] += toFloat(x[i]);
    } else {
      CIUIC_SIMD
      for (int64_t i = 0; i < n; ++i)
        y[i] = toFloat(x[i]);
    }
  });
}

static void addTo(abi::DType type, const void *in, void *out, int64_t n) {
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    auto *CIUIC_RESTRICT x = static_cast<const T *>(in);
    auto *CIUIC_RESTRICT y = static_cast<T *>(out);
    CIUIC_SIMD
    for (int64_t i = 0; i < n; ++i)
      y[i] = fromFloat<T>(toFloat(y[i]) + toFloat(x[i]));
  });
}

static double squareSum(abi::DType type, const void *in, int64_t n) {
  constexpr int width = 16;
  double total = 0;
  withType(type, [&](auto *tag) {
    auto *x = static_cast<const CIUIC_TYPE(tag) *>(in);
    double sums[width] = {};
    int64_t i = 0;
    for (; i + width <= n; i += width) {
      CIUIC_SIMD
      for (int lane = 0; lane < width; ++lane) {
        double value = toFloat(x[i + lane]);
        sums[lane] += value * value;
      }
    }
    for (int lane = 0; i < n; ++i, ++lane) {
      double value = toFloat(x[i]);
      sums[lane] += value * value;
    }
    for (int step = width / 2; step >= 1; step /= 2)
      for (int lane = 0; lane < step; ++lane)
        sums[lane] += sums[lane + step];
    total = sums[0];
  });
  return total;
}

static void reduceRanks(abi::DType type, const void *const *parts,
                        int64_t ranks, void *out, int64_t n, double factor) {
  constexpr int64_t block = 1024;
  float sums[block];
  withType(type, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    auto *y = static_cast<T *>(out);
    const float f = static_cast<float>(factor);
    for (int64_t begin = 0; begin < n; begin += block) {
      int64_t size = n - begin < block ? n - begin : block;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        auto *x = static_cast<const T *>(parts[rank]) + begin;
        if (rank == 0) {
          CIUIC_SIMD
          for (int64_t i = 0; i < size; ++i)
            sums[i] = toFloat(x[i]);
        } else {
          CIUIC_SIMD
          for (int64_t i = 0; i < size; ++i)
            sums[i] += toFloat(x[i]);
        }
      }
      CIUIC_SIMD
      for (int64_t i = 0; i < size; ++i)
        y[begin + i] = fromFloat<T>(sums[i] * f);
    }
  });
}

static void adam(const AdamScalars &s, float *pIn, const float *gradIn,
                 float *mIn, float *vIn, abi::DType halfType, void *half,
                 int64_t n) {
  const AdamScalars c = s;
  float *CIUIC_RESTRICT p = pIn;
  const float *CIUIC_RESTRICT grad = gradIn;
  float *CIUIC_RESTRICT m = mIn;
  float *CIUIC_RESTRICT v = vIn;
  auto update = [&](int64_t i) __attribute__((always_inline)) {
    float weight = p[i];
    float g = c.coef * grad[i] + c.coupledDecay * weight;
    float first = c.beta1 * m[i] + c.oneMinusBeta1 * g;
    float second = c.beta2 * v[i] + c.oneMinusBeta2 * (g * g);
    float root = __builtin_sqrtf(second) * c.inverseRoot2 + c.eps;
    float next = c.decoupledFactor * weight - c.stepSize * (first / root);
    m[i] = first;
    v[i] = second;
    p[i] = next;
    return next;
  };
  if (!half) {
    CIUIC_SIMD
    for (int64_t i = 0; i < n; ++i)
      update(i);
    return;
  }
  withType(halfType, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    T *CIUIC_RESTRICT h = static_cast<T *>(half);
    CIUIC_SIMD
    for (int64_t i = 0; i < n; ++i)
      h[i] = fromFloat<T>(update(i));
  });
}

static void sgd(const SgdScalars &s, float *pIn, const float *gradIn,
                float *mIn, abi::DType halfType, void *half, int64_t n) {
  const SgdScalars c = s;
  float *CIUIC_RESTRICT p = pIn;
  const float *CIUIC_RESTRICT grad = gradIn;
  float *CIUIC_RESTRICT m = mIn;
  withType(halfType, [&](auto *tag) {
    using T = CIUIC_TYPE(tag);
    T *CIUIC_RESTRICT h = static_cast<T *>(half);
    for (int64_t i = 0; i < n; ++i) {
      float g = c.coef * grad[i] + c.decay * p[i];
      float moment = c.momentum * m[i] + g;
      float direction = c.nesterov ? g + c.momentum * moment : moment;
      float next = p[i] - c.lr * direction;
      m[i] = moment;
      p[i] = next;
      if (h)
        h[i] = fromFloat<T>(next);
    }
  });
}
