//===- TokenFile.cpp - Memory-mapped token files --------------------------===//
#include "runtime/data/TokenFile.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>

namespace ciuic::rt {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and are mapped as they are");

constexpr char magic[8] = {'C', 'I', 'U', 'I', 'C', 'T', 'O', 'K'};

/// The first 64 bytes of a file; the offsets are in TokenFile.h.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t tokenBytes;
  uint64_t vocabulary;
  uint64_t count;
  uint8_t zero[32];
};
static_assert(sizeof(Header) == 64);

} // namespace

bool TokenFile::hasMagic(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(magic) &&
         std::memcmp(bytes.data(), magic, sizeof(magic)) == 0;
}

Result<TokenFile> TokenFile::open(const std::string &path) {
  CIUIC_TRY_ASSIGN(MappedFile mapped, MappedFile::open(path));
  std::span<const std::byte> bytes = mapped.bytes();
  auto fail = [&](std::string message) {
    return Status::invalid(fmt::format("{}: {}", path, message));
  };
  if (!hasMagic(bytes))
    return fail("is not a token file: it does not begin with \"CIUICTOK\"");
  if (bytes.size() < sizeof(Header))
    return fail(fmt::format("has {} bytes, its header alone needs {}",
                            bytes.size(), sizeof(Header)));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != 1)
    return fail(fmt::format("is of version {}, expected 1", header.version));
  if (header.tokenBytes != 2 && header.tokenBytes != 4)
    return fail(fmt::format("has tokens of {} bytes, expected 2 or 4",
                            header.tokenBytes));
  constexpr uint64_t maxVocabulary = std::numeric_limits<int32_t>::max();
  if (header.vocabulary == 0 || header.vocabulary > maxVocabulary)
    return fail(fmt::format("has a vocabulary of {}, expected 1 to {}",
                            header.vocabulary, maxVocabulary));
  for (uint8_t byte : header.zero)
    if (byte != 0)
      return fail("has a reserved header byte that is not zero");
  // Compared by division: the product may overflow.
  uint64_t dataBytes = bytes.size() - sizeof(Header);
  if (dataBytes % header.tokenBytes != 0 ||
      dataBytes / header.tokenBytes != header.count)
    return fail(fmt::format(
        "has {} bytes of tokens, its header tells of {} tokens of {} bytes",
        dataBytes, header.count, header.tokenBytes));

  TokenFile file(std::move(mapped));
  file.filePath = path;
  file.tokenBytes = header.tokenBytes;
  file.vocabulary = header.vocabulary;
  file.count = header.count;
  return file;
}

template <typename Token>
Status TokenFile::readAs(uint64_t begin, uint64_t n, uint64_t limit,
                         int32_t *out) const {
  const std::byte *data =
      file.bytes().data() + sizeof(Header) + begin * sizeof(Token);
  uint64_t highest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    Token token;
    std::memcpy(&token, data + i * sizeof(Token), sizeof(Token));
    highest = std::max<uint64_t>(highest, token);
    if (out)
      out[i] = static_cast<int32_t>(token);
  }
  if (highest < limit)
    return {};
  for (uint64_t i = 0;; ++i) { // Ends: one of them is not below the limit.
    Token token;
    std::memcpy(&token, data + i * sizeof(Token), sizeof(Token));
    if (token >= limit)
      return Status::invalid(
          fmt::format("{}: token {} at position {} is not below the "
                      "vocabulary size {}",
                      filePath, token, begin + i, limit));
  }
}

Status TokenFile::read(uint64_t begin, uint64_t n, uint64_t limit,
                       int32_t *out) const {
  if (begin > count || n > count - begin)
    return Status::invalid(fmt::format(
        "{}: has {} tokens, asked for {} from {}", filePath, count, n, begin));
  return tokenBytes == 2 ? readAs<uint16_t>(begin, n, limit, out)
                         : readAs<uint32_t>(begin, n, limit, out);
}

Status TokenFile::checkAll(uint64_t limit) const {
  return read(0, count, limit, nullptr);
}

} // namespace ciuic::rt
