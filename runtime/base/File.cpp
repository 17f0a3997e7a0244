//===- File.cpp - Files: mapped, written safely, replaced whole -----------===//
#include "runtime/base/File.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ciuic::rt {
namespace {

/// The status for `error`, an errno, where something is read: a path that
/// cannot be used is the job's fault, everything else the machine's.
Status systemError(const std::string &path, const char *action, int error) {
  std::string message =
      fmt::format("{}: cannot {}: {}", path, action, std::strerror(error));
  switch (error) {
  case ENOENT:
  case EACCES:
  case EPERM:
  case ENOTDIR:
  case EISDIR:
  case EEXIST:
  case EROFS:
  case ELOOP:
  case ENAMETOOLONG:
    return Status::invalid(std::move(message));
  default:
    return Status::machine(std::move(message));
  }
}

/// The status where something cannot be written: the machine's fault.
Status outputError(const std::string &path, const char *action, int error) {
  return Status::machine(
      fmt::format("{}: cannot {}: {}", path, action, std::strerror(error)));
}

/// Closes a descriptor on every way out.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0)
      ::close(value);
  }
};

/// Opens a regular file; tells its size. Never waits for a pipe's writer.
Result<int> openRegular(const std::string &path, uint64_t &size) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return systemError(path, "open", errno);
  Descriptor guard{descriptor};
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return systemError(path, "examine", errno);
  if (S_ISDIR(info.st_mode))
    return Status::invalid(
        fmt::format("{}: is a folder, expected a file", path));
  if (!S_ISREG(info.st_mode))
    return Status::invalid(fmt::format("{}: is not a regular file", path));
  size = static_cast<uint64_t>(info.st_size);
  guard.value = -1;
  return descriptor;
}

} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<MappedFile> MappedFile::open(const std::string &path) {
  uint64_t size = 0;
  CIUIC_TRY_ASSIGN(int descriptor, openRegular(path, size));
  Descriptor guard{descriptor};
  MappedFile file;
  if (size == 0)
    return file;
  void *data =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, /*offset=*/0);
  if (data == MAP_FAILED)
    return systemError(path, "map", errno);
  file.data = data;
  file.size = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data)
    ::munmap(data, size);
}

Result<std::string> readTextFile(const std::string &path, uint64_t limit) {
  uint64_t size = 0;
  CIUIC_TRY_ASSIGN(int descriptor, openRegular(path, size));
  Descriptor guard{descriptor};
  if (size > limit)
    return Status::invalid(fmt::format(
        "{}: has {} bytes, more than the {} allowed here", path, size, limit));
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::read(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return systemError(path, "read", errno);
    if (n == 0) // It shrank: take what is there.
      break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Result<AtomicFile> AtomicFile::create(const std::string &path) {
  // Names are tried until one is free: an earlier process of the same id may
  // have been killed and left its file.
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary =
        fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter++);
    int descriptor = ::open(temporary.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST)
      continue;
    if (descriptor < 0)
      return outputError(path, "write", errno);
    AtomicFile file;
    file.path = path;
    file.temporary = std::move(temporary);
    file.descriptor = descriptor;
    return file;
  }
  return outputError(path, "write", EEXIST);
}

