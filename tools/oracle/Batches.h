//===- Batches.h - Tokens and labels, from a file or at random --*- C++ -*-===//
#ifndef CIUIC_TOOLS_ORACLE_BATCHES_H
#define CIUIC_TOOLS_ORACLE_BATCHES_H

#include "runtime/base/Status.h"
#include "tools/oracle/Tensor.h"

#include <string>

namespace ciuic::oracle {

/// How one step's sequences are dealt out: micro-step g, rank r takes rows
/// [(g * ranks + r) * batch, ... + batch).
struct BatchGeometry {
  int64_t microSteps = 1;
  int64_t ranks = 1;
  int64_t batch = 1;    ///< Sequences a rank and micro-step.
  int64_t sequence = 1; ///< Tokens a sequence.

  int64_t rows() const { return microSteps * ranks * batch; }
};

/// The sequences of one or more steps; a run longer than that starts again.
class Batches {
public:
  /// Reads `tokens` and the tensor called `labelsName`: [steps, microSteps,
  /// ranks * batch, sequence], or of lesser rank for one micro-step or one
  /// step; the rows of a step may also be given in one dimension.
  static rt::Result<Batches> read(const std::string &path,
                                  const std::string &labelsName,
                                  const BatchGeometry &geometry);

  /// Tokens below `vocabulary`; each label is the token that follows, one in
  /// eight is -100. The same (seed, step, row, position) gives the same token
  /// in every geometry.
  static Batches random(uint64_t seed, int64_t vocabulary,
                        const BatchGeometry &geometry);

  /// Steps of the file; 0 for random ones, which do not end.
  int64_t steps() const { return stepCount; }

  /// The tokens or labels of one micro-step, a tensor on each rank.
  RankValues tokens(int64_t step, int64_t microStep) const {
    return deal(step, microStep, /*labels=*/false);
  }
  RankValues labels(int64_t step, int64_t microStep) const {
    return deal(step, microStep, /*labels=*/true);
  }

private:
  RankValues deal(int64_t step, int64_t microStep, bool labels) const;
  /// One sequence; rows count on from step to step.
  std::vector<double> row(int64_t index, bool labels) const;

  BatchGeometry geometry;
  int64_t stepCount = 0;
  std::vector<double> tokenData; ///< [steps, rows, sequence]
  std::vector<double> labelData;
  uint64_t seed = 0;
  int64_t vocabulary = 0; ///< Of random tokens.
};

} // namespace ciuic::oracle

#endif // CIUIC_TOOLS_ORACLE_BATCHES_H
