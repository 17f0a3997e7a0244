//===- Control.cpp - What tests say and ask ---------------------*- C++ -*-===//
#include "test/cuda_on_host/Machine.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace ciuic::onhost {

namespace {

/// The exit status of a process whose devices found something.
constexpr int kFound = 97;

struct Faults {
  std::mutex mutex;
  struct One {
    bool armed = false;
    uint64_t left = 0;
  };
  std::array<One, 8> kinds;
  struct Call {
    std::string function;
    uint64_t left = 0;
    int status = 0;
  };
  std::vector<Call> failing;
  std::map<std::string, uint64_t> counts;
  uint64_t struck = 0;
};

Faults &faults() {
  static Faults *one = new Faults;
  return *one;
}

void arm(Fault fault, uint64_t n) {
  std::lock_guard lock(faults().mutex);
  faults().kinds[static_cast<size_t>(fault)] = {true, n};
}

void arm(const std::string &function, uint64_t n, int status) {
  std::lock_guard lock(faults().mutex);
  faults().failing.push_back({function, n, status});
}

constexpr std::pair<const char *, Fault> kFaultNames[] = {
    {"drop_wait", Fault::DropWait},
    {"drop_record", Fault::DropRecord},
    {"drop_signal", Fault::DropSignal},
    {"drop_host_order", Fault::DropHostOrder},
    {"swap_collectives", Fault::SwapCollectives},
    {"shrink_collective", Fault::ShrinkCollective},
    {"shrink_allocation", Fault::ShrinkAllocation},
    {"never_enter", Fault::NeverEnter},
};

/// A fault or a failing call of CIUIC_ON_HOST: fault=NAME:N,
/// fail=NAME:N:STATUS.
void addFault(const std::string &key, const std::string &text) {
  size_t colon = text.find(':');
  std::string name = text.substr(0, colon);
  char *rest = nullptr;
  uint64_t n = colon == std::string::npos
                   ? 0
                   : std::strtoull(text.c_str() + colon + 1, &rest, 10);
  if (key == "fail") {
    int status = rest && *rest == ':' ? std::atoi(rest + 1) : 999;
    arm(name, n, status);
    return;
  }
  for (auto &[known, fault] : kFaultNames)
    if (name == known)
      return arm(fault, n);
  std::fprintf(stderr, "cuda_on_host: no fault is called '%s'\n", name.c_str());
  std::abort();
}

void reportAtExit() {
  std::vector<std::string> found = takeReports();
  std::fflush(nullptr);
  for (const std::string &one : found)
    std::fprintf(stderr, "cuda_on_host: %s\n", one.c_str());
  if (injected() > 0)
    std::fprintf(stderr, "cuda_on_host: faults struck: %llu\n",
                 static_cast<unsigned long long>(injected()));
  if (!found.empty())
    _exit(kFound);
}

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> pairs;
  const char *text = std::getenv("CIUIC_ON_HOST");
  std::string all = text ? text : "";
  for (size_t at = 0; at < all.size();) {
    size_t comma = std::min(all.find(',', at), all.size());
    std::string one = all.substr(at, comma - at);
    size_t equals = std::min(one.find('='), one.size());
    pairs.emplace_back(one.substr(0, equals),
                       equals < one.size() ? one.substr(equals + 1) : "");
    at = comma + 1;
  }
  return pairs;
}

} // namespace

Settings settingsOfEnvironment() {
  Settings settings;
  auto pairs = environment();
  for (auto &[key, value] : pairs) {
    uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    auto small = static_cast<int>(number);
    if (key == "devices")
      settings.devices = small;
    else if (key == "seed")
      settings.seed = number;
    else if (key == "arch") {
      settings.major = small / 10;
      settings.minor = small % 10;
    } else if (key == "processors")
      settings.processors = small;
    else if (key == "memory")
      settings.memoryBytes = number;
    else if (key == "used")
      settings.usedBytes = number;
    else if (key == "driver")
      settings.driverVersion = small;
    else if (key == "nccl")
      settings.ncclVersion = small;
    else if (key == "cublaslt")
      settings.cublasLtVersion = number;
    else if (key == "stream_memory_operations")
      settings.streamMemoryOperations = number != 0;
    else if (key == "stuck")
      settings.stuckSeconds = std::strtod(value.c_str(), nullptr);
    else if (key != "fault" && key != "fail") {
      std::fprintf(stderr, "cuda_on_host: CIUIC_ON_HOST has no key '%s'\n",
                   key.c_str());
      std::abort();
    }
  }
  return settings;
}

void startFromEnvironment() {
  for (auto &[key, value] : environment())
    if (key == "fault" || key == "fail")
      addFault(key, value);
  if (std::getenv("CIUIC_ON_HOST"))
    std::atexit(reportAtExit);
}

bool callFails(const char *function, int &status) {
  // Devices and the faults that the environment asks for exist from here on.
  Machine::get();
  Faults &all = faults();
  std::lock_guard lock(all.mutex);
  ++all.counts[function];
  for (size_t i = 0; i < all.failing.size(); ++i) {
    Faults::Call &one = all.failing[i];
    if (one.function != function || one.left-- != 0)
      continue;
    status = one.status;
    all.failing.erase(all.failing.begin() + static_cast<long>(i));
    ++all.struck;
    return true;
  }
  return false;
}

bool strikes(Fault fault) {
  Faults &all = faults();
  std::lock_guard lock(all.mutex);
  Faults::One &one = all.kinds[static_cast<size_t>(fault)];
  if (!one.armed || one.left-- != 0)
    return false;
  one.armed = false;
  ++all.struck;
  return true;
}

void resetFaults() {
  Faults &all = faults();
  std::lock_guard lock(all.mutex);
  all.kinds = {};
  all.failing.clear();
  all.counts.clear();
  all.struck = 0;
}

void inject(Fault fault, uint64_t n) {
  Machine::get();
  arm(fault, n);
}

void failCall(const std::string &function, uint64_t n, int status) {
  Machine::get();
  arm(function, n, status);
}

uint64_t injected() {
  std::lock_guard lock(faults().mutex);
  return faults().struck;
}

uint64_t calls(const std::string &function) {
  std::lock_guard lock(faults().mutex);
  auto at = faults().counts.find(function);
  return at == faults().counts.end() ? 0 : at->second;
}

void configure(const Settings &settings) { Machine::get().configure(settings); }

std::vector<std::string> takeReports() {
  Machine::get().synchronizeAll();
  std::lock_guard memory(shadow().mutex);
  return shadow().takeReports();
}

void label(CUstream_st *stream, const std::string &text) {
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (CUstream_st *found = machine.find(stream))
    found->label = text;
}

void forget(const void *pointer, size_t bytes) {
  std::lock_guard memory(shadow().mutex);
  shadow().forget(pointer, bytes);
}

uint64_t hostRelease() { return Machine::get().release(); }
uint64_t hostMerge(uint64_t token, uint64_t other) {
  return Machine::get().merge(token, other);
}
void hostAccess(uint64_t token, const void *pointer, size_t bytes, bool write,
                const std::string &name) {
  Machine::get().access(token, pointer, bytes, write, name);
}
void hostSignal(uint64_t token, const uint32_t *flag, uint32_t value) {
  Machine::get().signal(token, flag, value);
}
void hostJoin(uint64_t token) { Machine::get().joinToken(token); }
void hostReads(const void *pointer, size_t bytes) {
  Machine::get().hostAccess(pointer, bytes, false);
}
void hostWrites(const void *pointer, size_t bytes) {
  Machine::get().hostAccess(pointer, bytes, true);
}

} // namespace ciuic::onhost
