//===- CudaStream.h - Streams, events and waits for the host ----*- C++ -*-===//
#ifndef CIUIC_RUNTIME_DEVICE_CUDA_CUDASTREAM_H
#define CIUIC_RUNTIME_DEVICE_CUDA_CUDASTREAM_H

#include "runtime/device/cuda/CudaStatus.h"

#include <cstdint>
#include <utility>

namespace ciuic::rt {

/// A stream of the current device that does not follow the default stream.
class CudaStream {
public:
  CudaStream() = default;
  CudaStream(CudaStream &&other) noexcept { *this = std::move(other); }
  CudaStream &operator=(CudaStream &&other) noexcept {
    std::swap(stream, other.stream);
    return *this;
  }
  ~CudaStream();

  /// What is `urgent` gets free processors first: collectives, for which
  /// others wait.
  static Result<CudaStream> create(bool urgent = false);

  cudaStream_t get() const { return stream; }

private:
  cudaStream_t stream = nullptr;
};

/// An event of the current device.
class CudaEvent {
public:
  enum class Use {
    Order,   ///< Streams wait for it.
    Block,   ///< A host thread sleeps until it has come.
    Measure, ///< Tells the time.
  };

  CudaEvent() = default;
  CudaEvent(CudaEvent &&other) noexcept { *this = std::move(other); }
  CudaEvent &operator=(CudaEvent &&other) noexcept {
    std::swap(event, other.event);
    return *this;
  }
  ~CudaEvent();

  static Result<CudaEvent> create(Use use);

  cudaEvent_t get() const { return event; }

private:
  cudaEvent_t event = nullptr;
};

/// Makes a stream wait until a flag in pinned host memory has reached a value.
/// The driver may not offer it; see available().
class StreamFlagWait {
public:
  /// Looks the driver's function up and tries it.
  static Result<StreamFlagWait> find(cudaStream_t stream, const uint32_t *flag);

  bool available() const { return function != nullptr; }

  /// Whatever is enqueued later waits until `*flag - value`, as a signed
  /// number, is not negative.
  Status enqueue(cudaStream_t stream, const uint32_t *flag,
                 uint32_t value) const;

private:
  /// The driver's CUresult.
  int call(cudaStream_t stream, const uint32_t *flag, uint32_t value) const;

  void *function = nullptr;
};

} // namespace ciuic::rt

#endif // CIUIC_RUNTIME_DEVICE_CUDA_CUDASTREAM_H
