//===- JustInTime.cpp - How late a transfer may start ---------------------===//
#include "passes/Sched/JustInTime.h"
#include "passes/Analysis/TaskTimes.h"

using namespace mlir;
using namespace ciuic::sched;

JustInTime::JustInTime(const TaskOrder &tasks, double slack)
    : tasks(tasks), slack(slack) {
  if (tasks.tasks().empty())
    return;
  Rates rates = getRates(tasks.tasks().front());
  times.reserve(tasks.tasks().size());
  for (TaskOp task : tasks.tasks())
    times.push_back(sched::microsecondsOf(task, rates));
}

unsigned JustInTime::findStart(unsigned earliest, unsigned transfer,
                               unsigned use, double microseconds) const {
  unsigned stream = tasks.streamOf(use);
  if (slack == 0 || tasks.streamOf(earliest) != stream)
    return earliest;
  double between = 0;
  for (unsigned task = use; task-- > earliest + 1;) {
    if (tasks.streamOf(task) != stream)
      continue;
    if (task < transfer && between >= slack * microseconds)
      return task;
    between += times[task];
  }
  return earliest;
}
