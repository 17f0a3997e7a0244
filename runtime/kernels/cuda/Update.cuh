//===- Update.cuh - Adam and SGD --------------------------------*- CUDA
//-*-===//
//
// One pass over a bucket's chunk: the gradient times `coef` (which undoes the
// loss scale and clips), decay where it applies, the moments, the master
// weight and its copy in 16 bits. A step that is skipped only makes the copy.
//
// Elements without decay are given as ranges, which kernels take as
// parameters; of more ranges than fit, each launch updates the elements up to
// where its ranges end.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_KERNELS_CUDA_UPDATE_CUH
#define CIUIC_RUNTIME_KERNELS_CUDA_UPDATE_CUH

#include "runtime/kernels/cuda/Arguments.cuh"

namespace ciuic::cuda {

inline constexpr int updateThreads = 256;
inline constexpr int updateWidth = 4;
inline constexpr int64_t updateTile = updateThreads * updateWidth;
/// Blocks that a multiprocessor holds at once; 64 bytes a thread are under way.
inline constexpr int64_t updateBlocks = 4;
inline constexpr int mostRanges = 96;

/// Half-open ranges of elements without decay, in rising order.
struct UndecayedRanges {
  int64_t begin[mostRanges], end[mostRanges];
  int32_t count;
};

/// What an update works on: p and `states` are read and written.
template <typename Half, int states> struct UpdatePointers {
  float *p;
  const float *grad;
  float *state[states];
  Half *half; ///< Null: none.
};

/// base^n, by squaring: all threads of a block wait for it, and pow takes ten
/// times as long. Its relative error, n times that of a product, is far below
/// what f32 keeps of 1 - base^n.
__device__ inline double powerOf(double base, int64_t n) {
  double result = 1;
  for (; n > 0; n /= 2, base *= base)
    if (n % 2 != 0)
      result *= base;
  return result;
}

/// Adam, or AdamW if `decoupled`.
struct AdamRule {
  static constexpr int states = 2;
  double beta1, beta2, eps, decay;
  bool decoupled, corrected;
  const float *lr, *coef;
  const int32_t *step;

  struct Scalars {
    float beta1, beta2, oneMinusBeta1, oneMinusBeta2, eps, coef;
    float coupledDecay, decoupledFactor, stepSize, inverseRoot2;
  };

  /// Once a block, in double.
  __device__ Scalars scalars() const {
    double rate = *lr;
    int64_t t = int64_t(*step) + 1;
    double correction1 = corrected ? 1 - powerOf(beta1, t) : 1;
    double correction2 = corrected ? 1 - powerOf(beta2, t) : 1;
    Scalars s;
    s.beta1 = static_cast<float>(beta1);
    s.beta2 = static_cast<float>(beta2);
    s.oneMinusBeta1 = static_cast<float>(1 - beta1);
    s.oneMinusBeta2 = static_cast<float>(1 - beta2);
    s.eps = static_cast<float>(eps);
    s.coef = *coef;
    s.coupledDecay = decoupled ? 0.0f : static_cast<float>(decay);
    s.decoupledFactor = decoupled ? static_cast<float>(1 - rate * decay) : 1.0f;
    s.stepSize = static_cast<float>(rate / correction1);
    s.inverseRoot2 = static_cast<float>(1 / sqrt(correction2));
    return s;
  }

  static __device__ float update(const Scalars &s, bool decays, float p,
                                 float grad, float &m, float &v) {
    float g = s.coef * grad + (decays ? s.coupledDecay : 0.0f) * p;
    m = s.beta1 * m + s.oneMinusBeta1 * g;
    v = s.beta2 * v + s.oneMinusBeta2 * (g * g);
    float root = sqrtf(v) * s.inverseRoot2 + s.eps;
    return (decays ? s.decoupledFactor : 1.0f) * p - s.stepSize * (m / root);
  }
};

/// SGD with momentum.
struct SgdRule {
  static constexpr int states = 1;
  float momentum, decay;
  bool nesterov;
  const float *lr, *coef;

  struct Scalars {
    float lr, coef, momentum, decay;
    int32_t nesterov; ///< Not bool: shared memory is copied without padding.
  };

  __device__ Scalars scalars() const {
    return {*lr, *coef, momentum, decay, nesterov ? 1 : 0};
  }

