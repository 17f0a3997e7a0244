//===- RemoteCollectives.h - Collectives among processes --------*- C++ -*-===//
//
// As LocalCollectives.h, where each process has some of the ranks: the bytes of
// the others come by a ProcessGroup. Every rank's values take part one by one
// and in rank order, so that the result has the bits of a single process.
// Large tensors go in pieces whose size depends on ranks and processes alone.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_REMOTE_REMOTECOLLECTIVES_H
#define CIUIC_RUNTIME_COMM_REMOTE_REMOTECOLLECTIVES_H

#include "runtime/base/RankRange.h"
#include "runtime/comm/ProcessGroup.h"
#include "runtime/device/host/HostArena.h"
#include "runtime/kernels/host/Operation.h"

namespace ciuic::rt {

/// What the collectives of a program share: they run one at a time.
class RemoteWorld {
public:
  RemoteWorld(ProcessGroup &group, uint32_t ranks);

  ProcessGroup &group;
  const uint32_t ranks;
  const RankRange local;
  const uint32_t mostLocal; ///< Ranks of the process that has most.

  RankRange ranksOfProcess(uint32_t process) const {
    return ranksOf(process, group.processes(), ranks);
  }

  /// Asks for bytes to pack and unpack in; before commit() only.
  void reserve(uint64_t bytes) { reserved = std::max(reserved, bytes); }
  Status commit();
  std::byte *staging() const { return memory.base(); }
  uint64_t stagingBytes() const { return memory.bytes(); }

private:
  uint64_t reserved = 0;
  HostArena memory;
};

/// `arguments.views` has those of this process's ranks, in rank order, and
/// `arguments.ranks` counts all. `world` must outlive the operation, whose
/// run() is called in the same order in every process.
Result<OperationPtr> makeRemoteCollective(const TaskArguments &arguments,
                                          RemoteWorld &world);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_REMOTE_REMOTECOLLECTIVES_H
