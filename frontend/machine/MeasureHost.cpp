//===- MeasureHost.cpp - The machine at hand ------------------------------===//
#include "frontend/machine/BuiltIn.h"
#include "frontend/machine/FindGpus.h"
#include "frontend/machine/Machine.h"
#include "frontend/machine/MeasureLinks.h"
#include "runtime/base/File.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <sched.h>
#include <sstream>

using namespace ciuic;
using namespace ciuic::machine;

/// A file of /proc or /sys: it has no size to ask for.
static std::optional<std::string> readSystemFile(const std::string &path) {
  constexpr size_t most = 1 << 20;
  std::FILE *file = std::fopen(path.c_str(), "r");
  if (!file)
    return std::nullopt;
  std::string text(most, '\0');
  text.resize(std::fread(text.data(), 1, most, file));
  std::fclose(file);
  return text;
}

/// "MemTotal:  24576 kB" of /proc/meminfo, in bytes.
static std::optional<int64_t> memoryFact(const std::string &text,
                                         const std::string &key) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name, unit;
    int64_t value = 0;
    if (words >> name >> value >> unit && name == key + ":" && unit == "kB" &&
        value >= 0 && value < (int64_t(1) << 50))
      return value * 1024;
  }
  return std::nullopt;
}

/// The name of the processor, for people.
static std::string processorName(const std::string &root) {
  auto text = readSystemFile(root + "/proc/cpuinfo");
  std::istringstream lines(text.value_or(""));
  std::string line;
  while (std::getline(lines, line))
    if (line.starts_with("model name"))
      if (size_t at = line.find(": "); at != std::string::npos)
        return line.substr(at + 2);
  return "CPU";
}

/// Bytes a second that one core copies, read and written: the best of a few.
static double copyRate() {
  constexpr size_t bytes = 64 << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    from[i] = to[bytes - 1 - i]; // So that no copy can be left out.
    best = std::max(best, 2.0 * bytes / std::max(took.count(), 1e-9));
  }
  return best;
}

/// Makes GPUs the devices: as many as there are, with the memory of the
/// smallest. What CUDA needs is not measured: it is as for the machine that is
/// built in.
static void takeGpus(Machine &machine, const std::vector<Gpu> &gpus) {
  if (gpus.empty())
    return;
  machine.shared = false;
  std::erase_if(machine.reserve, [](const Reserve &entry) {
    return entry.where == Where::Process || entry.where == Where::Thread;
  });
  machine.devices = static_cast<int64_t>(gpus.size());
  machine.deviceKind = gpus.front().name;
  machine.deviceMemory = gpus.front().bytes;
  int64_t used = 0;
  for (const Gpu &gpu : gpus) {
    machine.deviceMemory = std::min(machine.deviceMemory, gpu.bytes);
    used = std::max(used, gpu.used);
  }
  std::vector<Reserve> reserve;
  if (used > 0)
    reserve.push_back({"in use", Where::Device, used,
                       "NVML's used memory, of the device with most"});
  if (auto known = parseMachine(monsterFile, "ciuic-monster"); known.ok())
    for (const Reserve &entry : known->reserve)
      if (entry.where == Where::Device)
        reserve.push_back(entry);
      else if (entry.where != Where::Host)
        machine.reserve.push_back(entry);
  // A device that others fill has nothing for a job; it is told as that.
  int64_t left = machine.deviceMemory - 1;
  for (Reserve &entry : reserve) {
    entry.bytes = std::min(entry.bytes, left);
    left -= entry.bytes;
    if (entry.bytes > 0)
      machine.reserve.push_back(entry);
  }
}

rt::Result<Machine> machine::measureHost(const std::string &root,
                                         const std::string &gpuLibrary,
                                         const std::string &diskFolder) {
  std::string path = root + "/proc/meminfo";
  auto text = readSystemFile(path);
  if (!text)
    return rt::Status::machine("cannot read " + path);
  auto total = memoryFact(*text, "MemTotal");
  auto available = memoryFact(*text, "MemAvailable");
  if (!total || !available || *total == 0)
    return rt::Status::machine(path + " says no MemTotal and MemAvailable");

  Machine machine;
  machine.name = "host";
  machine.shared = true;
  machine.deviceKind = "CPU";
  machine.hostKind = processorName(root);
  machine.hostMemory = *total;
  machine.hostBandwidth = copyRate();
  // A control group may give less than the machine has.
  if (auto most = readSystemFile(root + "/sys/fs/cgroup/memory.max")) {
    char *end = nullptr;
    int64_t limit = std::strtoll(most->c_str(), &end, 10);
    if (end != most->c_str() && limit > 0)
      machine.hostMemory = std::min(machine.hostMemory, limit);
  }
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    machine.cores = std::max(1, CPU_COUNT(&cores));

  int64_t used =
      std::clamp<int64_t>(*total - *available, 0, machine.hostMemory - 1);
  if (used > 0)
    machine.reserve.push_back({"in use", Where::Host, used,
                               "MemTotal less MemAvailable of /proc/meminfo"});
  for (Reserve &entry : usualProcess())
    machine.reserve.push_back(std::move(entry));
  std::string disk = existingFolder(diskFolder);
  machine.disk = measureDisk(disk);
  machine.diskSpace = freeSpace(disk);
  machine.network = networkRate(root);
  takeGpus(machine, findGpus(gpuLibrary));
  return machine;
}