AtomicFile::~AtomicFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Status AtomicFile::resize(uint64_t size) {
  if (size > static_cast<uint64_t>(INT64_MAX))
    return outputError(path, "write", EFBIG);
  auto length = static_cast<off_t>(size);
  if (length > 0 && ::fallocate(descriptor, 0, 0, length) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
    return outputError(path, "write", errno);
  if (::ftruncate(descriptor, length) != 0)
    return outputError(path, "write", errno);
  return {};
}

Status AtomicFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(descriptor, bytes.data(), bytes.size(),
                         static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return outputError(path, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(descriptor) != 0)
    return outputError(path, "flush", errno);
  int closing = std::exchange(descriptor, -1);
  if (::close(closing) != 0)
    return outputError(path, "write", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return outputError(path, "write", errno);
  temporary.clear();
  return syncFolder(parentFolder(path));
}

Status writeTextFile(const std::string &path, std::string_view text) {
  CIUIC_TRY_ASSIGN(AtomicFile file, AtomicFile::create(path));
  CIUIC_TRY(file.write(0, std::as_bytes(std::span(text))));
  return file.commit();
}

/// Writes into the device or pipe at `path`. A pipe that nobody reads is an
/// error, not a wait.
static Status writeInto(const std::string &path, std::string_view text) {
  Descriptor guard{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)};
  int flags = guard.value < 0 ? -1 : ::fcntl(guard.value, F_GETFL);
  if (flags < 0 || ::fcntl(guard.value, F_SETFL, flags & ~O_NONBLOCK) != 0)
    return outputError(path, "write", errno);
  while (!text.empty()) {
    ssize_t n = ::write(guard.value, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return outputError(path, "write", errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status writeOutputFile(const std::string &path, std::string_view text) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode))
    return writeTextFile(path, text);
  if (!S_ISREG(info.st_mode))
    return writeInto(path, text);
  std::error_code error;
  std::string file = std::filesystem::canonical(path, error).string();
  return writeTextFile(error ? path : file, text);
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

Status makeFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return outputError(path, "make the folder", error.value());
  return {};
}

Status syncFolder(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return outputError(path, "open", errno);
  Descriptor guard{descriptor};
  // Some network file systems cannot flush a folder; they say EINVAL.
  if (::fsync(descriptor) != 0 && errno != EINVAL)
    return outputError(path, "flush", errno);
  return {};
}

Status removeFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error)
    return outputError(path, "remove", error.value());
  return {};
}

Status replaceFolder(const std::string &from, const std::string &to) {
  struct stat info;
  if (::lstat(to.c_str(), &info) != 0) {
    if (errno != ENOENT)
      return outputError(to, "examine", errno);
    if (::rename(from.c_str(), to.c_str()) != 0)
      return outputError(to, "write", errno);
    return syncFolder(parentFolder(to));
  }
  if (!S_ISDIR(info.st_mode))
    return Status::invalid(fmt::format("{}: exists and is not a folder", to));
  std::string old = from;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS)
      return outputError(to, "replace", errno);
    // No exchange here: two renames, undone if the second fails.
    old = from + ".old";
    CIUIC_TRY(removeFolder(old));
    if (::rename(to.c_str(), old.c_str()) != 0)
      return outputError(to, "replace", errno);
    if (::rename(from.c_str(), to.c_str()) != 0) {
      int error = errno;
      if (::rename(old.c_str(), to.c_str()) != 0)
        return outputError(to, "put back, it is now in .old", errno);
      return outputError(to, "replace", error);
    }
  }
  CIUIC_TRY(syncFolder(parentFolder(to)));
  return removeFolder(old);
}

Result<FolderLock> FolderLock::take(const std::string &path) {
  FolderLock lock;
  lock.descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock.descriptor < 0)
    return outputError(path, "open", errno);
  if (::flock(lock.descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Status::invalid(
        fmt::format("{}: is in use by another run, give another folder", path));
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Status checkWritable(const std::string &path) {
  // As many steps up as the path has components, at most.
  for (std::string above = parentFolder(path);;) {
    struct stat info;
    if (::stat(above.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode))
        return outputError(above, "make a folder in it", ENOTDIR);
      if (::access(above.c_str(), W_OK | X_OK) != 0)
        return outputError(above, "write in it", errno);
      return {};
    }
    if (errno != ENOENT && errno != ENOTDIR)
      return outputError(above, "examine", errno);
    std::string next = parentFolder(above);
    if (next == above)
      return outputError(above, "examine", ENOENT);
    above = std::move(next);
  }
}

std::string parentFolder(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool isPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

} // namespace ciuic::rt
