//===- BatchLoader.h - The batch of each step, rank, micro-step -*- C++ -*-===//
//
// Stateless in the step: a resumed run needs its step number and the seed.
// Global batch b of an epoch is sequences [b S, (b + 1) S) of the epoch's
// order, S = batch * accumulation * ranks; row `row` of micro-step m on rank r
// is sequence (m * ranks + r) * batch + row of it. So the batch is the same
// set of sequences in every layout of equal S. A batch never mixes two epochs:
// the last one of an epoch is filled with rows whose labels are all ignored.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DATA_BATCHLOADER_H
#define CIUIC_RUNTIME_DATA_BATCHLOADER_H

#include "runtime/data/TokenDataset.h"

namespace ciuic::rt {

/// How one global batch is divided.
struct BatchLayout {
  int64_t batch = 1;        ///< Sequences of one rank's micro-step (B).
  int64_t ranks = 1;        ///< W
  int64_t accumulation = 1; ///< Micro-steps of one step (G).
};

/// Where a step stands in the data.
struct BatchPosition {
  uint64_t epoch = 0;     ///< Completed passes before this step.
  uint64_t batch = 0;     ///< Number of this batch in its epoch.
  uint64_t sequences = 0; ///< Rows that hold data; the rest are filled.
  uint64_t labels = 0;    ///< Labels that are not ignored, in all rows.
};

/// Reads batches; const, and safe from many threads. The dataset must outlive
/// it.
class BatchLoader {
public:
  /// Code::Invalid for a layout that is not positive or overflows, and for a
  /// split without sequences.
  static Result<BatchLoader> create(const TokenDataset &dataset, Split split,
                                    const BatchLayout &layout);

  uint64_t sequencesPerEpoch() const { return sequences; }
  uint64_t stepsPerEpoch() const { return steps; }
  uint64_t sequencesPerStep() const { return perStep; }

  BatchPosition position(uint64_t step) const;

  /// Fills tokens[B * T] and labels[B * T], row-major, for one rank's
  /// micro-step.
  Status fill(uint64_t step, int64_t rank, int64_t microStep, int32_t *tokens,
              int32_t *labels) const;

private:
  BatchLoader(const TokenDataset &dataset, Split split,
              const BatchLayout &layout)
      : dataset(&dataset), split(split), layout(layout) {}

  const TokenDataset *dataset;
  Split split;
  BatchLayout layout;
  uint64_t sequences = 0, steps = 0, perStep = 0;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DATA_BATCHLOADER_H
