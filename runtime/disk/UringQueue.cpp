//===- UringQueue.cpp - Transfers by io_uring -----------------------------===//
#include "runtime/disk/DiskQueue.h"

#ifdef CIUIC_HAS_IO_URING

#include <cerrno>
#include <cstring>
#include <liburing.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ciuic::rt {
namespace {

/// One thread owns the ring. Who submits a transfer wakes it by an eventfd,
/// which the ring reads like any file.
class UringQueue final : public DiskQueue {
public:
  explicit UringQueue(const DiskOptions &options)
      : DiskQueue(options), blocks(options.depth) {
    for (uint32_t i = 0; i < options.depth; ++i)
      unused.push_back(i);
  }

  Status open() {
    // One more for the eventfd.
    int error = -io_uring_queue_init(options.depth + 1, &ring, 0);
    if (error != 0)
      return Status::machine(std::string("io_uring is not available: ") +
                             std::strerror(error));
    hasRing = true;
    event = eventfd(0, EFD_CLOEXEC);
    if (event < 0)
      return Status::machine(std::string("cannot make an eventfd: ") +
                             std::strerror(errno));
    thread = std::thread([this] { work(); });
    return {};
  }

  ~UringQueue() override {
    if (thread.joinable()) {
      {
        std::scoped_lock lock(mutex);
        stopping = true;
      }
      wake();
      thread.join();
    }
    if (hasRing)
      io_uring_queue_exit(&ring);
    if (event >= 0)
      close(event);
  }

  std::string how() const override { return "io_uring"; }

private:
  void wake() override {
    uint64_t one = 1;
    // Only full at 2^64 - 1: then it is awake.
    [[maybe_unused]] ssize_t ignored = ::write(event, &one, sizeof(one));
    changed.notify_all(); // Where the ring is broken.
  }

  void listen() {
    io_uring_sqe *entry = io_uring_get_sqe(&ring);
    io_uring_prep_read(entry, event, &woken, sizeof(woken), 0);
    entry->user_data = wakeTag;
    listening = true;
  }

  void issue(uint32_t index) {
    const Block &block = blocks[index];
    io_uring_sqe *entry = io_uring_get_sqe(&ring);
    auto bytes = static_cast<unsigned>(block.bytes);
    if (block.transfer->write)
      io_uring_prep_write(entry, block.descriptor(), block.memory, bytes,
                          block.offset);
    else
      io_uring_prep_read(entry, block.descriptor(), block.memory, bytes,
                         block.offset);
    entry->user_data = index;
  }

  /// The submission queue has room: no more entries than it has are in use.
  void work() {
    for (;;) {
      if (!listening)
        listen();
      {
        std::scoped_lock lock(mutex);
        if (stopping && waiting.empty() && unused.size() == blocks.size())
          return;
        Block block;
        while (!unused.empty() && nextBlock(block)) {
          uint32_t index = unused.back();
          unused.pop_back();
          blocks[index] = block;
          issue(index);
        }
      }
      int error = io_uring_submit_and_wait(&ring, 1);
      if (error < 0 && error != -EINTR && error != -EAGAIN && error != -EBUSY)
        return failAll(-error);
      io_uring_cqe *entry = nullptr;
      while (io_uring_peek_cqe(&ring, &entry) == 0) {
        uint64_t tag = entry->user_data;
        int64_t result = entry->res;
        io_uring_cqe_seen(&ring, entry);
        if (tag == wakeTag) {
          listening = false;
          continue;
        }
        auto index = static_cast<uint32_t>(tag);
        if (advance(blocks[index], result)) {
          issue(index);
          continue;
        }
        Block done = blocks[index];
        unused.push_back(index);
        finish(done);
      }
    }
  }

  /// The ring itself is broken: nothing can be waited for, neither what is
  /// under way nor the eventfd, which the ring may still read.
  void failAll(int error) {
    std::vector<bool> underWay(blocks.size(), true);
    for (uint32_t index : unused)
      underWay[index] = false;
    for (size_t i = 0; i < blocks.size(); ++i)
      if (underWay[i])
        fail(blocks[i], error);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || !waiting.empty(); });
      Block block;
      if (!nextBlock(block))
        return;
      lock.unlock();
      fail(block, error);
      lock.lock();
    }
  }

  void fail(Block block, int error) {
    advance(block, -error);
    finish(block);
  }

  static constexpr uint64_t wakeTag = ~uint64_t(0);

  io_uring ring{};
  bool hasRing = false;
  int event = -1;
  uint64_t woken = 0;
  bool listening = false;
  bool stopping = false;
  std::condition_variable changed;
  std::vector<Block> blocks;    ///< Under way, by index.
  std::vector<uint32_t> unused; ///< Indices.
  std::thread thread;
};

} // namespace

Result<std::unique_ptr<DiskQueue>> makeUringQueue(const DiskOptions &options) {
  auto queue = std::make_unique<UringQueue>(options);
  CIUIC_TRY(queue->open());
  return std::unique_ptr<DiskQueue>(std::move(queue));
}

} // namespace ciuic::rt

#else

namespace ciuic::rt {

Result<std::unique_ptr<DiskQueue>> makeUringQueue(const DiskOptions &options) {
  return Status::machine("built without liburing");
}

} // namespace ciuic::rt

#endif
