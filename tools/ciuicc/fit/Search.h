//===- Search.h - Which settings make a job fit -----------------*- C++ -*-===//
//
// Knows nothing of compilers: a job is a level for each knob, and a function
// tells what memory and time it takes. Every answer is one that was evaluated,
// and the number of evaluations is bounded, so that the same job always gets
// the same answer.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TOOLS_CIUICC_FIT_SEARCH_H
#define CIUIC_TOOLS_CIUICC_FIT_SEARCH_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ciuic::fit {

/// What can be limited; `Together`: devices that lie in the host's memory.
enum Limit : unsigned { Devices, Host, Files, Together, kLimits };

/// What a job takes.
struct Outcome {
  bool possible = false; ///< Its settings agree and it passed the phases.
  std::string why = {};  ///< It is not possible.
  int64_t device = 0;    ///< Bytes of each device.
  int64_t host = 0;      ///< Bytes of the host for all ranks and processes.
  int64_t nvme = 0;      ///< Bytes of disk for all ranks.
  /// Bytes beyond each limit, over all ranks: what is left of it as a negative
  /// number, 0 where there is no limit.
  std::array<int64_t, kLimits> beyond = {};
  double seconds = 0; ///< Of a step, estimated.
  int64_t tasks = 0;  ///< How large the job is to plan.

  /// Bytes that are missing, of all kinds of memory.
  int64_t excess() const {
    int64_t sum = 0;
    for (int64_t bytes : beyond)
      sum += std::max<int64_t>(0, bytes);
    return sum;
  }
  bool fits() const { return possible && excess() == 0; }
};

/// Settings that one thing can have, from that which the job has (0) to that
/// which makes most room on the devices.
struct Ladder {
  unsigned levels = 1;
  /// Worth trying before all that lies in between; ascending, none is 0.
  std::vector<unsigned> probes;
  bool fixed = false; ///< The user decided it.
  /// Its levels take room and save time: for what is left over.
  bool spends = false;
};

/// A level of each ladder.
using Choice = std::vector<unsigned>;
using Evaluate = std::function<Outcome(const Choice &)>;

/// Evaluates each choice once, and not more than so many.
class Trials {
public:
  Trials(Evaluate evaluate, unsigned most)
      : evaluate(std::move(evaluate)), most(most) {}

  /// What is known or can still be found out; null when all are used up.
  const Outcome *of(const Choice &choice);
  bool known(const Choice &choice) const { return outcomes.contains(choice); }
  unsigned left() const { return most - std::min(most, used); }
  unsigned made() const { return used; }
  /// Lowers what may be tried; large jobs take long to plan.
  void limit(unsigned newMost) { most = std::min(most, newMost); }
  const std::map<Choice, Outcome> &all() const { return outcomes; }

private:
  Evaluate evaluate;
  unsigned most, used = 0;
  std::map<Choice, Outcome> outcomes;
};

/// A step of the way to what fits.
struct Round {
  Choice from, to;
  Outcome before, after;
};

struct FitResult {
  bool possible = false; ///< The job as it is can be planned at all.
  Outcome given;         ///< The job as it is.
  std::vector<Round> rounds;
  Choice choice; ///< Fits, or needs least beyond the limits.
  Outcome outcome;
  /// It does not fit, and no choice does: each was evaluated, or that one was
  /// which needs least of a kind of memory, and there is clearly too little for
  /// it. With any single ladder at another of its probes it needs no less.
  bool nothingFits = false;
};

/// Makes room until the job fits, in as little time as it finds: what each
/// ladder does is measured, all choices are estimated from that, and the best
/// of them is evaluated and estimated from in turn. Then takes back what turned
/// out to be needed no more, the costliest first, and spends what room is left.
/// Ladders that are fixed stay.
FitResult findFit(const std::vector<Ladder> &ladders, Trials &trials);

struct Nearest {
  Choice choice;
  Outcome outcome;
};

/// Jobs that fit and change little: few ladders, rather those that are not
/// fixed; of equals the fastest first. None contains the changes of another.
/// Empty if none was found.
std::vector<Nearest> findNearest(const std::vector<Ladder> &ladders,
                                 Trials &trials, unsigned most);

} // namespace ciuic::fit

#endif // CIUIC_TOOLS_CIUICC_FIT_SEARCH_H
