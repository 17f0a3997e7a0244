//===- Collective.cpp - Sums of what ranks sent -----------------*- C++ -*-===//
#include "test/cuda_on_host/Collective.h"
#include "test/cuda_on_host/include/cuda_bf16.h"
#include "test/cuda_on_host/include/cuda_fp16.h"

#include <cstring>

using namespace ciuic;
using namespace ciuic::onhost;

const char *onhost::nameOf(Kind kind) {
  switch (kind) {
  case Kind::AllGather:
    return "all-gather";
  case Kind::ReduceScatter:
    return "reduce-scatter";
  case Kind::AllReduce:
    return "all-reduce";
  }
  return "?";
}

size_t onhost::sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 4;
  }
}

namespace {

struct F16 {
  uint16_t bits;
  float get() const { return detail::floatOfF16(bits); }
  static F16 of(float x) { return {detail::f16OfFloat(x)}; }
};
struct BF16 {
  uint16_t bits;
  float get() const { return detail::floatOfBf16(bits); }
  static BF16 of(float x) { return {detail::bf16OfFloat(x)}; }
};
template <typename T> struct Plain {
  T bits;
  T get() const { return bits; }
  static Plain of(T x) { return {x}; }
};

/// The sum over ranks of elements [begin, begin + count) of what they sent,
/// from rank `start` on around the ring.
template <typename T>
void sumAs(const Collective &c, size_t begin, size_t count, size_t start,
           char *out) {
  using Value = decltype(T().get());
  size_t ranks = c.entries.size();
  bool mean = c.signature.op == ncclAvg;
  for (size_t i = 0; i < count; ++i) {
    T sum{};
    for (size_t r = 0; r < ranks; ++r) {
      T one;
      std::memcpy(&one,
                  c.entries[(start + r) % ranks].sent.data() +
                      (begin + i) * sizeof(T),
                  sizeof(T));
      if constexpr (std::is_floating_point_v<Value>)
        if (mean)
          one = T::of(one.get() / static_cast<Value>(ranks));
      sum = r == 0 ? one : T::of(static_cast<Value>(sum.get() + one.get()));
    }
    if constexpr (!std::is_floating_point_v<Value>)
      if (mean)
        sum = T::of(sum.get() / static_cast<Value>(ranks));
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

} // namespace

void onhost::sumAroundRing(const Collective &c, size_t begin, size_t count,
                           size_t start, char *out) {
  switch (c.signature.type) {
  case ncclFloat16:
    return sumAs<F16>(c, begin, count, start, out);
  case ncclBfloat16:
    return sumAs<BF16>(c, begin, count, start, out);
  case ncclFloat64:
    return sumAs<Plain<double>>(c, begin, count, start, out);
  case ncclInt32:
    return sumAs<Plain<int32_t>>(c, begin, count, start, out);
  default:
    return sumAs<Plain<float>>(c, begin, count, start, out);
  }
}
