//===- UpdateOperations.cpp - The optimizer step --------------------------===//
#include "runtime/abi/Sizes.h"
#include "runtime/kernels/host/HostKernels.h"
#include "runtime/kernels/host/Operations.h"
#include "runtime/kernels/host/Parallel.h"
#include "runtime/kernels/scalar/GradScale.h"
#include "runtime/kernels/scalar/LearningRate.h"
#include "runtime/kernels/scalar/LossScale.h"

#include <cmath>

namespace ciuic::rt {
namespace {

/// Elements of one chunk of an update.
constexpr int64_t updateGrain = int64_t(1) << 15;

Status expectScalar(const char *what, const Tensor &tensor, abi::DType dtype) {
  return expectTensor(what, tensor, dtype, 1, 1);
}

/// Pairs [begin, end) of elements without decay, counted from this rank's
/// first element; clipped to the elements it has.
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Result<Ranges> undecayedRanges(std::span<const int64_t> pairs, int64_t first,
                               int64_t elements) {
  if (pairs.size() % 2 != 0)
    return Status::invalid("an element range without decay has no end");
  Ranges ranges;
  int64_t last = 0;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    int64_t begin = pairs[i], end = pairs[i + 1];
    if (begin < last || end < begin)
      return Status::invalid("element ranges without decay are not in order");
    last = end;
    begin = std::max(begin, first);
    end = std::min(end, first + elements);
    if (begin < end)
      ranges.emplace_back(begin - first, end - first);
  }
  return ranges;
}

/// Calls fn(begin, end, decays) for the pieces of [begin, end) on either side
/// of the ranges' bounds.
template <typename Fn>
void forPieces(const Ranges &ranges, int64_t begin, int64_t end, const Fn &fn) {
  auto next = std::upper_bound(
      ranges.begin(), ranges.end(), begin,
      [](int64_t at, const auto &range) { return at < range.second; });
  while (begin < end) {
    if (next == ranges.end() || next->first >= end) {
      fn(begin, end, true);
      return;
    }
    if (begin < next->first)
      fn(begin, next->first, true);
    begin = std::max(begin, next->first);
    int64_t stop = std::min(end, next->second);
    fn(begin, stop, false);
    begin = stop;
    ++next;
  }
}

/// The bucket element that a rank's first one is.
Result<int64_t> firstElement(const TaskArguments &a, int64_t stride) {
  constexpr int64_t most = int64_t(1) << 46;
  if (stride < 0 || stride > most / a.ranks)
    return Status::invalid("ranks lie " + std::to_string(stride) +
                           " elements apart");
  return static_cast<int64_t>(a.rank) * stride;
}

void *element(const Tensor &tensor, int64_t index) {
  return tensor.as<std::byte>() +
         index * static_cast<int64_t>(byteSize(tensor.dtype));
}

/// p, then `more` f32 tensors of its size, then an optional 16-bit one.
Status expectUpdate(std::span<const Tensor> views, size_t more,
                    const Tensor *half) {
  const Tensor &p = views[0];
  for (size_t i = 0; i <= more; ++i)
    if (views[i].dtype != abi::DType::F32 || !views[i].isDense() ||
        views[i].elements() != p.elements())
      return Status::invalid("operand " + std::to_string(i) + " is " +
                             describe(views[i]) + ", expected f32 of " +
                             std::to_string(p.elements()) + " elements");
  if (half && (!half->isDense() || half->elements() != p.elements() ||
               byteSize(half->dtype) != 2))
    return Status::invalid("the copy is " + describe(*half) +
                           ", expected f16 or bf16 of " +
                           std::to_string(p.elements()) + " elements");
  return {};
}

/// What a skipped update does: nothing, but a copy in 16 bits that others wait
/// for is still made.
void copyUnchanged(const Tensor &p, const Tensor *half) {
  if (!half)
    return;
  parallelChunks(p.elements(), updateGrain, [&](int64_t begin, int64_t end) {
    hostKernels().convert(p.dtype, p.as<float>() + begin, half->dtype,
                          element(*half, begin), end - begin);
  });
}

} // namespace

