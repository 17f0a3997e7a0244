//===- MpiModule.h - MPI, in a library of its own ---------------*- C++ -*-===//
//
// The runtime starts without MPI: only a process that mpirun started loads
// libciuic_mpi.so, from the folder of its executable or from ../lib beside it.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_MPI_MPIMODULE_H
#define CIUIC_RUNTIME_COMM_MPI_MPIMODULE_H

#include "runtime/comm/ProcessGroup.h"

namespace ciuic::rt {

inline constexpr const char *mpiModuleName = "libciuic_mpi.so";
inline constexpr const char *mpiEntryPoint = "ciuic_join_by_mpi";

/// Raised when ProcessGroup or this function changes.
inline constexpr uint32_t mpiModuleVersion = 2;

/// The group of MPI_COMM_WORLD, or in `status` why there is none. The module's
/// one symbol; it stays loaded to the end of the process.
using MpiEntryPoint = ProcessGroup *(*)(uint32_t version,
                                        const JoinOptions &options,
                                        Status &status);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_MPI_MPIMODULE_H
