//===- PlanText.h - Plans as tables for people and scripts ------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_PLAN_PLANTEXT_H
#define CIUIC_TOOLS_CIUICC_PLAN_PLANTEXT_H

#include "tools/ciuicc/plan/Plan.h"

namespace ciuic::tool {

/// A task of a program.
struct PlanPlace {
  uint32_t program = 0, task = 0;
};

/// The task that `text` names: its number or name, in the program in front of
/// a ':' or else the first that has such a task.
rt::Result<PlanPlace> findPlace(const Plan &plan, const std::string &text);

/// For each arena: its size, what is held all the time, and the largest
/// holders where each program holds most.
std::string memoryTable(const Plan &plan);

/// What is live at a task, and where it lies.
std::string memoryTableAt(const Plan &plan, PlanPlace place);

/// The buffers, those live at `place` if there is one, as RFC 4180 has it.
std::string memoryCsv(const Plan &plan, std::optional<PlanPlace> place);

/// Where and when the bytes of a parameter live: its states, what is gathered
/// of it, its gradients; and the tasks that touch them.
rt::Result<std::string> parameterLife(const Plan &plan,
                                      const std::string &name);

/// "12.300 MB".
std::string inMega(int64_t bytes);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_PLAN_PLANTEXT_H
