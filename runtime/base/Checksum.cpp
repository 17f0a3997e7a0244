//===- Checksum.cpp - Has a file changed? ---------------------------------===//
#include "runtime/base/Checksum.h"

#include "runtime/base/StagedBytes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ciuic::rt {

Result<FileChecksum> checksumOf(const std::string &path) {
  auto fail = [&](int error) {
    return Status::machine(
        fmt::format("{}: cannot read: {}", path, std::strerror(error)));
  };
  struct Descriptor {
    int number;
    ~Descriptor() {
      if (number >= 0)
        close(number);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0)
    return fail(errno);
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(
      XXH3_createState(), XXH3_freeState);
  std::vector<char> buffer(size_t(1) << 20);
  StagedBytes counted(buffer.size());
  if (!state)
    return fail(ENOMEM);
  XXH3_64bits_reset(state.get());
  FileChecksum checksum;
  for (;;) {
    ssize_t n = read(file.number, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fail(errno);
    if (n == 0)
      break;
    XXH3_64bits_update(state.get(), buffer.data(), static_cast<size_t>(n));
    checksum.bytes += static_cast<uint64_t>(n);
  }
  checksum.xxh3 = fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
  return checksum;
}

} // namespace ciuic::rt
