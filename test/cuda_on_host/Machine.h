//===- Machine.h - Emulated devices and their streams -----------*- C++ -*-===//
//
// Calls put steps into the queues of streams. One thread, the device thread,
// takes them from there: always the first of a stream, of streams in an order
// drawn at random, after delays drawn at random. A step that is not ready
// holds its stream.
//
// Two mutexes: `Machine::mutex` guards queues, events and the host's clock,
// the shadow's guards memory. Where both are held, the machine's was first.
//
//===----------------------------------------------------------------------===//
#ifndef CIUIC_TEST_CUDA_ON_HOST_MACHINE_H
#define CIUIC_TEST_CUDA_ON_HOST_MACHINE_H

#include "test/cuda_on_host/OnHost.h"
#include "test/cuda_on_host/Shadow.h"
#include "test/cuda_on_host/include/cuda_runtime.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ciuic::onhost {

struct CaptureSession;

/// What the host had seen when a step was enqueued.
using Snapshot = std::shared_ptr<const Clock>;

/// One entry of a stream's queue. Copyable: graphs keep them.
struct Step {
  std::string name;
  Snapshot host;
  /// Whether it may run; null: always. Called with the machine's mutex.
  std::function<bool()> ready;
  /// With the machine's mutex, before `run`: takes and gives order.
  std::function<void(CUstream_st &)> order;
  /// Without the machine's mutex; null: nothing to do.
  std::function<void(CUstream_st &)> run;
  /// What it waits for, for people.
  std::function<std::string()> waits;
  /// Enqueues other steps in its place, each time it would enter a queue.
  /// Called with the machine's mutex.
  std::function<void(CUstream_st &)> expand;
};

/// One recording of an event.
struct Recording {
  bool done = false;
  Clock clock;
  std::chrono::steady_clock::time_point time;
  /// The stream that recorded it while it was captured.
  std::shared_ptr<CaptureSession> capture;
  CUstream_st *stream = nullptr;
};

/// The order that a host task has, and its own place in it.
struct Token {
  Clock clock;
  uint32_t timeline = 0;
};

/// How long there was no progress, as who looks again and again sees it. Of a
/// pause between two looks no more counts than `mostCounted`: where the machine
/// stood still or was busy, so did whoever is waited for.
class Waiting {
public:
  void restart() {
    total = {};
    last = std::chrono::steady_clock::now();
  }
  double seconds() {
    auto now = std::chrono::steady_clock::now();
    total += std::min<std::chrono::duration<double>>(now - last, mostCounted);
    last = now;
    return total.count();
  }

private:
  static constexpr std::chrono::milliseconds mostCounted{5};
  std::chrono::duration<double> total{};
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

class Machine {
public:
  static Machine &get();

  void configure(const Settings &settings);
  Settings settings() const { return config; }

  std::mutex mutex;
  std::condition_variable changed;

  /// Appends a step, or records it where the stream is captured. Needs the
  /// mutex.
  void enqueue(CUstream_st &stream, Step step);
  /// The same of a stream that is not captured, without more order.
  void append(CUstream_st &stream, Step step);
  /// What `to` gets from now on comes after all that `from` has.
  void link(CUstream_st &from, CUstream_st &to);
  /// Waits, with `lock` held, until `done` or until nothing can go on; then
  /// returns the error of the devices, if any.
  cudaError_t waitUntil(std::unique_lock<std::mutex> &lock,
                        const std::function<bool()> &done);
  cudaError_t synchronize(CUstream_st &stream);
  cudaError_t synchronizeDevice(int device);
  void synchronizeAll();

  CUstream_st *createStream(int device, unsigned flags);
  cudaError_t destroyStream(CUstream_st *stream);
  /// The stream behind a handle; null handles mean the device's own stream.
  /// Null if there is none such. Needs the mutex.
  CUstream_st *find(cudaStream_t stream);
  bool exists(cudaEvent_t event) const { return events.count(event) != 0; }

  /// The host comes after `clock`. Needs the mutex.
  void hostSees(const Clock &clock);
  Snapshot hostSnapshot();

  /// An error that any later call of the device returns.
  void poison(int device, cudaError_t error);
  cudaError_t stickyError(int device);

