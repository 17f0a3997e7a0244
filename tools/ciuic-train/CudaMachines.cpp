//===- CudaMachines.cpp - The runner for CUDA devices ---------------------===//
#include "runtime/task/cuda/CudaMachine.h"
#include "tools/ciuic-train/Machines.h"

namespace ciuic::tool {

rt::Result<std::unique_ptr<rt::Machine>>
makeMachine(const abi::Bundle &bundle, const rt::MachineOptions &options) {
  CIUIC_TRY_ASSIGN(std::unique_ptr<rt::Machine> machine,
                   rt::CudaMachine::create(bundle, options));
  return machine;
}

} // namespace ciuic::tool
