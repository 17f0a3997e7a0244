//===- Machine.cpp - Emulated devices and their streams ---------*- C++ -*-===//
#include "test/cuda_on_host/Machine.h"
#include "test/cuda_on_host/Graph.h"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace ciuic::onhost {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// Order that hostJoin gave the calling thread, for one set of devices.
struct ThreadOrder {
  uint64_t generation = 0;
  Clock clock;
};
thread_local ThreadOrder threadOrder;

} // namespace

Machine &Machine::get() {
  // Never destroyed: the device thread outlives main.
  static Machine *one = new Machine;
  return *one;
}

Machine::Machine() {
  configure(settingsOfEnvironment());
  startFromEnvironment();
}

void Machine::configure(const Settings &settings) {
  if (started)
    synchronizeAll();
  std::unique_lock lock(mutex);
  config = settings;
  {
    std::lock_guard memory(shadow().mutex);
    shadow().reset(settings.seed);
    hostClock.clear();
    snapshot = nullptr;
    shadow().newTimeline(); // 0 is the host.
  }
  random = settings.seed * 0x9e3779b97f4a7c15u + 0x1234567u;
  streams.clear();
  ownStreams.clear();
  events.clear();
  tokens.clear();
  signals.clear();
  favoured.clear();
  stuck = false;
  ++generation;
  laziness = static_cast<unsigned>(draw() % 4);
  auto devices = static_cast<size_t>(std::max(settings.devices, 0));
  usedBytes.assign(devices, settings.usedBytes);
  sticky.assign(devices, cudaSuccess);
  for (int d = 0; d < settings.devices; ++d)
    ownStreams.push_back(createStream(d, cudaStreamDefault));
  resetFaults();
  forgetCommunicators();
}

uint64_t Machine::draw() {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return random >> 11;
}

void Machine::startDevices() {
  if (std::exchange(started, true))
    return;
  std::thread([this] { loop(); }).detach();
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

CUstream_st *Machine::createStream(int device, unsigned flags) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = device;
  stream->blocking = !(flags & cudaStreamNonBlocking);
  std::lock_guard memory(shadow().mutex);
  stream->timeline = shadow().newTimeline();
  streams.push_back(std::move(stream));
  return streams.back().get();
}

cudaError_t Machine::destroyStream(CUstream_st *stream) {
  stream->internal = true; // Goes when its queue is empty.
  changed.notify_all();
  if (stream->queue.empty() && !stream->busy)
    std::erase_if(streams, [&](auto &one) { return one.get() == stream; });
  return cudaSuccess;
}

CUstream_st *Machine::find(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy) {
    auto device = static_cast<size_t>(currentDevice());
    return device < ownStreams.size() ? ownStreams[device] : nullptr;
  }
  for (auto &one : streams)
    if (one.get() == stream && !one->internal)
      return stream;
  return nullptr;
}

void Machine::link(CUstream_st &from, CUstream_st &to) {
  if (from.queue.empty() && !from.busy) {
    if (to.queue.empty() && !to.busy) {
      join(to.clock, from.clock);
      return;
    }
  }
  auto recording = std::make_shared<Recording>();
  Step record;
  record.order = [recording](CUstream_st &stream) {
    recording->clock = stream.clock;
    recording->done = true;
  };
  append(from, std::move(record));
  Step wait;
  wait.ready = [recording] { return recording->done; };
  wait.order = [recording](CUstream_st &stream) {
    join(stream.clock, recording->clock);
  };
  wait.waits = [] { return std::string("the device's stream 0"); };
  append(to, std::move(wait));
}

/// Stream 0 of a device waits for its blocking streams, and they for it.
void Machine::orderWithOwnStream(CUstream_st &stream) {
  CUstream_st &own = *ownStreams[static_cast<size_t>(stream.device)];
  if (&stream != &own) {
    if (stream.blocking && own.enqueued)
      link(own, stream);
    return;
  }
  for (auto &other : streams)
    if (other.get() != &own && other->device == own.device && other->blocking &&
        other->enqueued)
      link(*other, own);
}

void Machine::append(CUstream_st &stream, Step step) {
  if (step.expand) {
    step.expand(stream);
    return;
  }
  ++stream.enqueued;
  ++activity;
  stream.queue.push_back(std::move(step));
}

void Machine::enqueue(CUstream_st &stream, Step step) {
  startDevices();
  if (step.name.empty())
    step.name = stream.label;
  step.host = hostSnapshot();
  if (stream.capture) {
    stream.capture->add(stream, std::move(step));
    return;
  }
  orderWithOwnStream(stream);
  append(stream, std::move(step));
  changed.notify_all();
}

cudaError_t Machine::waitUntil(std::unique_lock<std::mutex> &lock,
                               const std::function<bool()> &done) {
  ++blockedHosts;
  changed.notify_all();
  changed.wait(lock, [&] { return stuck || done(); });
  --blockedHosts;
  return stuck ? cudaErrorLaunchTimeout : cudaSuccess;
}

cudaError_t Machine::synchronize(CUstream_st &stream) {
  std::unique_lock lock(mutex);
  cudaError_t error =
      waitUntil(lock, [&] { return stream.queue.empty() && !stream.busy; });
  if (error != cudaSuccess)
    return error;
  hostSees(stream.clock);
  return sticky[static_cast<size_t>(stream.device)];
}

cudaError_t Machine::synchronizeDevice(int device) {
  std::unique_lock lock(mutex);
  cudaError_t error = waitUntil(lock, [&] {
    return std::all_of(streams.begin(), streams.end(), [&](auto &one) {
      return one->device != device || (one->queue.empty() && !one->busy);
    });
  });
  if (error != cudaSuccess)
    return error;
  for (auto &one : streams)
    if (one->device == device)
      hostSees(one->clock);
  return sticky[static_cast<size_t>(device)];
}

