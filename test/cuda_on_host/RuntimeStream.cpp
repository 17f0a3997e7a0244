//===- RuntimeStream.cpp - Streams and events -------------------*- C++ -*-===//
#include "test/cuda_on_host/Graph.h"
#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/include/cuda.h"

#include <atomic>

using namespace ciuic::onhost;

namespace {

/// The stream of a handle, under the machine's lock.
#define FIND_STREAM(stream, handle)                                            \
  CUstream_st *stream = machine.find(handle);                                  \
  if (!stream)                                                                 \
  return remember(cudaErrorInvalidResourceHandle)

bool isCaptured(const Recording &recording) {
  return recording.capture != nullptr;
}

bool satisfies(uint32_t found, uint32_t wanted, unsigned how) {
  switch (how & 3) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    return static_cast<int32_t>(found - wanted) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return found == wanted;
  case CU_STREAM_WAIT_VALUE_AND:
    return (found & wanted) != 0;
  default:
    return ~(found | wanted) != 0;
  }
}

uint32_t load(const uint32_t *flag) {
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

} // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int) {
  CIUIC_ONHOST_CALL(cudaStreamCreateWithPriority);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (flags > cudaStreamNonBlocking)
    return remember(cudaErrorInvalidValue);
  if (!machine.find(nullptr))
    return remember(cudaErrorNoDevice);
  *stream = machine.createStream(currentDevice(), flags);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  CIUIC_ONHOST_CALL(cudaStreamDestroy);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (handle == nullptr)
    return remember(cudaErrorInvalidResourceHandle);
  FIND_STREAM(stream, handle);
  return machine.destroyStream(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CIUIC_ONHOST_CALL(cudaStreamSynchronize);
  Machine &machine = Machine::get();
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  CUstream_st *found;
  {
    std::lock_guard lock(machine.mutex);
    FIND_STREAM(stream, handle);
    if (stream->capture) {
      stream->capture->invalid = true;
      return remember(cudaErrorStreamCaptureUnsupported);
    }
    found = stream;
  }
  return remember(machine.synchronize(*found));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CIUIC_ONHOST_CALL(cudaStreamQuery);
  Machine &machine = Machine::get();
  cudaError_t error = machine.stickyError(currentDevice());
  if (error != cudaSuccess)
    return remember(error);
  std::lock_guard lock(machine.mutex);
  FIND_STREAM(stream, handle);
  if (!stream->queue.empty() || stream->busy)
    return cudaErrorNotReady;
  machine.hostSees(stream->clock);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  CIUIC_ONHOST_CALL(cudaStreamWaitEvent);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  FIND_STREAM(stream, handle);
  if (!machine.exists(event))
    return remember(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Recording> recording = event->latest;
  if (!recording)
    return cudaSuccess; // Never recorded: nothing to wait for.
  if (strikes(Fault::DropWait))
    return cudaSuccess;
  if (isCaptured(*recording)) {
    if (!recording->stream || recording->capture->streams.empty())
      return remember(cudaErrorCapturedEvent);
    if (!stream->capture) {
      if (!recording->stream->capture)
        return remember(cudaErrorCapturedEvent); // That capture has ended.
      stream->capture = recording->capture;
    }
    if (stream->capture != recording->capture)
      return remember(cudaErrorStreamCaptureMerge);
    stream->capture->wait(*stream, recording.get());
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return remember(cudaErrorStreamCaptureIsolation);
  }
  Step step;
  step.ready = [recording] { return recording->done; };
  step.order = [recording](CUstream_st &on) {
    join(on.clock, recording->clock);
  };
  step.waits = [recording] {
    return "an event recorded on " + (recording->stream
                                          ? recording->stream->name()
                                          : std::string("a stream"));
  };
  machine.enqueue(*stream, std::move(step));
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function,
                               void *data) {
  CIUIC_ONHOST_CALL(cudaLaunchHostFunc);
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  if (!function)
    return remember(cudaErrorInvalidValue);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  FIND_STREAM(stream, handle);
  machine.enqueueHostFunction(*stream, function, data);
  return cudaSuccess;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  CIUIC_ONHOST_CALL(cudaEventCreateWithFlags);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (!machine.find(nullptr))
    return remember(cudaErrorNoDevice);
  *event = new CUevent_st{currentDevice(), flags, nullptr};
  machine.events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  CIUIC_ONHOST_CALL(cudaEventDestroy);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (machine.events.erase(event) == 0)
    return remember(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  CIUIC_ONHOST_CALL(cudaEventRecord);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  FIND_STREAM(stream, handle);
  if (!machine.exists(event) || event->device != stream->device)
    return remember(cudaErrorInvalidResourceHandle);
  if (strikes(Fault::DropRecord))
    return cudaSuccess;
  auto recording = std::make_shared<Recording>();
  recording->stream = stream;
  event->latest = recording;
  if (stream->capture) {
    recording->capture = stream->capture;
    stream->capture->record(*stream, recording.get());
    return cudaSuccess;
  }
  Step step;
  step.order = [recording](CUstream_st &on) {
    recording->clock = on.clock;
    recording->time = std::chrono::steady_clock::now();
    recording->done = true;
  };
  machine.enqueue(*stream, std::move(step));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  CIUIC_ONHOST_CALL(cudaEventQuery);
  Machine &machine = Machine::get();
  cudaError_t error = machine.stickyError(currentDevice());
  if (error != cudaSuccess)
    return remember(error);
  std::lock_guard lock(machine.mutex);
  if (!machine.exists(event))
    return remember(cudaErrorInvalidResourceHandle);
  if (!event->latest)
    return cudaSuccess;
  if (isCaptured(*event->latest))
    return remember(cudaErrorCapturedEvent);
  if (!event->latest->done)
    return cudaErrorNotReady;
  machine.hostSees(event->latest->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CIUIC_ONHOST_CALL(cudaEventSynchronize);
  Machine &machine = Machine::get();
  if (insideHostFunction())
    return remember(cudaErrorNotPermitted);
  cudaError_t error;
  {
    std::unique_lock lock(machine.mutex);
    if (!machine.exists(event))
      return remember(cudaErrorInvalidResourceHandle);
    std::shared_ptr<Recording> recording = event->latest;
    if (!recording)
      return cudaSuccess;
    if (isCaptured(*recording))
      return remember(cudaErrorCapturedEvent);
    error = machine.waitUntil(lock, [&] { return recording->done; });
    if (error == cudaSuccess)
      machine.hostSees(recording->clock);
  }
  if (error == cudaSuccess)
    error = machine.stickyError(event->device);
  return remember(error);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  CIUIC_ONHOST_CALL(cudaEventElapsedTime);
  Machine &machine = Machine::get();
  std::lock_guard lock(machine.mutex);
  if (!machine.exists(start) || !machine.exists(end) || !start->latest ||
      !end->latest || ((start->flags | end->flags) & cudaEventDisableTiming))
    return remember(cudaErrorInvalidResourceHandle);
  if (!start->latest->done || !end->latest->done)
    return cudaErrorNotReady;
  std::chrono::duration<float, std::milli> time =
      end->latest->time - start->latest->time;
  *milliseconds = time.count();
  return cudaSuccess;
}

//===----------------------------------------------------------------------===//
// Memory operations of streams
//===----------------------------------------------------------------------===//

CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr address,
                             cuuint32_t value, unsigned flags) {
  int status = 0;
  if (callFails("cuStreamWaitValue32", status))
    return static_cast<CUresult>(status);
  Machine &machine = Machine::get();
  if (!machine.settings().streamMemoryOperations)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  auto *flag = reinterpret_cast<const uint32_t *>(address);
  {
    std::lock_guard memory(shadow().mutex);
    if (!shadow().find(address) || address % 4 != 0)
      return CUDA_ERROR_INVALID_VALUE;
  }
  Step step;
  step.ready = [flag, value, flags] {
    return satisfies(load(flag), value, flags);
  };
  step.order = [flag](CUstream_st &on) {
    Machine::get().acquireFlag(on, flag, load(flag));
  };
  step.waits = [flag, value] {
    return "the value " + std::to_string(value) + " in a flag that holds " +
           std::to_string(load(flag));
  };
  machine.enqueue(*stream, std::move(step));
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr address,
                              cuuint32_t value, unsigned) {
  int status = 0;
  if (callFails("cuStreamWriteValue32", status))
    return static_cast<CUresult>(status);
  Machine &machine = Machine::get();
  if (!machine.settings().streamMemoryOperations)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(machine.mutex);
  CUstream_st *stream = machine.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  auto *flag = reinterpret_cast<uint32_t *>(address);
  {
    std::lock_guard memory(shadow().mutex);
    if (!shadow().find(address) || address % 4 != 0)
      return CUDA_ERROR_INVALID_VALUE;
  }
  Step step;
  step.run = [flag, value](CUstream_st &on) {
    Machine &machine = Machine::get();
    {
      std::lock_guard lock(machine.mutex);
      machine.hostSees(on.clock); // Whoever reads it comes after.
    }
    machine.work(on, "a value written to a flag",
                 [&] { shadow().touch(flag, 4); });
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
  };
  machine.enqueue(*stream, std::move(step));
  return CUDA_SUCCESS;
}
