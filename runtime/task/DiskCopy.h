//===- DiskCopy.h - Copies between files and host memory --------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_TASK_DISKCOPY_H
#define CIUIC_RUNTIME_TASK_DISKCOPY_H

#include "runtime/abi/Program.h"
#include "runtime/disk/DiskQueue.h"
#include "runtime/task/Machine.h"

namespace ciuic::rt {

/// The files of this process's ranks and who reads and writes them; neither is
/// there for a job without files.
class DiskMemory {
public:
  static Result<DiskMemory> create(const abi::Bundle &bundle, RankRange ranks,
                                   const DiskFlags &flags);

  bool isUsed() const { return queue != nullptr; }

  /// Elements [first, first + count) of a view into a file.
  Status read(const abi::View &view, uint32_t rank, uint64_t first,
              uint64_t count, void *to) const;
  Status write(const abi::View &view, uint32_t rank, uint64_t first,
               uint64_t count, const void *from) const;

  /// Prepares a task of the stream Disk; `memory` is its view of the host's
  /// arena, resolved. `done` is left to the caller.
  Status prepare(const abi::Program &program, const abi::Task &task,
                 uint32_t rank, void *memory, DiskTransfer &transfer) const;

  /// The view of a disk task that lies in host memory.
  const abi::View &memoryOf(const abi::Program &program,
                            const abi::Task &task) const;

  void submit(DiskTransfer &transfer) { queue->submit(transfer); }

  bool holds(const abi::View &view) const {
    return bundle->buffers[view.buffer].arena == abi::Arena::Nvme;
  }

private:
  uint64_t offsetOf(const abi::View &view, uint32_t rank) const;

  const abi::Bundle *bundle = nullptr;
  StateFiles files;
  std::unique_ptr<DiskQueue> queue; ///< Goes before the files.
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_TASK_DISKCOPY_H
