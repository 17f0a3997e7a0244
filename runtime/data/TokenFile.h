//===- TokenFile.h - Memory-mapped token files ------------------*- C++ -*-===//
//
// The format, all numbers little-endian (tools/tokenize_dataset.py writes it):
//
//   offset  bytes  what
//        0      8  magic "CIUICTOK"
//        8      4  version, 1
//       12      4  bytes a token: 2 (uint16) or 4 (uint32)
//       16      8  vocabulary size: every token is below it
//       24      8  number of tokens
//       32     32  zero
//       64         the tokens, to the end of the file
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_RUNTIME_DATA_TOKENFILE_H
#define CIUIC_RUNTIME_DATA_TOKENFILE_H

#include "runtime/base/File.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace ciuic::rt {

/// An open token file. Reading is const and safe from many threads.
class TokenFile {
public:
  /// Whether these are the first bytes of a token file.
  static bool hasMagic(std::span<const std::byte> bytes);

  /// Code::Invalid unless the header is as above and the file exactly as long
  /// as it says.
  static Result<TokenFile> open(const std::string &path);

  const std::string &path() const { return filePath; }
  uint64_t tokenCount() const { return count; }
  uint64_t vocabularySize() const { return vocabulary; }

  /// Tokens [begin, begin + n), n > 0. Code::Invalid, with the file and the
  /// position, for a token that is not below `limit`.
  Status read(uint64_t begin, uint64_t n, uint64_t limit, int32_t *out) const;

  /// Checks all tokens against `limit`, as read() does.
  Status checkAll(uint64_t limit) const;

private:
  explicit TokenFile(MappedFile file) : file(std::move(file)) {}

  template <typename Token>
  Status readAs(uint64_t begin, uint64_t n, uint64_t limit, int32_t *out) const;

  MappedFile file;
  std::string filePath;
  uint32_t tokenBytes = 2;
  uint64_t vocabulary = 0;
  uint64_t count = 0;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DATA_TOKENFILE_H
