//===- Estimate.h - What a job will take, from those known ------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_FIT_ESTIMATE_H
#define CIUIC_TOOLS_CIUICC_FIT_ESTIMATE_H

#include "tools/ciuicc/fit/Search.h"

#include <optional>

namespace ciuic::fit {

/// Estimates of choices from those that were evaluated so far: the nearest one
/// of these, and for each ladder that differs from it what that ladder did
/// where it was last seen to move, as near to there as possible. In between the
/// levels that are known it is taken to be straight.
class Estimate {
public:
  Estimate(const std::vector<Ladder> &ladders, const Trials &trials);

  /// What `choice` will take: of that, what is beyond the limits and the time
  /// alone. Nothing where a ladder was never seen at that height, or where the
  /// nearest choice that is known is not possible.
  std::optional<Outcome> of(const Choice &choice) const;

private:
  struct Known {
    const Choice *choice;
    const Outcome *outcome;
  };
  /// Possible jobs that differ in one ladder alone, by its level.
  struct Line {
    Choice rest; ///< With that ladder at 0.
    std::vector<Known> points;
  };
  struct Difference {
    bool known = false;
    std::array<int64_t, kLimits> beyond = {};
    double seconds = 0;
  };

  unsigned distance(const Choice &a, const Choice &b) const;
  Difference differenceAt(const Known &base, unsigned knob, unsigned to) const;

  const std::vector<Ladder> &ladders;
  std::vector<Known> all; ///< Those that need most first, impossible ones last.
  std::vector<std::vector<Line>> lines;
  /// By the choice of `all`, the ladder and its new level.
  std::vector<std::vector<std::vector<Difference>>> differences;
};

/// All choices of levels of the ladders that `moves` is true for, the others at
/// 0; where those are too many, of the longest ladders every other, or fewer,
/// but always the probes.
std::vector<Choice> listChoices(const std::vector<Ladder> &ladders,
                                const std::function<bool(unsigned)> &moves);

} // namespace ciuic::fit

#endif // CIUIC_TOOLS_CIUICC_FIT_ESTIMATE_H
