//===- JustInTime.h - How late a transfer may start -------------*- C++ -*-===//
#ifndef CIUIC_PASSES_SCHED_JUSTINTIME_H
#define CIUIC_PASSES_SCHED_JUSTINTIME_H

#include "passes/Sched/TaskOrder.h"

#include <vector>

namespace ciuic::sched {

/// Finds the last task of a stream after which a transfer still comes in time.
/// What it fills then overlaps less of the work before its use.
class JustInTime {
public:
  /// A transfer is counted on for `slack` times what it takes; 0: tasks are
  /// not told apart by time.
  JustInTime(const TaskOrder &tasks, double slack);

  /// The last task from `earliest` on, and before `transfer`, on the stream of
  /// `use`, such that the tasks between it and the use take `slack` times what
  /// the transfers for the use take, `microseconds`. `earliest` if none does or
  /// if it is a task of another stream.
  unsigned findStart(unsigned earliest, unsigned transfer, unsigned use,
                     double microseconds) const;

  double microsecondsOf(unsigned task) const { return times[task]; }

private:
  const TaskOrder &tasks;
  double slack;
  std::vector<double> times;
};

} // namespace ciuic::sched

#endif // CIUIC_PASSES_SCHED_JUSTINTIME_H
