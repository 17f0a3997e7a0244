//===- Permutation.h - A shuffle without a table ----------------*- C++ -*-===//
//
// A Feistel network over the smallest power of four that covers n, walked
// until it falls below n ("cycle walking"): a bijection on [0, n) that depends
// on nothing but its key, needs no memory and can be asked at any index. The
// standard library's shuffles are left unspecified by the standard.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DATA_PERMUTATION_H
#define CIUIC_RUNTIME_DATA_PERMUTATION_H

#include "runtime/base/Philox.h"

#include <bit>
#include <cstdint>

namespace ciuic::rt {

/// A pseudo-random bijection on [0, n), n < 2^62.
class Permutation {
public:
  Permutation(uint64_t n, uint64_t seed, uint64_t stream)
      : n(n), seed(seed), stream(stream) {
    int bits = n > 1 ? std::bit_width(n - 1) : 1;
    halfBits = (bits + 1) / 2;
    mask = (uint64_t(1) << halfBits) - 1;
  }

  /// Where index i < n goes.
  uint64_t operator()(uint64_t i) const {
    if (n <= 1)
      return i;
    // The network covers less than 4 n values, so this ends soon; and it ends
    // surely, because i itself lies on the cycle.
    do
      i = network(i);
    while (i >= n);
    return i;
  }

private:
  uint64_t network(uint64_t value) const {
    uint64_t left = value >> halfBits, right = value & mask;
    for (uint64_t round = 0; round < 8; ++round) {
      PhiloxCounter words = philox(seed, stream, (round << 32) | right);
      uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    return (left << halfBits) | right;
  }

  uint64_t n, seed, stream;
  int halfBits;
  uint64_t mask;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DATA_PERMUTATION_H
