//===- ProcessGroup.h - The processes that run one job ----------*- C++ -*-===//
//
// One process a box (or, for tests, several on one): they meet at the start,
// agree on what only one of them can know (the identifier of an NCCL
// communicator, that a signal came), and on CPU devices carry the collectives'
// bytes. All processes call the same functions in the same order; each call
// returns when this process's part is done.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_PROCESSGROUP_H
#define CIUIC_RUNTIME_COMM_PROCESSGROUP_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ciuic::rt {

class ProcessGroup {
public:
  virtual ~ProcessGroup() = default;

  virtual uint32_t process() const = 0;
  virtual uint32_t processes() const = 0;

  /// Copies `bytes` of process `root` to all; all give the same size.
  virtual Status broadcast(std::span<std::byte> bytes, uint32_t root) = 0;

  /// Sends send[p] to process p and receives receive[p] from it; what is sent
  /// is as long as what the other expects. Own bytes are copied.
  virtual Status exchange(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive) = 0;

  virtual Status barrier() = 0;
};

/// A group of one: every call is done at once.
std::unique_ptr<ProcessGroup> makeSingleProcess();

/// From how this process was started: by `mpirun`, or with RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT in its environment as torchrun sets them; else
/// a group of one. Code::Invalid if the environment contradicts itself,
/// Code::Machine if the others cannot be reached.
Result<std::unique_ptr<ProcessGroup>> joinProcessGroup();

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_PROCESSGROUP_H
