//===- DiskCopy.cpp - Copies between files and host memory ----------------===//
#include "runtime/task/DiskCopy.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Quote.h"

#include <cstdio>

namespace ciuic::rt {

Result<DiskMemory> DiskMemory::create(const abi::Bundle &bundle,
                                      RankRange ranks, const DiskFlags &flags) {
  DiskMemory memory;
  memory.bundle = &bundle;
  uint64_t bytes = bundle.arenaBytes[static_cast<int>(abi::Arena::Nvme)];
  if (bytes == 0) {
    if (!flags.folder.empty())
      return Status::invalid("--nvme-path " + flags.folder +
                             " is of no use: the job was compiled to keep "
                             "nothing in files");
    return memory;
  }
  DiskOptions options;
  if (flags.by == "io_uring")
    options.by = DiskOptions::By::Uring;
  else if (flags.by == "threads")
    options.by = DiskOptions::By::Threads;
  else if (flags.by != "auto")
    return Status::invalid("--disk-io is " + quote(flags.by) +
                           ", expected auto, io_uring or threads");
  if (bundle.disk.blockBytes != 0)
    options.blockBytes = bundle.disk.blockBytes;
  if (bundle.disk.depth != 0)
    options.depth = bundle.disk.depth;
  CIUIC_TRY_ASSIGN(memory.files, StateFiles::allocate(flags.folder.empty()
                                                          ? bundle.disk.folder
                                                          : flags.folder,
                                                      ranks, bytes));
  CIUIC_TRY_ASSIGN(memory.queue, DiskQueue::create(options));
  if (options.by == DiskOptions::By::Any && memory.queue->how() != "io_uring" &&
      ranks.first == 0)
    std::fprintf(stderr, "note: optimizer states in files are moved by %s\n",
                 memory.queue->how().c_str());
  return memory;
}

uint64_t DiskMemory::offsetOf(const abi::View &view, uint32_t rank) const {
  return bundle->buffers[view.buffer].offset + view.offset +
         static_cast<uint64_t>(static_cast<int64_t>(rank) * view.rankStride);
}

Status DiskMemory::read(const abi::View &view, uint32_t rank, uint64_t first,
                        uint64_t count, void *to) const {
  if (!isUsed())
    return Status::invalid("reads from a file, and the job has none");
  uint64_t width = byteSize(view.dtype);
  return files.of(rank).read(offsetOf(view, rank) + first * width,
                             count * width, to);
}

Status DiskMemory::write(const abi::View &view, uint32_t rank, uint64_t first,
                         uint64_t count, const void *from) const {
  if (!isUsed())
    return Status::invalid("writes to a file, and the job has none");
  uint64_t width = byteSize(view.dtype);
  return files.of(rank).write(offsetOf(view, rank) + first * width,
                              count * width, from);
}

const abi::View &DiskMemory::memoryOf(const abi::Program &program,
                                      const abi::Task &task) const {
  const abi::View &first = program.views[task.views.begin];
  return holds(first) ? program.views[task.views.begin + 1] : first;
}

Status DiskMemory::prepare(const abi::Program &program, const abi::Task &task,
                           uint32_t rank, void *memory,
                           DiskTransfer &transfer) const {
  if (!isUsed())
    return Status::invalid("copies from or to a file, and the job has none");
  const abi::View &first = program.views[task.views.begin];
  bool write = !holds(first);
  const abi::View &inFile = write ? program.views[task.views.begin + 1] : first;
  transfer.file = &files.of(rank);
  transfer.write = write;
  transfer.offset = offsetOf(inFile, rank);
  transfer.bytes =
      static_cast<uint64_t>(inFile.shape[1]) * byteSize(inFile.dtype);
  transfer.memory = static_cast<std::byte *>(memory);
  return {};
}

} // namespace ciuic::rt
