//===- DiskQueue.cpp - Blocks of transfers, and threads that move them ----===//
#include "runtime/disk/DiskQueue.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ciuic::rt {

void DiskQueue::submit(DiskTransfer &transfer) {
  transfer.issued = 0;
  transfer.underWay = 0;
  transfer.failure = Status();
  if (transfer.bytes == 0)
    return transfer.done(Status());
  std::scoped_lock lock(mutex);
  waiting.push_back(&transfer);
  wake();
}

bool DiskQueue::nextBlock(Block &block) {
  if (waiting.empty())
    return false;
  DiskTransfer *transfer = waiting.front();
  waiting.pop_front();
  uint64_t bytes =
      std::min(options.blockBytes, transfer->bytes - transfer->issued);
  block = {transfer, transfer->offset + transfer->issued, bytes,
           transfer->memory + transfer->issued};
  transfer->issued += bytes;
  ++transfer->underWay;
  if (transfer->issued < transfer->bytes)
    waiting.push_back(transfer);
  return true;
}

bool DiskQueue::advance(Block &block, int64_t result) {
  DiskTransfer &transfer = *block.transfer;
  if (result == -EINTR || result == -EAGAIN)
    return true;
  Status failure;
  if (result < 0) {
    failure = transfer.file->failure(transfer.write, block.offset, block.bytes,
                                     static_cast<int>(-result));
  } else if (result == 0) {
    failure = transfer.file->endsEarly(transfer.write, block.offset);
  } else {
    auto moved = std::min(static_cast<uint64_t>(result), block.bytes);
    block.offset += moved;
    block.memory += moved;
    block.bytes -= moved;
    return block.bytes > 0;
  }
  std::scoped_lock lock(mutex);
  if (transfer.failure.ok())
    transfer.failure = std::move(failure);
  return false;
}

void DiskQueue::finish(const Block &block) {
  DiskTransfer &transfer = *block.transfer;
  {
    std::scoped_lock lock(mutex);
    --transfer.underWay;
    // After a failure no more blocks are cut.
    if (!transfer.failure.ok() && transfer.issued < transfer.bytes) {
      std::erase(waiting, &transfer);
      transfer.issued = transfer.bytes;
    }
    if (transfer.underWay > 0 || transfer.issued < transfer.bytes)
      return;
  }
  // From here on the transfer may be submitted again.
  transfer.done(std::move(transfer.failure));
}

namespace {

class ThreadQueue final : public DiskQueue {
public:
  ThreadQueue(const DiskOptions &options, std::string why)
      : DiskQueue(options), why(std::move(why)) {
    for (uint32_t i = 0; i < std::min(options.depth, mostThreads); ++i)
      threads.emplace_back([this] { work(); });
  }

  ~ThreadQueue() override {
    {
      std::scoped_lock lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }

  std::string how() const override { return why; }

private:
  static constexpr uint32_t mostThreads = 8;

  void wake() override { changed.notify_one(); }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || !waiting.empty(); });
      Block block;
      if (!nextBlock(block))
        return;
      if (!waiting.empty())
        changed.notify_one();
      lock.unlock();
      while (advance(block, transferOnce(block)))
        ;
      finish(block);
      lock.lock();
    }
  }

  static int64_t transferOnce(const Block &block) {
    auto offset = static_cast<off_t>(block.offset);
    ssize_t moved =
        block.transfer->write
            ? pwrite(block.descriptor(), block.memory, block.bytes, offset)
            : pread(block.descriptor(), block.memory, block.bytes, offset);
    return moved < 0 ? -errno : moved;
  }

  const std::string why;
  std::condition_variable changed;
  bool stopping = false;
  std::vector<std::thread> threads;
};

} // namespace

Result<std::unique_ptr<DiskQueue>>
DiskQueue::create(const DiskOptions &options) {
  if (options.blockBytes < StateFile::block ||
      options.blockBytes % StateFile::block != 0 ||
      options.blockBytes > (uint64_t(1) << 30) || options.depth < 1 ||
      options.depth > 4096)
    return Status::invalid(
        "blocks of " + std::to_string(options.blockBytes) + " bytes, " +
        std::to_string(options.depth) +
        " at once: expected multiples of 4096 up to 2^30, and 1 to 4096");
  std::string why = "threads, as asked for";
  if (options.by != DiskOptions::By::Threads) {
    auto ring = makeUringQueue(options);
    if (ring.ok() || options.by == DiskOptions::By::Uring)
      return ring;
    why = "threads: " + ring.takeStatus().str();
  }
  return std::unique_ptr<DiskQueue>(new ThreadQueue(options, why));
}

} // namespace ciuic::rt
