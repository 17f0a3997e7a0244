//===- StateFolder.h - Where state files are, made if missing ---*- C++ -*-===//
#ifndef CIUIC_RUNTIME_DISK_STATEFOLDER_H
#define CIUIC_RUNTIME_DISK_STATEFOLDER_H

#include "runtime/base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace ciuic::rt {

/// The folders that had to be made for a path. They go with this object, those
/// that are empty then; a process that is killed leaves them.
class StateFolder {
public:
  /// Nothing to make, and nothing to remove.
  StateFolder() = default;
  /// Makes `path` and what is missing above it. Code::Invalid with the folder
  /// that is in the way or cannot be made, and nothing is left then.
  static Result<StateFolder> make(const std::string &path);

  StateFolder(StateFolder &&other) noexcept { *this = std::move(other); }
  StateFolder &operator=(StateFolder &&other) noexcept {
    std::swap(made, other.made);
    return *this;
  }
  ~StateFolder();

private:
  std::vector<std::string> made; ///< Each holds the next.
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DISK_STATEFOLDER_H
