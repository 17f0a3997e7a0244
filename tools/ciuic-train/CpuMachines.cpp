//===- CpuMachines.cpp - The runner for virtual devices of the CPU --------===//
#include "runtime/task/HostMachine.h"
#include "tools/ciuic-train/Machines.h"

namespace ciuic::tool {

rt::Result<std::unique_ptr<rt::Machine>>
makeMachine(const abi::Bundle &bundle, const rt::MachineOptions &options) {
  return rt::HostMachine::create(bundle, options);
}

} // namespace ciuic::tool
