//===- TextFiles.cpp - Text as byte-level tokens --------------------------===//
#include "runtime/data/TextFiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace ciuic::rt {

namespace fs = std::filesystem;

std::string FileCounts::warning() const {
  if (passedOver() == 0)
    return "";
  std::vector<std::string> parts;
  auto add = [&](uint64_t count, const char *what) {
    if (count > 0)
      parts.push_back(fmt::format("{} {}", count, what));
  };
  add(notText, "not UTF-8 text");
  add(unreadable, "unreadable");
  add(empty, "empty");
  add(links, "symbolic links");
  add(special, "not regular files");
  return fmt::format("passed over {} file{}: {}", passedOver(),
                     passedOver() == 1 ? "" : "s", fmt::join(parts, ", "));
}

Result<std::vector<std::string>> listFiles(const std::string &path,
                                           FileCounts &counts) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return Status::invalid(fmt::format("{}: no such file or folder", path));
  if (error)
    return Status::invalid(
        fmt::format("{}: cannot open: {}", path, error.message()));
  if (status.type() != fs::file_type::directory)
    return std::vector<std::string>{path};

  // A stack rather than recursion: folders may be nested as deep as they like.
  std::vector<std::string> files;
  std::vector<fs::path> folders{path};
  while (!folders.empty()) {
    fs::path folder = std::move(folders.back());
    folders.pop_back();
    fs::directory_iterator it(folder, error), end;
    for (; !error && it != end; it.increment(error)) {
      if (it->path().filename().string().starts_with("."))
        continue;
      std::error_code entryError;
      switch (it->symlink_status(entryError).type()) {
      case fs::file_type::regular:
        files.push_back(it->path().string());
        break;
      case fs::file_type::directory:
        folders.push_back(it->path());
        break;
      case fs::file_type::symlink:
        ++counts.links;
        break;
      case fs::file_type::none:
        ++counts.unreadable;
        break;
      default:
        ++counts.special;
        break;
      }
    }
    if (error)
      ++counts.unreadable;
    error.clear();
  }
  // The file system's order is anybody's guess.
  std::sort(files.begin(), files.end());
  return files;
}

size_t findNonText(std::string_view text) {
  auto *data = reinterpret_cast<const unsigned char *>(text.data());
  size_t size = text.size();
  for (size_t i = 0; i < size;) {
    // Eight ASCII bytes at once: no high bit, and no byte equal to zero.
    if (uint64_t word; i + 8 <= size) {
      std::memcpy(&word, data + i, 8);
      constexpr uint64_t high = 0x8080808080808080u, ones = high >> 7;
      if (((word | (word - ones)) & high) == 0) {
        i += 8;
        continue;
      }
    }
    unsigned char lead = data[i];
    if (lead == 0)
      return i;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // The number of bytes that follow, and the least code point that needs
    // them: shorter code points written so long are not valid.
    int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || size - i <= static_cast<size_t>(more))
      return i;
    uint32_t point = lead & (0x3f >> more);
    for (int k = 1; k <= more; ++k) {
      if ((data[i + k] & 0xc0) != 0x80)
        return i;
      point = (point << 6) | (data[i + k] & 0x3f);
    }
    bool overlong =
        (more == 2 && point < 0x800) || (more == 3 && point < 0x10000);
    bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (overlong || surrogate || point > 0x10ffff)
      return i;
    i += static_cast<size_t>(more) + 1;
  }
  return std::string_view::npos;
}

void appendDocument(std::string_view text, std::vector<uint16_t> &tokens) {
  tokens.push_back(ByteVocabulary::begin);
  for (char c : text)
    tokens.push_back(static_cast<unsigned char>(c));
  tokens.push_back(ByteVocabulary::end);
}

} // namespace ciuic::rt
