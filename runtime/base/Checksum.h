//===- Checksum.h - Has a file changed? -------------------------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_CHECKSUM_H
#define CIUIC_RUNTIME_BASE_CHECKSUM_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace ciuic::rt {

/// The size and the XXH3 checksum (64 bits, as 16 hexadecimal digits) of all
/// bytes of a file. Against accidents, not against malice.
struct FileChecksum {
  uint64_t bytes = 0;
  std::string xxh3;
  bool operator==(const FileChecksum &) const = default;
};

Result<FileChecksum> checksumOf(const std::string &path);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_CHECKSUM_H
