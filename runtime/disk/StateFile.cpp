//===- StateFile.cpp - An arena that is a file ----------------------------===//
#include "runtime/disk/StateFile.h"

#include "runtime/base/Quote.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

constexpr uint64_t mostBytes = uint64_t(1) << 46;

std::string reason(int error) { return std::strerror(error); }

/// Bytes that a folder's file system has for this user; 0: it does not say.
uint64_t freeBytes(const std::string &folder) {
  struct statvfs info{};
  if (statvfs(folder.c_str(), &info) != 0)
    return 0;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

/// Whether a block can be read past the system's cache.
bool readsDirectly(int descriptor) {
  void *memory = nullptr;
  if (posix_memalign(&memory, StateFile::block, StateFile::block) != 0)
    return false;
  ssize_t got = pread(descriptor, memory, StateFile::block, 0);
  std::free(memory);
  return got == static_cast<ssize_t>(StateFile::block);
}

} // namespace

Result<StateFile> StateFile::create(const std::string &folder, uint64_t bytes,
                                    const std::string &what) {
  StateFile file;
  file.label = what + " in " + folder;
  file.size = bytes;
  if (bytes > mostBytes)
    return Status::machine("cannot keep " + std::to_string(bytes) +
                           " bytes for " + file.label);
  // The name lasts until the next lines; a crash in between may have left one.
  std::string path;
  for (int attempt = 0; attempt < 1000 && file.buffered < 0; ++attempt) {
    path = folder + "/.ciuicc-" + std::to_string(getpid()) + "-" +
           std::to_string(attempt);
    file.buffered =
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file.buffered < 0 && errno != EEXIST && errno != EINTR)
      break;
  }
  if (file.buffered < 0) {
    int error = errno;
    std::string message =
        "cannot make a file for " + file.label + ": " + reason(error);
    bool user = error == ENOENT || error == ENOTDIR || error == EACCES ||
                error == EPERM || error == EROFS;
    return user ? Status::invalid(message) : Status::machine(message);
  }
  file.direct = open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  if (unlink(path.c_str()) != 0)
    return Status::machine("cannot remove the name " + quote(path) + ": " +
                           reason(errno));
  int failed = 0;
  do
    failed = fallocate(file.buffered, 0, 0, static_cast<off_t>(bytes)) == 0
                 ? 0
                 : errno;
  while (failed == EINTR);
  // Not every file system can reserve; then what is free now has to do.
  if (failed == EOPNOTSUPP)
    failed = freeBytes(folder) < bytes                                  ? ENOSPC
             : ftruncate(file.buffered, static_cast<off_t>(bytes)) == 0 ? 0
                                                                        : errno;
  if (failed != 0)
    return Status::machine("cannot reserve " + std::to_string(bytes) +
                           " bytes for " + file.label + ", which has " +
                           std::to_string(freeBytes(folder)) +
                           " free: " + reason(failed));
  if (file.direct >= 0 && bytes >= block && !readsDirectly(file.direct)) {
    close(file.direct);
    file.direct = -1;
  }
  return file;
}

StateFile StateFile::adopt(int descriptor, uint64_t bytes, std::string what) {
  StateFile file;
  file.buffered = descriptor;
  file.size = bytes;
  file.label = std::move(what);
  return file;
}

StateFile::~StateFile() {
  for (int descriptor : {buffered, direct})
    if (descriptor >= 0)
      close(descriptor);
}

Status StateFile::failure(bool write, uint64_t offset, uint64_t bytes,
                          int error) const {
  return Status::machine(std::string(write ? "writing " : "reading ") +
                         std::to_string(bytes) + " bytes at " +
                         std::to_string(offset) + " of " + label + ": " +
                         reason(error));
}

Status StateFile::endsEarly(bool write, uint64_t offset) const {
  return Status::machine(label + (write ? " take" : " have") +
                         " no bytes from " + std::to_string(offset) +
                         " on, expected " + std::to_string(size));
}

Status StateFile::read(uint64_t offset, uint64_t bytes, void *to) const {
  auto *at = static_cast<std::byte *>(to);
  while (bytes > 0) {
    ssize_t got = pread(buffered, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return failure(false, offset, bytes, errno);
    if (got == 0)
      return endsEarly(false, offset);
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return {};
}

Status StateFile::write(uint64_t offset, uint64_t bytes,
                        const void *from) const {
  auto *at = static_cast<const std::byte *>(from);
  while (bytes > 0) {
    ssize_t put = pwrite(buffered, at, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return failure(true, offset, bytes, errno);
    if (put == 0)
      return endsEarly(true, offset);
    at += put;
    offset += static_cast<uint64_t>(put);
    bytes -= static_cast<uint64_t>(put);
  }
  return {};
}

Result<StateFiles> StateFiles::allocate(const std::string &folder,
                                        RankRange ranks, uint64_t bytesOfRank) {
  StateFiles made;
  made.held = ranks;
  if (bytesOfRank == 0)
    return made;
  if (folder.empty())
    return Status::invalid("the job keeps optimizer states in files, and no "
                           "folder for them is given: --nvme-path, or "
                           "nvme_path in the DeepSpeed file");
  CIUIC_TRY_ASSIGN(made.folder, StateFolder::make(folder));
  uint64_t free = freeBytes(folder);
  if (bytesOfRank > mostBytes ||
      (free != 0 && bytesOfRank > free / std::max(ranks.count, 1u)))
    return Status::machine("the optimizer states of " +
                           std::to_string(ranks.count) +
                           (ranks.count == 1 ? " rank take " : " ranks take ") +
                           std::to_string(bytesOfRank) + " bytes" +
                           (ranks.count == 1 ? "" : " each") + ", " + folder +
                           " has " + std::to_string(free) + " free");
  for (uint32_t rank = ranks.first; rank < ranks.end(); ++rank) {
    CIUIC_TRY_ASSIGN(StateFile file,
                     StateFile::create(folder, bytesOfRank,
                                       "the optimizer states of rank " +
                                           std::to_string(rank)));
    made.files.push_back(std::move(file));
  }
  return made;
}

} // namespace ciuic::rt