  static __device__ float update(const Scalars &s, bool decays, float p,
                                 float grad, float &m) {
    float g = s.coef * grad + (decays ? s.decay : 0.0f) * p;
    m = s.momentum * m + g;
    float direction = s.nesterov ? g + s.momentum * m : m;
    return p - s.lr * direction;
  }
};

/// Updates the N elements at `at`; decays(i) tells of element at + i.
template <int N, typename Rule, typename Half, typename Decays>
__device__ inline void
updateElements(const typename Rule::Scalars &scalars,
               const UpdatePointers<Half, Rule::states> &with, int64_t at,
               bool skipped, Decays decays) {
  Vector<float, N> p = loadVector<N>(with.p + at);
  if (!skipped) {
    Vector<float, N> grad = loadVector<N>(with.grad + at);
    Vector<float, N> state[Rule::states];
#pragma unroll
    for (int k = 0; k < Rule::states; ++k)
      state[k] = loadVector<N>(with.state[k] + at);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (Rule::states == 2)
        p[i] = Rule::update(scalars, decays(i), p[i], grad[i], state[0][i],
                            state[1][i]);
      else
        p[i] = Rule::update(scalars, decays(i), p[i], grad[i], state[0][i]);
    }
#pragma unroll
    for (int k = 0; k < Rule::states; ++k)
      storeVector(with.state[k] + at, state[k]);
    storeVector(with.p + at, p);
  }
  if (with.half)
    storeVector(with.half + at, rounded<Half>(p.values));
}

/// Grid: tiles of 1024 elements in turn, of [begin, end).
template <typename Rule, typename Half, int Width>
__global__ void __launch_bounds__(updateThreads, updateBlocks)
    updateKernel(Rule rule, UpdatePointers<Half, Rule::states> with,
                 UndecayedRanges ranges, int64_t begin, int64_t end,
                 const float *skip, const float *taskSkip) {
  if (isSkipped(taskSkip))
    return;
  __shared__ typename Rule::Scalars shared;
  bool skipped = *skip != 0.0f;
  if (skipped && !with.half)
    return;
  if (threadIdx.x == 0)
    shared = rule.scalars();
  __syncthreads();
  const typename Rule::Scalars scalars = shared;

  int next = 0; // The first range that does not end before this tile.
  for (int64_t tile = begin + blockIdx.x * updateTile; tile < end;
       tile += gridDim.x * updateTile) {
    int64_t tileEnd = tile + updateTile < end ? tile + updateTile : end;
    while (next < ranges.count && ranges.end[next] <= tile)
      ++next;
    bool allDecay = next == ranges.count || ranges.begin[next] >= tileEnd;
    bool noneDecays =
        !allDecay && ranges.begin[next] <= tile && ranges.end[next] >= tileEnd;
    auto decaysAt = [&](int64_t at) {
      if (allDecay || noneDecays)
        return allDecay;
      int range = next;
      while (range < ranges.count && ranges.end[range] <= at)
        ++range;
      return range == ranges.count || ranges.begin[range] > at;
    };
#pragma unroll
    for (int k = 0; k < updateWidth / Width; ++k) {
      int64_t at = tile + (int64_t(k) * updateThreads + threadIdx.x) * Width;
      if (at + Width <= tileEnd) {
        updateElements<Width, Rule>(scalars, with, at, skipped,
                                    [&](int i) { return decaysAt(at + i); });
      } else {
        for (; at < tileEnd; ++at)
          updateElements<1, Rule>(scalars, with, at, skipped,
                                  [&](int) { return decaysAt(at); });
      }
    }
  }
}

/// Launches `rule` over `elements`; `pairs` are bounds of the ranges without
/// decay, counted from the bucket's start, and `first` is this rank's first
/// element.
template <typename Rule, typename Half>
cudaError_t launchUpdate(const abi::CudaLaunch &launch, const Rule &rule,
                         const UpdatePointers<Half, Rule::states> &with,
                         int64_t elements, int64_t first, const int64_t *pairs,
                         uint32_t bounds, const float *skip) {
  if (bounds % 2 != 0)
    return cudaErrorInvalidValue;
  for (uint32_t i = 0; i < bounds; ++i)
    if (pairs[i] < (i > 0 ? pairs[i - 1] : 0))
      return cudaErrorInvalidValue;
  bool aligned = isAligned<float, updateWidth>(with.p) &&
                 isAligned<float, updateWidth>(with.grad) &&
                 (!with.half || isAligned<Half, updateWidth>(with.half));
  for (float *state : with.state)
    aligned = aligned && isAligned<float, updateWidth>(state);
  auto kernel = aligned ? updateKernel<Rule, Half, updateWidth>
                        : updateKernel<Rule, Half, 1>;
  uint32_t pair = 0;
  for (int64_t begin = 0; begin < elements;) {
    // The ranges that reach into [begin, end), as many as a kernel takes.
    UndecayedRanges ranges;
    ranges.count = 0;
    int64_t end = elements;
    while (pair < bounds && pairs[pair + 1] - first <= begin)
      pair += 2;
    for (uint32_t i = pair; i < bounds; i += 2) {
      int64_t from = pairs[i] - first, to = pairs[i + 1] - first;
      if (from >= elements)
        break;
      if (from == to)
        continue;
      if (ranges.count == mostRanges) {
        end = from / updateWidth * updateWidth; // The next piece is aligned.
        break;
      }
      ranges.begin[ranges.count] = from;
      ranges.end[ranges.count++] = to;
    }
    int64_t tiles = (end - begin + updateTile - 1) / updateTile;
    int64_t most =
        updateBlocks * (launch.processors > 0 ? launch.processors : 1);
    cudaError_t error = cuda::launch(
        kernel, dim3(static_cast<unsigned>(tiles < most ? tiles : most)),
        dim3(updateThreads), 0, streamOf(launch), rule, with, ranges, begin,
        end, skip, launch.skip);
    if (error != cudaSuccess)
      return error;
    begin = end;
  }
  return cudaSuccess;
}

