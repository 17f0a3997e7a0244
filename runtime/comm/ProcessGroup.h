//===- ProcessGroup.h - The processes that run one job ----------*- C++ -*-===//
//
// One process a box (or, for tests, several on one): they meet at the start,
// agree on what only one of them can know (the identifier of an NCCL
// communicator, that a signal came), and on CPU devices carry the collectives'
// bytes. All processes call the same functions in the same order; each call
// returns when this process's part is done. One thread calls at a time.
//
// After a failure a group is broken: every later call returns the same error.
// A process that fails tells the others by abort(), so that nobody waits for
// it; one that dies without a word is noticed by its closed connections.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_COMM_PROCESSGROUP_H
#define CIUIC_RUNTIME_COMM_PROCESSGROUP_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ciuic::rt {

class ProcessGroup {
public:
  virtual ~ProcessGroup() = default;

  virtual uint32_t process() const = 0;
  virtual uint32_t processes() const = 0;

  /// Sends send[p] to process p and receives receive[p] from it, which may
  /// both be empty; own bytes are copied. Fails unless each process sends as
  /// many bytes as the other expects. Also a barrier between each two.
  virtual Status exchange(std::span<const std::span<const std::byte>> send,
                          std::span<const std::span<std::byte>> receive) = 0;

  /// Whether another process has failed or ended, without waiting: for who
  /// waits for something else that depends on it.
  virtual Status check() { return {}; }

  /// Tells the others why this process ends: what they call now or next
  /// returns `status` with this process's number, under its code. The group is
  /// broken then. Does nothing in a group that is broken.
  virtual void abort(const Status &status) = 0;

  /// Copies `bytes` of process `root` to all; all give the same size.
  Status broadcast(std::span<std::byte> bytes, uint32_t root);

  /// As broadcast, of text of any length up to 1 MiB.
  Status broadcastText(std::string &text, uint32_t root);

  /// Each process's `mine`, in order of processes: all give the same size.
  /// `all` is processes() times as long.
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all);

  Status barrier();
};

/// A group of one: every call is done at once.
std::unique_ptr<ProcessGroup> makeSingleProcess();

struct JoinOptions {
  /// Seconds in which all processes must have started.
  double joinTimeout = 300;
  /// Seconds that an exchange may go without any progress.
  double exchangeTimeout = 1800;
};

/// From how this process was started: by `mpirun`, or with RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT in its environment as torchrun sets them; else
/// a group of one. Code::Invalid if the environment contradicts itself or the
/// others', Code::Machine if they cannot be reached.
Result<std::unique_ptr<ProcessGroup>>
joinProcessGroup(const JoinOptions &options = {});

/// Code::Invalid where this process was started as one of several on its
/// machine: for jobs whose process drives all devices of a machine.
Status checkOneProcessHere();

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_COMM_PROCESSGROUP_H
