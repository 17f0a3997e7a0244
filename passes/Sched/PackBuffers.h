//===- PackBuffers.h - Offsets for buffers that share bytes -----*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_PACKBUFFERS_H
#define CIUIC_PASSES_SCHED_PACKBUFFERS_H

#include "passes/Sched/Lives.h"

namespace ciuic::sched {

/// Where each buffer begins, and the bytes that they take together.
struct Packing {
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
};

struct PackOptions {
  int64_t enough = 0;       ///< A packing of so few bytes is not improved.
  int64_t work = 100000000; ///< Conflicts looked at, in all.
};

/// Packs the buffers so that none that may be live at once share bytes.
///
/// Buffers are placed one after the other, each in the lowest or the smallest
/// gap that its conflicts leave, so a packing is the order in which they are
/// placed and which gap they prefer.
/// Several orders are tried, some known (by size: Pisarchyk and Lee, 2020),
/// then the best ones are improved by local search: of the buffers that end
/// highest one is moved to the front of one that it conflicts with, and the
/// move is kept unless it takes more bytes than at first a little more, and
/// ever less of it, allows. The same input gives the same packing: the search
/// draws from a fixed seed and is bounded by its work, not its time. At least
/// one order is tried, whatever the work.
///
/// `names` breaks ties between buffers that are otherwise alike. Without lists
/// of conflicts, which grow with the square of the buffers, a buffer keeps its
/// bytes from its first task to the one from which on all come after it: the
/// program is swept from its start and from its end, each buffer goes to the
/// lowest or the smallest gap that is large enough, and the best sweep counts.
Packing packBuffers(const Lives &lives, const std::optional<Lists> &conflicts,
                    llvm::ArrayRef<llvm::StringRef> names,
                    const PackOptions &options);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_PACKBUFFERS_H