/// The type of the copy in 16 bits where a task may have none.
template <typename Half> struct HalfOf {
  using Type = Half;
};
template <> struct HalfOf<void> {
  using Type = bf16;
};

/// This rank's first element of the bucket.
inline int64_t firstElement(const abi::CudaLaunch &launch, int64_t stride) {
  return static_cast<int64_t>(launch.rank) * stride;
}

/// p, grad, m, v (p, m, v updated in place), lr, coef, step, skip, [half];
/// ints: decoupled, biasCorrection, stride, pairs; reals: beta1, beta2, eps,
/// decay. Half: f16, bf16, or void if there is no view `half`.
template <typename Half> cudaError_t launchAdam(const abi::CudaLaunch &launch) {
  constexpr bool hasHalf = !std::is_void_v<Half>;
  UpdatePointers<typename HalfOf<Half>::Type, AdamRule::states> with{};
  Matrix<float> p;
  float *grad = nullptr, *lr = nullptr, *coef = nullptr, *skip = nullptr;
  int32_t *step = nullptr;
  if (!hasCounts(launch, hasHalf ? 9 : 8, 3, 4) || !take(launch, 0, p) ||
      !p.isDense() || !takeList(launch, 1, grad, p.elements()) ||
      !takeList(launch, 2, with.state[0], p.elements()) ||
      !takeList(launch, 3, with.state[1], p.elements()) ||
      !takeScalar(launch, 4, lr) || !takeScalar(launch, 5, coef) ||
      !takeScalar(launch, 6, step) || !takeScalar(launch, 7, skip))
    return cudaErrorInvalidValue;
  if constexpr (hasHalf)
    if (!takeList(launch, 8, with.half, p.elements()))
      return cudaErrorInvalidValue;
  with.p = p.data;
  with.grad = grad;
  AdamRule rule{launch.reals[0],
                launch.reals[1],
                launch.reals[2],
                launch.reals[3],
                launch.ints[0] != 0,
                launch.ints[1] != 0,
                lr,
                coef,
                step};
  return launchUpdate(launch, rule, with, p.elements(),
                      firstElement(launch, launch.ints[2]), launch.ints + 3,
                      launch.intCount - 3, skip);
}

/// p, grad, m (p and m in place), lr, coef, skip, [half]; ints: nesterov,
/// stride, pairs; reals: momentum, decay. Half as for Adam.
template <typename Half> cudaError_t launchSgd(const abi::CudaLaunch &launch) {
  constexpr bool hasHalf = !std::is_void_v<Half>;
  UpdatePointers<typename HalfOf<Half>::Type, SgdRule::states> with{};
  Matrix<float> p;
  float *grad = nullptr, *lr = nullptr, *coef = nullptr, *skip = nullptr;
  if (!hasCounts(launch, hasHalf ? 7 : 6, 2, 2) || !take(launch, 0, p) ||
      !p.isDense() || !takeList(launch, 1, grad, p.elements()) ||
      !takeList(launch, 2, with.state[0], p.elements()) ||
      !takeScalar(launch, 3, lr) || !takeScalar(launch, 4, coef) ||
      !takeScalar(launch, 5, skip))
    return cudaErrorInvalidValue;
  if constexpr (hasHalf)
    if (!takeList(launch, 6, with.half, p.elements()))
      return cudaErrorInvalidValue;
  with.p = p.data;
  with.grad = grad;
  SgdRule rule{static_cast<float>(launch.reals[0]),
               static_cast<float>(launch.reals[1]), launch.ints[0] != 0, lr,
               coef};
  return launchUpdate(launch, rule, with, p.elements(),
                      firstElement(launch, launch.ints[1]), launch.ints + 2,
                      launch.intCount - 2, skip);
}

} // namespace ciuic::cuda

#endif // CIUIC_RUNTIME_KERNELS_CUDA_UPDATE_CUH
