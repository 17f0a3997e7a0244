//===- MeasureLinks.cpp - Disk and network of the machine at hand ---------===//
#include "frontend/machine/MeasureLinks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace ciuic;

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t block = 8 << 20;
constexpr size_t mostBytes = 128 << 20;
/// Of writing, and of reading: slower disks move less.
constexpr std::chrono::duration<double> mostTime{0.2};

struct Descriptor {
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  int number = -1;
};

/// Seconds for up to `bytes`, which becomes what was moved; none on errors.
template <typename Move>
std::optional<double> timeBlocks(size_t &bytes, const Move &move) {
  auto start = Clock::now();
  size_t done = 0;
  while (done < bytes && (done == 0 || Clock::now() - start < mostTime)) {
    if (move(static_cast<off_t>(done)) != static_cast<ssize_t>(block))
      return std::nullopt;
    done += block;
  }
  bytes = done;
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(),
                  1e-6);
}

} // namespace

std::optional<double> machine::measureDisk(const std::string &folder) {
  auto space = freeSpace(folder);
  if (!space || *space < int64_t{4} * static_cast<int64_t>(mostBytes))
    return std::nullopt; // It is not ours to fill.
  std::string path =
      folder + "/.ciuicc-measure-" + std::to_string(getpid()) + "-XXXXXX";
  Descriptor named{mkostemp(path.data(), O_CLOEXEC)};
  if (named.number < 0)
    return std::nullopt;
  Descriptor direct{open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC)};
  unlink(path.c_str());
  std::unique_ptr<void, void (*)(void *)> memory(
      std::aligned_alloc(4096, block), std::free);
  if (direct.number < 0 || !memory)
    return std::nullopt;
  // No two blocks alike: a disk may keep one of equal ones.
  std::memset(memory.get(), 0, block);
  uint64_t stamp = 0x9e3779b97f4a7c15u;
  auto *words = static_cast<uint64_t *>(memory.get());
  size_t written = mostBytes;
  auto writing = timeBlocks(written, [&](off_t at) {
    for (size_t i = 0; i < block / sizeof(uint64_t); i += 64)
      words[i] = stamp *= 0xd1342543de82ef95u;
    return pwrite(direct.number, memory.get(), block, at);
  });
  if (!writing || fdatasync(direct.number) != 0)
    return std::nullopt;
  size_t read = written;
  auto reading = timeBlocks(read, [&](off_t at) {
    return pread(direct.number, memory.get(), block, at);
  });
  if (!reading)
    return std::nullopt;
  // The rate of a byte that is written and then read.
  double a = static_cast<double>(written) / *writing,
         b = static_cast<double>(read) / *reading;
  return 2 * a * b / (a + b);
}

std::string machine::existingFolder(const std::string &folder) {
  std::filesystem::path path = folder;
  std::error_code error;
  while (!std::filesystem::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path.empty() ? "." : path.string();
}

std::optional<int64_t> machine::freeSpace(const std::string &folder) {
  struct statvfs info{};
  if (statvfs(folder.c_str(), &info) != 0)
    return std::nullopt;
  __int128 bytes = static_cast<__int128>(info.f_bavail) * info.f_frsize;
  constexpr int64_t most = int64_t(1) << 60;
  return bytes > most ? most : static_cast<int64_t>(bytes);
}

std::optional<double> machine::networkRate(const std::string &root) {
  constexpr int64_t mostMegabits = 100'000'000;
  std::error_code error;
  std::filesystem::directory_iterator devices(root + "/sys/class/net", error);
  double best = 0;
  for (; !error && devices != std::filesystem::directory_iterator();
       devices.increment(error)) {
    std::string state;
    std::ifstream(devices->path() / "operstate") >> state;
    if (state != "up")
      continue;
    // Reading fails, or gives -1, where there is no such thing as a speed.
    int64_t megabits = 0;
    std::ifstream(devices->path() / "speed") >> megabits;
    if (megabits > 0 && megabits <= mostMegabits)
      best = std::max(best, static_cast<double>(megabits) * 1e6 / 8);
  }
  return best > 0 ? std::optional(best) : std::nullopt;
}
