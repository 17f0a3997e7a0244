//===- LiveBound.h - The least bytes that any packing takes -----*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_LIVEBOUND_H
#define CIUIC_PASSES_SCHED_LIVEBOUND_H

#include "passes/Sched/Lives.h"

namespace ciuic::sched {

/// Buffers that may all be live at once, and their bytes: no packing of the
/// program takes fewer.
struct LiveBound {
  int64_t bytes = 0;
  std::vector<uint32_t> holders; ///< By rising number.
  bool exact = true;             ///< No other such set holds more.
};

/// A second or so of work, which no known job needs.
inline constexpr int64_t kBoundWork = int64_t(1) << 28;

/// The heaviest set of buffers no two of which are ordered. Such sets are the
/// antichains of the order "before", and their most bytes are what the
/// cheapest cover by chains costs (Dilworth, 1950), which is a flow: bytes
/// pass from a buffer to one that comes after it, as memory does. Once finding
/// what is ordered and visiting edges takes more than `work`, the heaviest set
/// found by then, at least that of program order.
LiveBound findLiveBound(const Lives &lives, int64_t work = kBoundWork);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_LIVEBOUND_H
