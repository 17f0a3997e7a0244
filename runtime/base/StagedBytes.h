//===- StagedBytes.h - Counts memory beside the arenas ----------*- C++ -*-===//
#ifndef CIUIC_RUNTIME_BASE_STAGEDBYTES_H
#define CIUIC_RUNTIME_BASE_STAGEDBYTES_H

#include <atomic>
#include <cstdint>

namespace ciuic::rt {

/// Counts bytes that a process stages as long as it lives. Any thread may make
/// one; abi/Staging.h says how many bytes there may be at once.
class StagedBytes {
public:
  explicit StagedBytes(uint64_t bytes) : bytes(bytes) {
    uint64_t sum = now() += bytes, most = highest();
    while (sum > most && !highest().compare_exchange_weak(most, sum))
      ;
  }
  ~StagedBytes() { now() -= bytes; }
  StagedBytes(const StagedBytes &) = delete;
  StagedBytes &operator=(const StagedBytes &) = delete;

  /// Most bytes at once since the last call.
  static uint64_t takePeak() { return highest().exchange(now()); }

private:
  static std::atomic<uint64_t> &now() {
    static std::atomic<uint64_t> value{0};
    return value;
  }
  static std::atomic<uint64_t> &highest() {
    static std::atomic<uint64_t> value{0};
    return value;
  }

  uint64_t bytes;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_BASE_STAGEDBYTES_H
