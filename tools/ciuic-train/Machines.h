//===- Machines.h - What this runner can run bundles on ---------*- C++ -*-===//
#ifndef CIUIC_TOOLS_CIUIC_TRAIN_MACHINES_H
#define CIUIC_TOOLS_CIUIC_TRAIN_MACHINES_H

#include "runtime/task/Machine.h"

namespace ciuic::tool {

/// A machine for a bundle's target; Code::Invalid for a target that this
/// runner was not built for. CpuMachines.cpp or CudaMachines.cpp defines it.
rt::Result<std::unique_ptr<rt::Machine>>
makeMachine(const abi::Bundle &bundle, const rt::MachineOptions &options);

} // namespace ciuic::tool

#endif // CIUIC_TOOLS_CIUIC_TRAIN_MACHINES_H
