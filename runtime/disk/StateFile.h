//===- StateFile.h - An arena that is a file --------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_DISK_STATEFILE_H
#define CIUIC_RUNTIME_DISK_STATEFILE_H

#include "runtime/base/RankRange.h"
#include "runtime/base/Status.h"
#include "runtime/disk/StateFolder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ciuic::rt {

/// Bytes without a name in a folder: the file is removed from it as soon as it
/// is open, so that nothing is left however the process ends. All of its space
/// is taken at the start.
class StateFile {
public:
  /// What direct transfers have as multiples: memory, offsets and sizes.
  static constexpr uint64_t block = 4096;

  /// `what` it holds, for messages. Code::Invalid if `folder` is no folder that
  /// can be written, Code::Machine if it has no room.
  static Result<StateFile> create(const std::string &folder, uint64_t bytes,
                                  const std::string &what);
  /// Around a descriptor, which it closes; for tests.
  static StateFile adopt(int descriptor, uint64_t bytes, std::string what);

  StateFile(StateFile &&other) noexcept { *this = std::move(other); }
  StateFile &operator=(StateFile &&other) noexcept {
    std::swap(buffered, other.buffered);
    std::swap(direct, other.direct);
    std::swap(size, other.size);
    std::swap(label, other.label);
    return *this;
  }
  ~StateFile();

  uint64_t bytes() const { return size; }
  /// "the optimizer states of rank 0 in /nvme".
  const std::string &what() const { return label; }
  /// Whether transfers pass by the system's cache.
  bool isDirect() const { return direct >= 0; }

  /// The descriptor for a transfer.
  int descriptor(const void *memory, uint64_t offset, uint64_t bytes) const {
    bool aligned =
        (reinterpret_cast<uintptr_t>(memory) | offset | bytes) % block == 0;
    return direct >= 0 && aligned ? direct : buffered;
  }

  /// At any offset, and at once.
  Status read(uint64_t offset, uint64_t bytes, void *to) const;
  Status write(uint64_t offset, uint64_t bytes, const void *from) const;

  /// "reading 4096 bytes at 0 of ...: No space left on device".
  Status failure(bool write, uint64_t offset, uint64_t bytes, int error) const;
  Status endsEarly(bool write, uint64_t offset) const;

private:
  StateFile() = default;

  int buffered = -1, direct = -1;
  uint64_t size = 0;
  std::string label;
};

/// A file for each of consecutive ranks; none if they hold no bytes.
class StateFiles {
public:
  /// Makes `folder` if it is missing, and removes it in the end. Code::Invalid
  /// if there is something to hold and `folder` is "" or cannot be made.
  static Result<StateFiles> allocate(const std::string &folder, RankRange ranks,
                                     uint64_t bytesOfRank);

  const StateFile &of(uint32_t rank) const { return files[rank - held.first]; }

private:
  RankRange held;
  StateFolder folder;
  std::vector<StateFile> files;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DISK_STATEFILE_H