Result<OperationPtr> makeGradScale(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 6, 1, 2));
  Tensor sum = a.views[0], count = a.views[1], scale = a.views[2],
         coef = a.views[3], norm = a.views[4], skip = a.views[5];
  CIUIC_TRY(expectScalar("square sum", sum, abi::DType::F64));
  for (int i = 1; i < 6; ++i)
    CIUIC_TRY(expectScalar("operand", a.views[static_cast<size_t>(i)],
                           abi::DType::F32));
  if (!(a.reals[0] >= 1 && a.reals[0] < 0x1p62) || !(a.reals[1] >= 0))
    return Status::invalid("slots or clip is out of range");
  GradScaleParams params;
  params.totalSlots = static_cast<int64_t>(a.reals[0]);
  params.clip = a.reals[1];
  params.checkOverflow = a.ints[0] != 0;
  return makeLambdaOperation([=]() -> Status {
    float labelled = *count.as<float>();
    // A sum of counts is finite; anything else would be undefined to convert.
    int64_t labels = labelled >= 0 && labelled < 0x1p62f
                         ? static_cast<int64_t>(labelled)
                         : 0;
    GradScale result =
        gradScale(params, *sum.as<double>(), labels, *scale.as<float>());
    *coef.as<float>() = static_cast<float>(result.coefficient);
    *norm.as<float>() = static_cast<float>(result.norm);
    *skip.as<float>() = result.skip ? 1.0f : 0.0f;
    return {};
  });
}

Result<OperationPtr> makeLearningRate(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 2, 4, 5));
  Tensor step = a.views[0], lr = a.views[1];
  CIUIC_TRY(expectScalar("step", step, abi::DType::I32));
  CIUIC_TRY(expectScalar("lr", lr, abi::DType::F32));
  if (a.ints[0] < 0 || a.ints[0] > 3)
    return Status::invalid("unknown schedule " + std::to_string(a.ints[0]));
  LearningRateParams params;
  params.kind = static_cast<LearningRateKind>(a.ints[0]);
  params.warmupSteps = a.ints[1];
  params.totalSteps = a.ints[2];
  params.curve = a.ints[3] ? WarmupCurve::Log : WarmupCurve::Linear;
  params.lr = a.reals[0];
  params.warmupMinLr = a.reals[1];
  params.warmupMaxLr = a.reals[2];
  params.warmupMinRatio = a.reals[3];
  params.cosMinRatio = a.reals[4];
  return makeLambdaOperation([=]() -> Status {
    *lr.as<float>() =
        static_cast<float>(learningRate(params, *step.as<int32_t>()));
    return {};
  });
}

Result<OperationPtr> makeAdvance(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 3, 0, 0));
  Tensor step = a.views[0], skip = a.views[1], next = a.views[2];
  CIUIC_TRY(expectScalar("step", step, abi::DType::I32));
  CIUIC_TRY(expectScalar("skip", skip, abi::DType::F32));
  CIUIC_TRY(expectScalar("next", next, abi::DType::I32));
  return makeLambdaOperation([=]() -> Status {
    int32_t now = *step.as<int32_t>();
    bool applied = *skip.as<float>() == 0.0f && now < INT32_MAX;
    *next.as<int32_t>() = now + (applied ? 1 : 0);
    return {};
  });
}

Result<OperationPtr> makeUpdateLossScale(const TaskArguments &a) {
  CIUIC_TRY(expectCounts(a, 10, 3, 1));
  for (size_t i = 0; i < 10; ++i) {
    bool isFloat = i == 0 || i == 4 || i == 5 || i == 9;
    CIUIC_TRY(expectScalar("operand", a.views[i],
                           isFloat ? abi::DType::F32 : abi::DType::I32));
  }
  std::vector<Tensor> views(a.views.begin(), a.views.end());
  LossScaleParams params;
  params.dynamic = true;
  params.window = a.ints[0];
  params.hysteresis = a.ints[1];
  params.consecutiveHysteresis = a.ints[2] != 0;
  params.minScale = a.reals[0];
  if (params.window < 1 || params.hysteresis < 1)
    return Status::invalid("window or hysteresis is out of range");
  return makeLambdaOperation([params, views = std::move(views)]() -> Status {
    LossScaleState state;
    state.scale = *views[0].as<float>();
    state.iteration = *views[1].as<int32_t>();
    state.lastOverflow = *views[2].as<int32_t>();
    state.hysteresis = *views[3].as<int32_t>();
    bool stopped =
        updateLossScale(state, params, *views[4].as<float>() != 0.0f);
    *views[5].as<float>() = static_cast<float>(state.scale);
    *views[6].as<int32_t>() = static_cast<int32_t>(state.iteration);
    *views[7].as<int32_t>() = static_cast<int32_t>(state.lastOverflow);
    *views[8].as<int32_t>() = static_cast<int32_t>(state.hysteresis);
    *views[9].as<float>() = stopped ? 1.0f : 0.0f;
    return {};
  });
}

