//===- Landscape.h - Jobs that a function makes up --------------*- C++ -*-===//
#ifndef CIUIC_TEST_TOOLS_FIT_LANDSCAPE_H
#define CIUIC_TEST_TOOLS_FIT_LANDSCAPE_H

#include "tools/ciuicc/fit/Search.h"

#include <optional>

namespace ciuic::fit {

inline constexpr unsigned kTrials = 64;

/// What a function of a choice takes, within limits of devices and host.
struct Needs {
  int64_t device, host;
  double seconds;
};
using Landscape = std::function<std::optional<Needs>(const Choice &)>;

inline Outcome outcomeOf(const std::optional<Needs> &needs, int64_t device,
                         int64_t host) {
  if (!needs)
    return {};
  Outcome outcome{.possible = true,
                  .device = needs->device,
                  .host = needs->host,
                  .seconds = needs->seconds};
  outcome.beyond[Devices] = needs->device - device;
  outcome.beyond[Host] = needs->host - host;
  return outcome;
}

/// A ladder whose middle and end are probed.
inline Ladder ladderOf(unsigned levels) {
  if (levels == 2)
    return {levels, {1}};
  return {levels, {levels / 2, levels - 1}};
}

struct Found : FitResult {
  unsigned made;
};

inline Found fit(const std::vector<unsigned> &levels, int64_t device,
                 int64_t host, const Landscape &needs,
                 unsigned most = kTrials) {
  std::vector<Ladder> ladders;
  for (unsigned count : levels)
    ladders.push_back(ladderOf(count));
  Trials trials(
      [&](const Choice &choice) {
        return outcomeOf(needs(choice), device, host);
      },
      most);
  FitResult result = findFit(ladders, trials);
  return {result, trials.made()};
}

} // namespace ciuic::fit

#endif // CIUIC_TEST_TOOLS_FIT_LANDSCAPE_H
