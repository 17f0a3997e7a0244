//===- RankRange.h - The ranks of one process -------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_RANKRANGE_H
#define CIUIC_RUNTIME_BASE_RANKRANGE_H

#include <cstdint>

namespace ciuic::rt {

/// Consecutive ranks of a job: those of one process.
struct RankRange {
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t end() const { return first + count; }
  bool holds(uint32_t rank) const { return rank >= first && rank < end(); }
};

/// Process p of P has the ranks [p * ranks / P, (p + 1) * ranks / P).
constexpr RankRange ranksOf(uint32_t process, uint32_t processes,
                            uint32_t ranks) {
  auto begin = [&](uint64_t p) {
    return static_cast<uint32_t>(p * ranks / processes);
  };
  return {begin(process), begin(uint64_t{process} + 1) - begin(process)};
}

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_RANKRANGE_H
