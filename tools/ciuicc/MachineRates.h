//===- MachineRates.h - The rates of a machine, as reached ------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUICC_MACHINERATES_H
#define CIUIC_TOOLS_CIUICC_MACHINERATES_H

#include "dialect/Sched/Rates.h"
#include "frontend/machine/Machine.h"

namespace ciuic::tool {

/// What one of `ranks` ranks gets of a machine: its data sheet's rates less
/// what practice leaves of them. What the machine does not say is as usual for
/// the target. More ranks than it has devices are on several such machines,
/// unless the devices are CPUs, which all ranks share.
sched::Rates ratesOf(const machine::Machine &machine, bool cuda, int64_t ranks);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUICC_MACHINERATES_H
