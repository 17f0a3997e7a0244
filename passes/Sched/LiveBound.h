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

/// The heaviest set of buffers no two of which are ordered. Such sets are the
/// antichains of the order "before", and their most bytes are what the
/// cheapest cover by chains costs (Dilworth, 1950), which is a flow: bytes
/// pass from a buffer to one that comes after it, as memory does. Where the
/// flow takes more than `work` visits of edges, or so many comparisons to find
/// its edges, the heaviest set by program order instead, which is an antichain
/// too.
LiveBound findLiveBound(const Lives &lives, int64_t work = int64_t(1) << 28);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_LIVEBOUND_H
