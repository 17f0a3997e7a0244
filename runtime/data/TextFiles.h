//===- TextFiles.h - Text as byte-level tokens ------------------*- C++ -*-===//
//
// The built-in vocabulary: one token a byte, and three more. A file is one
// document; documents follow each other in one stream of tokens:
//   begin bytes... end begin bytes... end
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DATA_TEXTFILES_H
#define CIUIC_RUNTIME_DATA_TEXTFILES_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ciuic::rt {

/// The byte-level vocabulary: tokens 0 to 255 are the bytes.
struct ByteVocabulary {
  static constexpr int32_t begin = 256;
  static constexpr int32_t end = 257;
  static constexpr int32_t pad = 258;
  static constexpr int64_t size = 259;
};

/// What was found below the given paths.
struct FileCounts {
  uint64_t files = 0;      ///< Used.
  uint64_t bytes = 0;      ///< In the used files.
  uint64_t empty = 0;      ///< Passed over: no bytes.
  uint64_t notText = 0;    ///< Passed over: not UTF-8, or with NUL bytes.
  uint64_t unreadable = 0; ///< Passed over: could not be opened or listed.
  uint64_t links = 0;      ///< Passed over: symbolic links inside folders.
  uint64_t special = 0;    ///< Passed over: sockets, devices, pipes.

  uint64_t passedOver() const {
    return empty + notText + unreadable + links + special;
  }
  /// "passed over 3 files: 2 not UTF-8 text, 1 unreadable"; empty if none.
  std::string warning() const;
};

/// The regular files below `path`, which is a file or a folder (searched to
/// the bottom; names that begin with '.' are left out, links inside it are
/// not followed), sorted by path bytes. Code::Invalid if `path` is missing.
Result<std::vector<std::string>> listFiles(const std::string &path,
                                           FileCounts &counts);

/// The offset of the first byte that is not UTF-8 text (NUL included), or
/// npos.
size_t findNonText(std::string_view text);

/// Appends `begin bytes... end` to `tokens`.
void appendDocument(std::string_view text, std::vector<uint16_t> &tokens);

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DATA_TEXTFILES_H
