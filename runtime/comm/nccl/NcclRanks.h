//===- NcclRanks.h - Collectives among GPUs ---------------------*- C++ -*-===//
//
// Two communicators over all ranks of a job, one for gathers and one for
// reductions, so that a gather ahead of its use does not queue behind a
// reduction. This process holds those of its own ranks; each is used by the
// enqueue thread of its device alone. All ranks launch collectives in program
// order, whichever communicator they belong to.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_NCCL_NCCLRANKS_H
#define CIUIC_RUNTIME_COMM_NCCL_NCCLRANKS_H

#include "runtime/base/RankRange.h"
#include "runtime/task/cuda/DeviceTask.h"

#include <memory>
#include <span>

namespace ciuic::rt {

class ProcessGroup;

class NcclRanks {
public:
  /// Meets the other processes of `group` (null: there are none). `devices` is
  /// one for each rank of `local`. Refuses an NCCL older than compiled with.
  static Result<std::unique_ptr<NcclRanks>>
  create(uint32_t ranks, RankRange local, std::span<const CudaDevice> devices,
         ProcessGroup *group);
  ~NcclRanks();

  /// A collective of one rank. A mean is NCCL's own: each rank's values are
  /// divided by the number of ranks before they are added.
  Result<DeviceTaskPtr> makeCollective(const DeviceTaskArguments &arguments);

  /// What went wrong in the background, on any communicator of this process.
  Status check();

  /// Ends what is under way and refuses what follows. Any thread.
  void abort();

private:
  class Impl;
  explicit NcclRanks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_NCCL_NCCLRANKS_H
