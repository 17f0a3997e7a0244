//===- TaskTimes.h - What a task takes --------------------------*- C++ -*-===//
//
// A roofline: a task takes the longer of its arithmetic and its bytes, at the
// rates of the machine that the plan is for, after what it takes to start one.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_PASSES_ANALYSIS_TASKTIMES_H
#define CIUIC_PASSES_ANALYSIS_TASKTIMES_H

#include "dialect/Sched/Rates.h"
#include "dialect/Sched/Sched.h"

namespace ciuic::sched {

/// What a task of one rank does.
struct TaskWork {
  double flops = 0; ///< Of matrix products, attention's among them.
  double bytes = 0; ///< Read and written in memory; moved between memories.
  double sent = 0;  ///< Bytes that a rank sends to others.
};
TaskWork workOf(TaskOp task);

/// Microseconds from its start to its end; above zero.
double microsecondsOf(TaskOp task, const Rates &rates);

/// Where rates are known for a kind of work that has no tasks yet: `bytes`
/// over the link between device and host, and gathered from all `ranks`.
double transferMicroseconds(double bytes, const Rates &rates);
double gatherMicroseconds(double wholeBytes, int64_t ranks, const Rates &rates);

} // namespace ciuic::sched

#endif // CIUIC_PASSES_ANALYSIS_TASKTIMES_H
