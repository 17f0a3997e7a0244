//===- File.h - Files: mapped, written safely, replaced whole ---*- C++ -*-===//
//
// What weights, data and checkpoints need from the file system. Every error
// names the path and the system's reason.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_BASE_FILE_H
#define CIUIC_RUNTIME_BASE_FILE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ciuic::rt {

/// A regular file mapped for reading; an empty file maps to no bytes. The
/// file must not shrink while it is mapped.
class MappedFile {
public:
  /// Code::Invalid if the path is missing, unreadable or no regular file.
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(data, other.data);
    std::swap(size, other.size);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte *>(data), size};
  }

private:
  MappedFile() = default;

  void *data = nullptr;
  size_t size = 0;
};

/// The text of a regular file of at most `limit` bytes.
Result<std::string> readTextFile(const std::string &path, uint64_t limit);

/// A file being written under a temporary name beside its path. Until
/// commit() the path itself is untouched; without commit() the temporary file
/// is removed.
class AtomicFile {
public:
  static Result<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept { *this = std::move(other); }
  AtomicFile &operator=(AtomicFile &&other) noexcept {
    std::swap(path, other.path);
    std::swap(temporary, other.temporary);
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~AtomicFile();

  /// Grows or cuts the file to `size` bytes; reserves the space where the
  /// file system can, so that a full disk is noticed here.
  Status resize(uint64_t size);

  /// Writes all of `bytes` at `offset`. Calls for disjoint ranges may run at
  /// the same time.
  Status write(uint64_t offset, std::span<const std::byte> bytes);

  /// Flushes to the disk and renames to the path.
  Status commit();

private:
  AtomicFile() = default;

  std::string path;
  std::string temporary;
  int descriptor = -1;
};

/// Replaces the file at `path` by `text`, or leaves it as it was.
Status writeTextFile(const std::string &path, std::string_view text);

/// The same for a path that a user named: a device or a pipe there is written
/// into, and of a link the file it leads to is replaced.
Status writeOutputFile(const std::string &path, std::string_view text);

/// Makes the folder, and those above it.
Status makeFolder(const std::string &path);

/// Flushes a folder's entries (new names, renames) to the disk.
Status syncFolder(const std::string &path);

/// Removes a folder with all that is in it, following no link; a missing one
/// is fine.
Status removeFolder(const std::string &path);

/// Puts folder `from` in the place of folder `to`, which may exist; what was
/// there is gone afterwards. At no time is there no folder at `to`, where the
/// file system can exchange two names.
Status replaceFolder(const std::string &from, const std::string &to);

/// Keeps other processes that ask for the same lock out of a folder. It goes
/// with the process, however that ends, and leaves no file.
class FolderLock {
public:
  /// Code::Invalid if another one holds it. File systems that cannot lock a
  /// folder give a lock that keeps nobody out.
  static Result<FolderLock> take(const std::string &path);

  FolderLock(FolderLock &&other) noexcept { *this = std::move(other); }
  FolderLock &operator=(FolderLock &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~FolderLock();

private:
  FolderLock() = default;

  int descriptor = -1;
};

/// Whether something can be made at `path`, whose parents may be missing,
/// without making anything: asks the nearest folder that is there. A full disk
/// is not noticed.
Status checkWritable(const std::string &path);

/// The folder that holds `path` ("." for a bare name).
std::string parentFolder(const std::string &path);

/// Whether `name` is one component that stays inside its folder: not empty,
/// no '/', no NUL, not "." or "..".
bool isPlainFileName(std::string_view name);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_FILE_H
