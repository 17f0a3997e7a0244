//===- DiskQueue.h - Reads and writes that nobody waits for -----*- C++ -*-===//
//
// Transfers between state files and memory, cut into blocks of which several
// are under way at once: by io_uring, or by threads where the system forbids
// that. Whoever submits one is called back when it is done; a transfer is
// prepared once and submitted in every step, which allocates nothing.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DISK_DISKQUEUE_H
#define CIUIC_RUNTIME_DISK_DISKQUEUE_H

#include "runtime/disk/StateFile.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace ciuic::rt {

struct DiskOptions {
  enum class By { Any, Uring, Threads };
  By by = By::Any;
  uint64_t blockBytes = 1 << 20; ///< Of one request of the system.
  uint32_t depth = 8;            ///< Requests under way at once.
};

/// One transfer. Its memory and file must outlive it, and it stays where it is
/// from submit() until `done` is called.
struct DiskTransfer {
  const StateFile *file = nullptr;
  bool write = false;
  uint64_t offset = 0, bytes = 0;
  std::byte *memory = nullptr;
  /// On a thread of the queue, once for each submit(); must not block.
  std::function<void(Status)> done;

  // Of the queue.
  uint64_t issued = 0;   ///< Bytes that blocks were cut from.
  uint32_t underWay = 0; ///< Blocks.
  Status failure;        ///< The first.
};

class DiskQueue {
public:
  /// Code::Machine where neither can be had, or not the one asked for.
  static Result<std::unique_ptr<DiskQueue>> create(const DiskOptions &options);
  /// Ends what is under way; nothing may be submitted any more.
  virtual ~DiskQueue() = default;

  void submit(DiskTransfer &transfer);

  /// "io_uring", or "threads" and why.
  virtual std::string how() const = 0;

protected:
  explicit DiskQueue(const DiskOptions &options) : options(options) {}

  /// A piece of a transfer.
  struct Block {
    DiskTransfer *transfer = nullptr;
    uint64_t offset = 0, bytes = 0;
    std::byte *memory = nullptr;
    int descriptor() const {
      return transfer->file->descriptor(memory, offset, bytes);
    }
  };

  /// Cuts the next block, if there is one; transfers take turns. Locked.
  bool nextBlock(Block &block);
  /// What the system said of a block: bytes, or an error below 0. Whether the
  /// rest of it, which `block` is then, has to be done still.
  bool advance(Block &block, int64_t result);
  /// Takes note of a block that is done; calls back after its transfer's last.
  void finish(const Block &block);
  /// After submit(), under the lock.
  virtual void wake() = 0;

  const DiskOptions options;
  std::mutex mutex;
  std::deque<DiskTransfer *> waiting; ///< With bytes no block was cut from.
};

/// By io_uring: Code::Machine with the system's reason where there is none.
Result<std::unique_ptr<DiskQueue>> makeUringQueue(const DiskOptions &options);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DISK_DISKQUEUE_H