  uint64_t draw();

  /// Runs `body` as a task of `stream` with the shadow's mutex held.
  void work(CUstream_st &stream, const std::string &name,
            const std::function<void()> &body);

  // Tokens of host tasks.
  uint64_t release();
  uint64_t merge(uint64_t token, uint64_t other);
  void access(uint64_t token, const void *pointer, size_t bytes, bool write,
              const std::string &name);
  void hostAccess(const void *pointer, size_t bytes, bool write);
  void signal(uint64_t token, const uint32_t *flag, uint32_t value);
  void joinToken(uint64_t token);
  /// A wait of a stream was satisfied by `value` in `flag`. Needs the mutex.
  void acquireFlag(CUstream_st &stream, const uint32_t *flag, uint32_t value);

  std::set<cudaEvent_t> events;
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<CUstream_st *> ownStreams; ///< A device's stream 0.
  std::vector<uint64_t> usedBytes;       ///< A device.
  /// Enqueues a function of the host. Needs the mutex.
  void enqueueHostFunction(CUstream_st &stream, cudaHostFn_t function,
                           void *data);

private:
  struct Signal {
    uint32_t value;
    Clock clock;
  };

  Machine();
  void loop();
  bool isIdle() const;
  CUstream_st *pick(const std::vector<CUstream_st *> &ready);
  void runStep(CUstream_st &stream, std::unique_lock<std::mutex> &lock);
  void declareStuck();
  void startDevices();
  void orderWithOwnStream(CUstream_st &stream);
  void extendThreadOrder(const Clock &clock);

  Settings config;
  Clock hostClock;
  Snapshot snapshot; ///< Of hostClock, or null if it moved on.
  uint64_t random = 1;
  bool isRunning = false; ///< A step is running.
  int blockedHosts = 0;
  uint64_t activity = 0; ///< Counts enqueues and steps.
  std::vector<cudaError_t> sticky;
  std::map<uint64_t, Token> tokens;
  uint64_t nextToken = 1;
  std::map<const uint32_t *, std::vector<Signal>> signals;
  std::vector<CUstream_st *> favoured; ///< By priority of the moment.
  unsigned untilShuffle = 0;
  unsigned laziness = 0;   ///< How willingly the devices lag, 0 to 3.
  uint64_t generation = 0; ///< Counts calls of configure.
  bool started = false;
  bool stuck = false;
};

} // namespace ciuic::onhost

struct CUstream_st {
  int device = 0;
  bool blocking = false; ///< Ordered with the device's stream 0.
  uint32_t timeline = 0;
  ciuic::onhost::Clock clock;
  std::deque<ciuic::onhost::Step> queue;
  bool busy = false; ///< Its first step has left the queue and runs.
  std::string label;
  uint64_t enqueued = 0;
  std::shared_ptr<ciuic::onhost::CaptureSession> capture;
  bool internal = false; ///< Of a graph; dies when it is empty.
  std::string name() const;
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<ciuic::onhost::Recording> latest;
};

namespace ciuic::onhost {

/// Counts a call; true if it has to fail with `status`.
bool callFails(const char *function, int &status);
/// True if the fault strikes at this, its next, occasion.
bool strikes(Fault fault);
void resetFaults();
void forgetCommunicators();

/// CIUIC_ON_HOST: "devices=8,seed=3,fault=drop_wait:5,fail=cudaMalloc:0:2".
/// A process that has it prints what was found when it ends, and then exits
/// with status 97.
Settings settingsOfEnvironment();
void startFromEnvironment();

/// Whether the calling thread runs a function that a stream called.
bool insideHostFunction();

/// The calling thread's device.
int &currentDevice();
/// Keeps `error` for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);

} // namespace ciuic::onhost

/// At the start of a function of the CUDA runtime.
#define CIUIC_ONHOST_CALL(function)                                            \
  do {                                                                         \
    int status_ = 0;                                                           \
    if (::ciuic::onhost::callFails(#function, status_))                        \
      return ::ciuic::onhost::remember(static_cast<cudaError_t>(status_));     \
  } while (false)

#endif // CIUIC_TEST_CUDA_ON_HOST_MACHINE_H
