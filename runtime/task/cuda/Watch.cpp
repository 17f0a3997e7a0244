//===- Watch.cpp - Sees what does not end ---------------------------------===//
#include "runtime/task/cuda/Watch.h"

#include "runtime/base/Quote.h"
#include "runtime/device/cuda/CudaStream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <unistd.h>

namespace ciuic::rt {
namespace {

using Clock = std::chrono::steady_clock;

/// Marks of a rank; older ones are the history of what it finished.
constexpr uint64_t marks = 64;

struct Mark {
  const char *program = nullptr;
  const abi::Task *task = nullptr; ///< Null: all of the program.
  bool timed = false;
  CudaEvent begin, end;

  std::string str() const {
    std::string of = "program " + quote(program);
    return task ? "task " + quote(task->name) + " of " + of : of;
  }
};

struct RankMarks {
  Mark ring[marks];
  uint64_t made = 0;       ///< Marks whose events are both enqueued.
  uint64_t ended = 0;      ///< Of them, seen to be done.
  bool open = false;       ///< Between begin() and end().
  bool begun = false;      ///< Whether mark `ended` was seen to have begun ...
  Clock::time_point since; ///< ... and when.
};

} // namespace

class Watch::Impl {
public:
  Impl(MachineState &state, RankRange ranks, const WatchOptions &options,
       std::function<Status()> poll)
      : state(state), ranks(ranks), options(options), poll(std::move(poll)),
        rows(ranks.count) {}

  void work();
  /// Looks once; whether anything is on its way.
  bool look();
  void fire(uint32_t local, const Mark &mark);
  void exitUnlessStopped(const std::string &message);

  MachineState &state;
  const RankRange ranks;
  const WatchOptions options;
  const std::function<Status()> poll;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<RankMarks> rows;
  bool stopping = false;
  std::thread thread;
};

void Watch::Impl::work() {
  auto interval = std::chrono::duration<double>(
      std::clamp(options.timeoutSeconds / 16, 0.002, 0.1));
  std::unique_lock lock(mutex);
  while (!stopping && !state.failed()) {
    bool busy = look();
    if (stopping || state.failed())
      break;
    if (busy)
      changed.wait_for(lock, interval);
    else
      changed.wait(lock, [&] {
        return stopping ||
               std::any_of(rows.begin(), rows.end(), [](const RankMarks &row) {
                 return row.made != row.ended;
               });
      });
  }
}

bool Watch::Impl::look() {
  bool busy = false;
  for (uint32_t local = 0; local < rows.size(); ++local) {
    RankMarks &row = rows[local];
    auto failsWith = [&](cudaError_t error, const Mark &mark) {
      cudaGetLastError();
      mutex.unlock();
      state.fail(toStatus(error, "cudaEventQuery").during([&] {
        return "running " + mark.str() + " on rank " +
               std::to_string(ranks.first + local);
      }));
      mutex.lock();
      return true;
    };
    while (row.ended != row.made) {
      const Mark &mark = row.ring[row.ended % marks];
      cudaError_t error = cudaEventQuery(mark.end.get());
      if (error == cudaSuccess) {
        ++row.ended;
        row.begun = false;
        continue;
      }
      if (error != cudaErrorNotReady)
        return failsWith(error, mark);
      busy = true;
      if (!mark.timed)
        break;
      if (!row.begun) {
        error = cudaEventQuery(mark.begin.get());
        if (error != cudaSuccess && error != cudaErrorNotReady)
          return failsWith(error, mark);
        row.begun = error == cudaSuccess;
        row.since = Clock::now();
        break;
      }
      if (std::chrono::duration<double>(Clock::now() - row.since).count() >
          options.timeoutSeconds) {
        fire(local, mark);
        return true;
      }
      break;
    }
  }
  if (!busy)
    return false;
  mutex.unlock();
  Status status = poll();
  if (!status.ok())
    state.fail(std::move(status));
  mutex.lock();
  return true;
}

void Watch::Impl::fire(uint32_t local, const Mark &mark) {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%g", options.timeoutSeconds);
  std::string message = mark.str() + " has not completed on rank " +
                        std::to_string(ranks.first + local) + " within " +
                        seconds + " s";
  for (uint32_t i = 0; i < rows.size(); ++i) {
    message +=
        "\n  rank " + std::to_string(ranks.first + i) + " last finished ";
    const RankMarks &row = rows[i];
    message +=
        row.ended == 0 ? "nothing" : row.ring[(row.ended - 1) % marks].str();
  }
  // What is done on failure aborts communicators, which may take its time.
  mutex.unlock();
  std::thread fallback([this, message] { exitUnlessStopped(message); });
  state.fail(Status::machine(message));
  fallback.join();
  mutex.lock();
}

void Watch::Impl::exitUnlessStopped(const std::string &message) {
  std::unique_lock lock(mutex);
  if (changed.wait_for(lock,
                       std::chrono::duration<double>(options.graceSeconds),
                       [&] { return stopping; }))
    return;
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::fflush(stderr);
  _exit(3);
}

Watch::Watch(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Watch::~Watch() {
  {
    std::scoped_lock lock(impl->mutex);
    impl->stopping = true;
  }
  impl->changed.notify_all();
  if (impl->thread.joinable())
    impl->thread.join();
}

Result<std::unique_ptr<Watch>> Watch::create(MachineState &state,
                                             RankRange ranks,
                                             const WatchOptions &options,
                                             std::function<Status()> poll) {
  auto impl = std::make_unique<Impl>(state, ranks, options, std::move(poll));
  std::unique_ptr<Watch> watch(new Watch(std::move(impl)));
  watch->impl->thread =
      std::thread([impl = watch->impl.get()] { impl->work(); });
  return watch;
}

Status Watch::begin(uint32_t localRank, const char *program,
                    const abi::Task *task, cudaStream_t stream, bool timed) {
  std::unique_lock lock(impl->mutex);
  RankMarks &row = impl->rows[localRank];
  // With so many on their way the first is watched, and that is enough.
  row.open = row.made - row.ended < marks - 1;
  if (!row.open)
    return {};
  Mark &mark = row.ring[row.made % marks];
  lock.unlock();
  // The watching thread does not look at it before end() has counted it, but
  // for its name after a timeout.
  if (!mark.begin.get()) {
    CIUIC_TRY_ASSIGN(mark.begin, CudaEvent::create(CudaEvent::Use::Order));
    CIUIC_TRY_ASSIGN(mark.end, CudaEvent::create(CudaEvent::Use::Order));
  }
  mark.program = program;
  mark.task = task;
  mark.timed = timed;
  if (timed)
    CIUIC_TRY_CUDA(cudaEventRecord, mark.begin.get(), stream);
  return {};
}

Status Watch::end(uint32_t localRank, cudaStream_t stream) {
  RankMarks &row = impl->rows[localRank];
  if (!row.open)
    return {};
  CIUIC_TRY_CUDA(cudaEventRecord, row.ring[row.made % marks].end.get(), stream);
  {
    std::scoped_lock lock(impl->mutex);
    ++row.made;
  }
  impl->changed.notify_all();
  return {};
}

} // namespace ciuic::rt
