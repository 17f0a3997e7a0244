//===- Convert.cpp - Arrays from one element type to another --------------===//
//
// Loads and stores go through memcpy, since tensors in files need not be
// aligned; compilers make plain vector loads of them.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Convert.h"

#include "runtime/base/HalfFloat.h"

#include <fmt/format.h>

#include <cstring>

namespace ciuic::rt {
namespace {

/// One element type: its storage, and the way to and from its wider value.
struct F32 {
  using Storage = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
  static float store(double value) { return static_cast<float>(value); }
};
struct F64 {
  using Storage = double;
  static double load(double value) { return value; }
  static double store(double value) { return value; }
};
struct F16 {
  using Storage = uint16_t;
  static float load(uint16_t bits) { return floatFromF16(bits); }
  static uint16_t store(float value) { return f16FromFloat(value); }
  static uint16_t store(double value) {
    return f16FromFloat(floatRoundedToOdd(value));
  }
};
struct BF16 {
  using Storage = uint16_t;
  static float load(uint16_t bits) { return floatFromBf16(bits); }
  static uint16_t store(float value) { return bf16FromFloat(value); }
  static uint16_t store(double value) {
    return bf16FromFloat(floatRoundedToOdd(value));
  }
};

template <typename From, typename To>
void convert(const void *in, void *out, uint64_t count) {
  using Source = typename From::Storage;
  using Target = typename To::Storage;
  auto *source = static_cast<const unsigned char *>(in);
  auto *target = static_cast<unsigned char *>(out);
  for (uint64_t i = 0; i < count; ++i) {
    Source value;
    std::memcpy(&value, source + i * sizeof(Source), sizeof(Source));
    Target result = To::store(From::load(value));
    std::memcpy(target + i * sizeof(Target), &result, sizeof(Target));
  }
}

template <typename From>
void convertFrom(DType to, const void *in, void *out, uint64_t count) {
  switch (to) {
  case DType::F16:
    return convert<From, F16>(in, out, count);
  case DType::BF16:
    return convert<From, BF16>(in, out, count);
  case DType::F64:
    return convert<From, F64>(in, out, count);
  default:
    return convert<From, F32>(in, out, count);
  }
}

} // namespace

Status convertElements(DType from, const void *in, DType to, void *out,
                       uint64_t count) {
  if (!canConvert(from, to))
    return Status::invalid(
        fmt::format("cannot convert {} elements to {}", name(from), name(to)));
  if (count == 0)
    return {};
  if (from == to) {
    std::memcpy(out, in, count * byteSize(from));
    return {};
  }
  switch (from) {
  case DType::F16:
    convertFrom<F16>(to, in, out, count);
    break;
  case DType::BF16:
    convertFrom<BF16>(to, in, out, count);
    break;
  case DType::F64:
    convertFrom<F64>(to, in, out, count);
    break;
  default:
    convertFrom<F32>(to, in, out, count);
    break;
  }
  return {};
}

} // namespace ciuic::rt
