//===- RotaryTable.cpp - Cosines and sines of rotary embeddings -----------===//
#include "runtime/job/RotaryTable.h"

#include <cmath>
#include <string>
#include <vector>

namespace ciuic::rt {
namespace {

constexpr double pi = 3.141592653589793;

/// Frequency j of a head of `dim` features, stretched as the model says.
double frequency(const abi::Init &init, uint64_t j) {
  double theta = init.reals[0], factor = init.reals[1], low = init.reals[2],
         high = init.reals[3], original = init.reals[4];
  double plain = std::pow(theta, -2.0 * static_cast<double>(j) /
                                     static_cast<double>(init.ints[1]));
  switch (init.ints[2]) {
  case 1:
    return plain / factor;
  case 2: {
    double wavelength = 2 * pi / plain;
    if (wavelength < original / high)
      return plain;
    if (wavelength > original / low)
      return plain / factor;
    double share = (original / wavelength - low) / (high - low);
    return (1 - share) * plain / factor + share * plain;
  }
  default:
    return plain;
  }
}

} // namespace

Status fillRotary(const abi::Init &init, uint64_t columns, uint64_t begin,
                  uint64_t end, float *out) {
  if (init.ints[1] <= 0 || columns != static_cast<uint64_t>(init.ints[1]) / 2 ||
      columns == 0)
    return Status::invalid("a rotary table of " + std::to_string(columns) +
                           " columns for heads of " +
                           std::to_string(init.ints[1]) + " features");
  if (init.ints[2] < 0 || init.ints[2] > 2)
    return Status::invalid("unknown rotary scaling " +
                           std::to_string(init.ints[2]));
  std::vector<double> frequencies;
  for (uint64_t j = 0; j < columns; ++j)
    frequencies.push_back(frequency(init, j));
  for (uint64_t i = begin; i < end; ++i) {
    double angle = static_cast<double>(i / columns) * frequencies[i % columns];
    *out++ =
        static_cast<float>(init.ints[0] ? std::sin(angle) : std::cos(angle));
  }
  return {};
}

} // namespace ciuic::rt