void Machine::synchronizeAll() {
  std::unique_lock lock(mutex);
  waitUntil(lock, [&] { return isIdle() && !isRunning; });
  for (auto &one : streams)
    hostSees(one->clock);
}

bool Machine::isIdle() const {
  return std::all_of(streams.begin(), streams.end(), [](auto &one) {
    return one->queue.empty() && !one->busy;
  });
}

void Machine::hostSees(const Clock &clock) {
  std::lock_guard memory(shadow().mutex);
  join(hostClock, clock);
  snapshot = nullptr;
}

Snapshot Machine::hostSnapshot() {
  if (!snapshot)
    snapshot = std::make_shared<const Clock>(hostClock);
  if (threadOrder.generation != generation || threadOrder.clock.empty())
    return snapshot;
  Clock both = *snapshot;
  join(both, threadOrder.clock);
  return std::make_shared<const Clock>(std::move(both));
}

void Machine::extendThreadOrder(const Clock &clock) {
  if (threadOrder.generation != generation)
    threadOrder.clock.clear();
  threadOrder.generation = generation;
  join(threadOrder.clock, clock);
}

void Machine::poison(int device, cudaError_t error) {
  std::lock_guard lock(mutex);
  cudaError_t &kept = sticky[static_cast<size_t>(device)];
  if (kept == cudaSuccess)
    kept = error;
}

cudaError_t Machine::stickyError(int device) {
  std::lock_guard lock(mutex);
  auto d = static_cast<size_t>(device);
  if (stuck)
    return cudaErrorLaunchTimeout;
  return d < sticky.size() ? sticky[d] : cudaSuccess;
}

//===----------------------------------------------------------------------===//
// The device thread
//===----------------------------------------------------------------------===//

void Machine::loop() {
  std::unique_lock lock(mutex);
  uint64_t seenActivity = 0, delayedAt = 0;
  std::vector<CUstream_st *> ready;
  Waiting waiting;
  for (;;) {
    std::erase_if(streams, [](auto &one) {
      return one->internal && one->queue.empty() && !one->busy;
    });
    if (isIdle()) {
      if (blockedHosts)
        changed.notify_all();
      changed.wait(lock, [this] { return !isIdle(); });
      waiting.restart();
    }
    ready.clear();
    for (auto &one : streams)
      if (!one->queue.empty() &&
          (!one->queue.front().ready || one->queue.front().ready()))
        ready.push_back(one.get());
    if (activity != seenActivity) {
      seenActivity = activity;
      waiting.restart();
    }
    if (ready.empty()) {
      if (waiting.seconds() > config.stuckSeconds) {
        declareStuck();
        continue;
      }
      changed.wait_for(lock, std::chrono::microseconds(50));
      continue;
    }
    // Lags behind the host as long as the host goes on enqueueing.
    if (blockedHosts == 0 && activity != delayedAt && draw() % 8 < laziness) {
      delayedAt = activity;
      changed.wait_for(lock, std::chrono::microseconds(20 + draw() % 300));
      continue;
    }
    runStep(*pick(ready), lock);
    waiting.restart();
  }
}

/// Mostly the stream that is favoured for the moment, so that one runs far
/// ahead and another starves; sometimes any.
CUstream_st *Machine::pick(const std::vector<CUstream_st *> &ready) {
  if (untilShuffle-- == 0) {
    untilShuffle = static_cast<unsigned>(draw() % 64);
    favoured.clear();
    for (auto &one : streams)
      favoured.push_back(one.get());
    for (size_t i = favoured.size(); i > 1; --i)
      std::swap(favoured[i - 1], favoured[draw() % i]);
  }
  if (draw() % 4 != 0)
    for (CUstream_st *stream : favoured)
      if (std::find(ready.begin(), ready.end(), stream) != ready.end())
        return stream;
  return ready[draw() % ready.size()];
}

void Machine::runStep(CUstream_st &stream, std::unique_lock<std::mutex> &lock) {
  Step step = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.busy = isRunning = true;
  if (step.host)
    join(stream.clock, *step.host);
  if (step.order)
    step.order(stream);
  if (step.run && sticky[static_cast<size_t>(stream.device)] == cudaSuccess) {
    lock.unlock();
    step.run(stream);
    step = Step(); // What it holds may need the mutex to go.
    lock.lock();
  }
  stream.busy = isRunning = false;
  if (blockedHosts)
    changed.notify_all();
}

void Machine::work(CUstream_st &stream, const std::string &name,
                   const std::function<void()> &body) {
  std::lock_guard memory(shadow().mutex);
  shadow().begin(stream.timeline, stream.clock, name, stream.device);
  body();
  shadow().end();
}

void Machine::declareStuck() {
  std::string text = "stuck: no stream can go on";
  for (auto &one : streams) {
    if (one->queue.empty())
      continue;
    const Step &step = one->queue.front();
    text += "\n  " + one->name() + " waits for " +
            (step.waits ? step.waits() : std::string("something"));
    if (!step.name.empty())
      text += " before " + step.name;
    text += ", " + std::to_string(one->queue.size()) + " steps behind it";
    one->queue.clear();
  }
  {
    std::lock_guard memory(shadow().mutex);
    shadow().report(text);
  }
  stuck = true;
  for (cudaError_t &one : sticky)
    if (one == cudaSuccess)
      one = cudaErrorLaunchTimeout;
  changed.notify_all();
}

} // namespace ciuic::onhost

std::string CUstream_st::name() const {
  std::string text = "stream " + std::to_string(timeline) + " of device " +
                     std::to_string(device);
  return label.empty() ? text : text + " (" + label + ")";
}