Result<OperationPtr> makeAdam(const TaskArguments &a) {
  bool hasHalf = a.views.size() == 9;
  CIUIC_TRY(expectCounts(a, hasHalf ? 9 : 8, 3, 4));
  Tensor p = a.views[0], grad = a.views[1], m = a.views[2], v = a.views[3],
         lr = a.views[4], coef = a.views[5], step = a.views[6],
         skip = a.views[7], half = hasHalf ? a.views[8] : Tensor();
  CIUIC_TRY(expectUpdate(a.views, 3, hasHalf ? &half : nullptr));
  CIUIC_TRY(expectScalar("lr", lr, abi::DType::F32));
  CIUIC_TRY(expectScalar("coef", coef, abi::DType::F32));
  CIUIC_TRY(expectScalar("step", step, abi::DType::I32));
  CIUIC_TRY(expectScalar("skip", skip, abi::DType::F32));
  bool decoupled = a.ints[0] != 0, corrected = a.ints[1] != 0;
  CIUIC_TRY_ASSIGN(int64_t first, firstElement(a, a.ints[2]));
  CIUIC_TRY_ASSIGN(Ranges ranges,
                   undecayedRanges(a.ints.subspan(3), first, p.elements()));
  double beta1 = a.reals[0], beta2 = a.reals[1], eps = a.reals[2],
         decay = a.reals[3];
  return makeLambdaOperation([=, ranges = std::move(ranges)]() -> Status {
    if (*skip.as<float>() != 0.0f) {
      copyUnchanged(p, hasHalf ? &half : nullptr);
      return {};
    }
    double rate = *lr.as<float>();
    double t = static_cast<double>(*step.as<int32_t>()) + 1;
    double correction1 = corrected ? 1 - std::pow(beta1, t) : 1;
    double correction2 = corrected ? 1 - std::pow(beta2, t) : 1;
    AdamScalars with;
    with.beta1 = static_cast<float>(beta1);
    with.beta2 = static_cast<float>(beta2);
    with.oneMinusBeta1 = static_cast<float>(1 - beta1);
    with.oneMinusBeta2 = static_cast<float>(1 - beta2);
    with.eps = static_cast<float>(eps);
    with.coef = *coef.as<float>();
    with.coupledDecay = decoupled ? 0.0f : static_cast<float>(decay);
    with.decoupledFactor =
        decoupled ? static_cast<float>(1 - rate * decay) : 1.0f;
    with.stepSize = static_cast<float>(rate / correction1);
    with.inverseRoot2 = static_cast<float>(1 / std::sqrt(correction2));
    AdamScalars without = with;
    without.coupledDecay = 0.0f;
    without.decoupledFactor = 1.0f;
    parallelChunks(p.elements(), updateGrain, [&](int64_t begin, int64_t end) {
      forPieces(ranges, begin, end, [&](int64_t from, int64_t to, bool decays) {
        hostKernels().adam(decays ? with : without, p.as<float>() + from,
                           grad.as<float>() + from, m.as<float>() + from,
                           v.as<float>() + from, half.dtype,
                           hasHalf ? element(half, from) : nullptr, to - from);
      });
    });
    return {};
  });
}

Result<OperationPtr> makeSgd(const TaskArguments &a) {
  bool hasHalf = a.views.size() == 7;
  CIUIC_TRY(expectCounts(a, hasHalf ? 7 : 6, 2, 2));
  Tensor p = a.views[0], grad = a.views[1], m = a.views[2], lr = a.views[3],
         coef = a.views[4], skip = a.views[5],
         half = hasHalf ? a.views[6] : Tensor();
  CIUIC_TRY(expectUpdate(a.views, 2, hasHalf ? &half : nullptr));
  CIUIC_TRY(expectScalar("lr", lr, abi::DType::F32));
  CIUIC_TRY(expectScalar("coef", coef, abi::DType::F32));
  CIUIC_TRY(expectScalar("skip", skip, abi::DType::F32));
  bool nesterov = a.ints[0] != 0;
  CIUIC_TRY_ASSIGN(int64_t first, firstElement(a, a.ints[1]));
  CIUIC_TRY_ASSIGN(Ranges ranges,
                   undecayedRanges(a.ints.subspan(2), first, p.elements()));
  float momentum = static_cast<float>(a.reals[0]);
  float decay = static_cast<float>(a.reals[1]);
  return makeLambdaOperation([=, ranges = std::move(ranges)]() -> Status {
    if (*skip.as<float>() != 0.0f) {
      copyUnchanged(p, hasHalf ? &half : nullptr);
      return {};
    }
    SgdScalars with{*lr.as<float>(), *coef.as<float>(), momentum, decay,
                    nesterov};
    SgdScalars without = with;
    without.decay = 0.0f;
    parallelChunks(p.elements(), updateGrain, [&](int64_t begin, int64_t end) {
      forPieces(ranges, begin, end, [&](int64_t from, int64_t to, bool decays) {
        hostKernels().sgd(decays ? with : without, p.as<float>() + from,
                          grad.as<float>() + from, m.as<float>() + from,
                          half.dtype, hasHalf ? element(half, from) : nullptr,
                          to - from);
      });
    });
    return {};
  });
}

} // namespace ciuic::rt
