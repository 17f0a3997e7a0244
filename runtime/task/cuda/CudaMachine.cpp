//===- CudaMachine.cpp - GPUs that run a bundle ---------------------------===//
#include "runtime/task/cuda/CudaMachine.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/File.h"
#include "runtime/base/Quote.h"
#include "runtime/comm/ProcessGroup.h"
#include "runtime/comm/nccl/NcclRanks.h"
#include "runtime/task/CheckBundle.h"
#include "runtime/task/cuda/DeviceQueue.h"
#include "runtime/task/cuda/HostAccess.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <thread>
#include <unistd.h>

namespace ciuic::rt {
namespace {

/// More than any file of choices has.
constexpr uint64_t mostChoiceBytes = 64 << 20;

/// Ends the process with exit code 3 unless it is destroyed in time: what this
/// thread does then cannot be ended otherwise.
class ExitAfter {
public:
  ExitAfter(double seconds, const std::string &what)
      : thread([=, this] {
          std::unique_lock lock(mutex);
          if (changed.wait_for(lock, std::chrono::duration<double>(seconds),
                               [this] { return done; }))
            return;
          std::fprintf(stderr, "error: %s within %g s\n", what.c_str(),
                       seconds);
          std::fflush(stderr);
          _exit(3);
        }) {}
  ~ExitAfter() {
    {
      std::scoped_lock lock(mutex);
      done = true;
    }
    changed.notify_all();
    thread.join();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread thread;
};

class Gpus final : public CudaMachine {
public:
  Gpus(const abi::Bundle &bundle, const MachineOptions &options,
       const CudaSettings &settings)
      : shared(bundle, options, settings) {}
  ~Gpus() override;

  Status prepare();

  uint32_t firstRank() const override { return shared.ranks.first; }
  uint32_t localRanks() const override { return shared.ranks.count; }
  bool has(std::string_view program) const override {
    return find(program) >= 0;
  }
  Status run(std::string_view program) override;
  Status wait() override;
  Status read(const abi::View &view, uint32_t rank, uint64_t first,
              uint64_t count, void *to) override;
  Status write(const abi::View &view, uint32_t rank, uint64_t first,
               uint64_t count, const void *from) override;
  int threads() const override { return shared.hostTasks->threads(); }
  uint64_t scratchBytes() const override {
    return shared.hostTasks->scratchBytes() + staging.bytes();
  }
  TimeTable takeTimes() override;
  uint64_t executed(abi::TaskKind kind) const override;
  double measureProducts(abi::DType dtype) override;
  uint64_t deviceBytesUsed() const override;
  std::vector<TaskTime> taskTimes() override;

private:
  int32_t find(std::string_view program) const {
    for (uint32_t i = 0; i < shared.bundle.programCount; ++i)
      if (program == shared.bundle.programs[i].name)
        return static_cast<int32_t>(i);
    return -1;
  }
  DeviceQueue &queueOf(uint32_t rank) {
    return *queues[queues.size() == 1 ? 0 : rank - shared.ranks.first];
  }
  bool leads() const {
    return !shared.options.group || shared.options.group->process() == 0;
  }

  std::string choicesPath() const {
    const std::string &folder = shared.options.folder;
    return folder.empty() ? "" : folder + "/tuning/gemm.json";
  }
  bool hasAttention() const;
  Status readChoices();
  Status shareChoices();
  Status clearMemory(int value);
  /// Adds up the times of what has run since the last call; all is done.
  Status harvest();

  CudaShared shared;
  std::vector<CudaDevice> devices;
  std::optional<ProductChoices> choices;
  Staging staging;
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  std::vector<size_t> freeAtStart; ///< Of each device.

  std::mutex posting; ///< All devices get all programs in one order.
  std::mutex asking;  ///< One thread at a time asks after other processes.
  uint64_t started = 0;
  std::vector<uint32_t> timed; ///< Programs that harvest() has not seen.
  TimeTable times{};           ///< Of device tasks, in seconds, over ranks.
  std::vector<std::vector<TaskTime>> sums; ///< Of programs and tasks.
};

Gpus::~Gpus() {
  // Nothing that runs may lose its memory; after a failure nothing is waited
  // for.
  (void)wait();
  for (auto &queue : queues)
    queue->stop();
  if (shared.state.failed() && shared.nccl)
    shared.nccl->abort();
  // Host functions on streams refer to queues and host tasks: devices must come
  // to their end. After a failure they may not, and then the process does.
  std::optional<ExitAfter> tooLate;
  if (shared.state.failed())
    tooLate.emplace(shared.settings.exitGrace,
                    shared.state.status().str() +
                        "\n  then: the devices have not come to their end");
  for (const CudaDevice &device : devices)
    if (cudaSetDevice(device.index) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess)
      cudaGetLastError();
  shared.watch.reset();
  // What fails ends the rest, for which all must still be there.
  if (shared.hostTasks)
    shared.hostTasks->drain();
  queues.clear();
  shared.nccl.reset();
  shared.hostTasks.reset();
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

Status Gpus::prepare() {
  const abi::Bundle &bundle = shared.bundle;
  const CudaFlags &cuda = shared.options.cuda;
  ProcessGroup *group = shared.options.group;
  CIUIC_TRY(checkBundle(bundle));
  if (bundle.target != abi::Target::Cuda)
    return Status::invalid("compiled for the CPU, expected for CUDA");
  shared.ranks =
      group ? ranksOf(group->process(), group->processes(), bundle.ranks)
            : RankRange{0, bundle.ranks};
  if (shared.ranks.count == 0)
    return Status::invalid("compiled for " + std::to_string(bundle.ranks) +
                           " ranks, run by " +
                           std::to_string(group->processes()) + " processes");
  if (cuda.shareDevice && shared.ranks.count != bundle.ranks)
    return Status::invalid(
        "--share-device is for one process, this is one of " +
        std::to_string(group->processes()));
  CIUIC_TRY_ASSIGN(
      devices, chooseDevices(bundle.architectures ? bundle.architectures : "",
                             shared.ranks.count, cuda.shareDevice,
                             shared.settings.firstDevice));
  CIUIC_TRY(CublasLt::checkLibrary());
  for (const CudaDevice &device : devices) {
    size_t free = 0, total = 0;
    CIUIC_TRY_CUDA(cudaSetDevice, device.index);
    CIUIC_TRY_CUDA(cudaMemGetInfo, &free, &total);
    freeAtStart.push_back(free);
  }
  CIUIC_TRY_ASSIGN(shared.memory,
                   CudaMemory::allocate(bundle, shared.ranks, devices,
                                        shared.options.deviceMemory));
  CIUIC_TRY_ASSIGN(shared.disk, DiskMemory::create(bundle, shared.ranks,
                                                   shared.options.disk));
  CIUIC_TRY_ASSIGN(staging, Staging::allocate(devices, shared.ranks.count));
  CIUIC_TRY_ASSIGN(shared.hostTasks,
                   HostTasks::create(shared.state, shared.memory, shared.disk,
                                     devices[0], bundle.ranks,
                                     shared.options.threads, shared.isTimed()));
  // One rank exchanges with nobody: its collectives are copies.
  if (!cuda.shareDevice && bundle.ranks > 1) {
    ExitAfter tooLate(shared.options.collectiveTimeout,
                      "joining " + std::to_string(bundle.ranks) +
                          " ranks: not all have come");
    CIUIC_TRY_ASSIGN(shared.nccl, NcclRanks::create(bundle.ranks, shared.ranks,
                                                    devices, group));
  }
  shared.state.onFailure([this] {
    shared.hostTasks->letGo();
    if (!shared.nccl)
      return;
    // Over a network that is gone this may not end either.
    ExitAfter tooLate(shared.settings.exitGrace,
                      shared.state.status().str() +
                          "\n  then: NCCL's communicators were not aborted");
    shared.nccl->abort();
  });
  CIUIC_TRY_ASSIGN(
      shared.watch,
      Watch::create(
          shared.state, shared.ranks,
          {shared.options.collectiveTimeout, shared.settings.exitGrace},
          [this] { return shared.nccl ? shared.nccl->check() : Status(); }));
  choices.emplace(devices[0].name, CublasLt::libraryVersion());
  CIUIC_TRY(readChoices());
  // What one process finds out by measuring, the others take over.
  if (cuda.tune && !leads())
    CIUIC_TRY(shareChoices());
  if (cuda.tune)
    CIUIC_TRY(clearMemory(0x3c));
  for (size_t i = 0; i < devices.size(); ++i) {
    RankRange ranks =
        devices.size() == 1
            ? shared.ranks
            : RankRange{shared.ranks.first + static_cast<uint32_t>(i), 1};
    CIUIC_TRY_ASSIGN(std::unique_ptr<DeviceQueue> queue,
                     DeviceQueue::create(shared, devices[i], ranks, *choices));
    CIUIC_TRY(queue->prepare());
    queues.push_back(std::move(queue));
  }
  CIUIC_TRY(shared.hostTasks->commit());
  if (cuda.tune && leads()) {
    CIUIC_TRY(shareChoices());
    std::string path = choicesPath();
    if (choices->hasChanged() && !path.empty()) {
      CIUIC_TRY_ASSIGN(std::string text, choices->write());
      std::error_code ignored;
      std::filesystem::create_directories(
          std::filesystem::path(path).parent_path(), ignored);
      CIUIC_TRY(writeTextFile(path, text));
    }
  }
  bool written = cuda.tune;
  for (auto &queue : queues)
    written |= queue->attention().hasWritten();
  if (written)
    CIUIC_TRY(clearMemory(0));
  const std::string &refusal = queues.front()->attention().refusal();
  if (!refusal.empty() && leads() && hasAttention())
    std::fprintf(stderr, "note: attention by the bundle's kernels: %s\n",
                 refusal.c_str());
  if (hostaccess::labels)
    shared.memory.forgetTemporaries();
  for (uint32_t i = 0; i < bundle.programCount; ++i)
    sums.emplace_back(bundle.programs[i].taskCount);
  for (auto &queue : queues)
    queue->start();
  return {};
}

bool Gpus::hasAttention() const {
  for (uint32_t p = 0; p < shared.bundle.programCount; ++p)
    for (uint32_t t = 0; t < shared.bundle.programs[p].taskCount; ++t)
      if (shared.bundle.programs[p].tasks[t].kind ==
          abi::TaskKind::AttentionForward)
        return true;
  return false;
}

Status Gpus::readChoices() {
  std::string path = choicesPath();
  std::error_code error;
  if (path.empty() || (!std::filesystem::exists(path, error) && !error))
    return {};
  CIUIC_TRY_ASSIGN(std::string text, readTextFile(path, mostChoiceBytes));
  return choices->read(text, path);
}

Status Gpus::shareChoices() {
  ProcessGroup *group = shared.options.group;
  if (!group || group->processes() == 1)
    return {};
  std::string text;
  if (leads()) {
    CIUIC_TRY_ASSIGN(text, choices->write());
  }
  uint64_t size = text.size();
  CIUIC_TRY(group->broadcast(std::as_writable_bytes(std::span(&size, 1)), 0));
  if (size > mostChoiceBytes)
    return Status::machine("process 0 sends " + std::to_string(size) +
                           " bytes of choices of products, expected at most " +
                           std::to_string(mostChoiceBytes));
  text.resize(size);
  CIUIC_TRY(group->broadcast(std::as_writable_bytes(std::span(text)), 0));
  return leads() ? Status() : choices->read(text, "what process 0 sent");
}

Status Gpus::clearMemory(int value) {
  for (uint32_t rank = shared.ranks.first; rank < shared.ranks.end(); ++rank) {
    const CudaDevice &device =
        devices[devices.size() == 1 ? 0 : rank - shared.ranks.first];
    const DeviceArena &arena = shared.memory.device(rank);
    CIUIC_TRY_CUDA(cudaSetDevice, device.index);
    if (arena.bytes() != 0)
      CIUIC_TRY_CUDA(cudaMemsetAsync, arena.base(), value, arena.bytes(),
                     nullptr);
    CIUIC_TRY_CUDA(cudaDeviceSynchronize);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status Gpus::run(std::string_view name) {
  int32_t index = find(name);
  if (index < 0)
    return Status::invalid("the bundle has no program " + quote(name));
  if (shared.isTimed()) {
    // A task's events tell of its last run only.
    CIUIC_TRY(wait());
  }
  std::scoped_lock lock(posting);
  if (shared.state.failed())
    return shared.state.status();
  if (shared.isTimed())
    timed.push_back(static_cast<uint32_t>(index));
  ++started;
  for (auto &queue : queues)
    queue->post({.program = index});
  return {};
}

Status Gpus::wait() {
  uint64_t target;
  {
    std::scoped_lock lock(posting);
    target = started;
  }
  auto done = [&] {
    for (auto &queue : queues)
      for (uint32_t rank = queue->heldRanks().first;
           rank < queue->heldRanks().end(); ++rank)
        if (queue->finished(rank) < target)
          return false;
    return true;
  };
  // A process that failed leaves its collectives to the others: they need not
  // wait for a timeout to hear of it.
  ProcessGroup *group = shared.options.group;
  if (group && group->processes() > 1)
    while (!shared.state.waitFor(0.1, done))
      if (std::unique_lock lock(asking, std::try_to_lock); lock.owns_lock())
        shared.state.fail(group->check());
  CIUIC_TRY(shared.state.waitUntil(done));
  return shared.isTimed() ? harvest() : Status();
}

Status Gpus::read(const abi::View &view, uint32_t rank, uint64_t first,
                  uint64_t count, void *to) {
  CIUIC_TRY(checkElements(view, shared.ranks, rank, first, count));
  if (shared.disk.holds(view)) {
    CIUIC_TRY(wait());
    return shared.disk.read(view, rank, first, count, to);
  }
  uint64_t element = byteSize(view.dtype), bytes = count * element;
  std::byte *from =
      shared.memory.resolve(view, rank).as<std::byte>() + first * element;
  if (bytes == 0)
    return {};
  if (shared.memory.arenaOf(view) == abi::Arena::Host) {
    CIUIC_TRY(wait());
    hostaccess::reads(from, bytes);
    std::memcpy(to, from, bytes);
    return {};
  }
  struct Part {
    StagingPiece *piece;
    uint64_t offset, bytes;
  };
  std::deque<Part> underWay;
  Status failure;
  auto take = [&] {
    Part part = underWay.front();
    underWay.pop_front();
    Status status = Staging::wait(shared.state, *part.piece);
    if (!status.ok()) {
      failure = std::move(status);
      return;
    }
    hostaccess::reads(part.piece->data, part.bytes);
    std::memcpy(static_cast<std::byte *>(to) + part.offset, part.piece->data,
                part.bytes);
    Staging::release(shared.state, *part.piece);
  };
  for (uint64_t at = 0; at < bytes && failure.ok();) {
    uint64_t part = std::min(Staging::pieceBytes, bytes - at);
    // Other readers may hold all pieces: first give back one's own.
    CIUIC_TRY_ASSIGN(StagingPiece * piece,
                     staging.acquire(shared.state, rank - shared.ranks.first,
                                     /*write=*/false, underWay.empty()));
    if (!piece) {
      take();
      continue;
    }
    queueOf(rank).post({-1, rank, from + at, part, piece});
    underWay.push_back({piece, at, part});
    at += part;
  }
  while (!underWay.empty() && failure.ok())
    take();
  return failure;
}

Status Gpus::write(const abi::View &view, uint32_t rank, uint64_t first,
                   uint64_t count, const void *from) {
  CIUIC_TRY(checkElements(view, shared.ranks, rank, first, count));
  if (shared.disk.holds(view)) {
    CIUIC_TRY(wait());
    return shared.disk.write(view, rank, first, count, from);
  }
  uint64_t element = byteSize(view.dtype), bytes = count * element;
  std::byte *to =
      shared.memory.resolve(view, rank).as<std::byte>() + first * element;
  if (bytes == 0)
    return {};
  if (shared.memory.arenaOf(view) == abi::Arena::Host) {
    CIUIC_TRY(wait());
    hostaccess::writes(to, bytes);
    std::memcpy(to, from, bytes);
    return {};
  }
  for (uint64_t at = 0; at < bytes;) {
    uint64_t part = std::min(Staging::pieceBytes, bytes - at);
    CIUIC_TRY_ASSIGN(StagingPiece * piece,
                     staging.acquire(shared.state, rank - shared.ranks.first,
                                     /*write=*/true, /*mayWait=*/true));
    hostaccess::writes(piece->data, part);
    std::memcpy(piece->data, static_cast<const std::byte *>(from) + at, part);
    queueOf(rank).post({-1, rank, to + at, part, piece});
    at += part;
  }
  return shared.state.failed() ? shared.state.status() : Status();
}

//===----------------------------------------------------------------------===//
// Telling
//===----------------------------------------------------------------------===//

Status Gpus::harvest() {
  std::scoped_lock lock(posting);
  for (uint32_t index : timed)
    for (auto &queue : queues)
      for (PreparedTask &task : queue->all()[index]->tasks) {
        float elapsed = 0;
        CIUIC_TRY_CUDA(cudaEventElapsedTime, &elapsed, task.begin.get(),
                       task.end.get());
        // One of all ranks occupies each of them.
        uint32_t ranks =
            task.collective && !shared.nccl ? queue->heldRanks().count : 1;
        times[static_cast<size_t>(timeKindOf(*task.task))] +=
            elapsed * 1e-3 * ranks;
        TaskTime &sum = sums[index][task.index];
        sum.seconds += elapsed * 1e-3 * ranks;
        sum.runs += ranks;
      }
  timed.clear();
  return {};
}

TimeTable Gpus::takeTimes() {
  TimeTable table{};
  // A failure is told by the next call that can.
  if (!wait().ok())
    return table;
  shared.hostTasks->takeTimes(table);
  std::scoped_lock lock(posting);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = (table[i] + times[i]) / shared.ranks.count;
  times = {};
  return table;
}

uint64_t Gpus::executed(abi::TaskKind kind) const {
  uint64_t count = shared.hostTasks->executed(kind);
  for (auto &queue : queues) {
    count += queue->executed(kind);
    // The devices of a process take part in one and the same collective.
    if (isCollective(kind))
      break;
  }
  return count;
}

uint64_t Gpus::deviceBytesUsed() const {
  uint64_t most = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    size_t free = 0, total = 0;
    if (cudaSetDevice(devices[i].index) != cudaSuccess ||
        cudaMemGetInfo(&free, &total) != cudaSuccess) {
      cudaGetLastError();
      return 0;
    }
    uint64_t used = freeAtStart[i] > free ? freeAtStart[i] - free : 0;
    most =
        std::max(most, used / (devices.size() == 1 ? shared.ranks.count : 1));
  }
  return most;
}

std::vector<TaskTime> Gpus::taskTimes() {
  std::vector<TaskTime> rows;
  if (!shared.options.profile || !wait().ok())
    return rows;
  std::scoped_lock lock(posting);
  const abi::Bundle &bundle = shared.bundle;
  // Those of the host, added up over the ranks.
  std::vector<TaskTime> onHost;
  shared.hostTasks->taskTimes(onHost);
  std::map<std::pair<std::string_view, uint32_t>, TaskTime> byTask;
  for (const TaskTime &one : onHost) {
    TaskTime &sum = byTask[{one.program, one.task}];
    sum = {one.program, one.task, sum.runs + one.runs,
           sum.seconds + one.seconds};
  }
  for (const auto &[key, sum] : byTask)
    rows.push_back(sum);
  for (uint32_t p = 0; p < bundle.programCount; ++p)
    for (uint32_t t = 0; t < sums[p].size(); ++t)
      if (sums[p][t].runs != 0)
        rows.push_back(
            {bundle.programs[p].name, t, sums[p][t].runs, sums[p][t].seconds});
  return rows;
}

double Gpus::measureProducts(abi::DType dtype) {
  if (!wait().ok())
    return 0;
  // One device stands for all: they are of one kind. A share of one is not.
  double rate = queues[0]->measureProducts(dtype);
  return rate * static_cast<double>(devices.size());
}

} // namespace

Result<std::unique_ptr<CudaMachine>>
CudaMachine::create(const abi::Bundle &bundle, const MachineOptions &options,
                    const CudaSettings &settings) {
  try {
    auto machine = std::make_unique<Gpus>(bundle, options, settings);
    CIUIC_TRY(machine->prepare());
    return std::unique_ptr<CudaMachine>(std::move(machine));
  } catch (const std::exception &error) {
    return Status::machine(std::string("cannot prepare the program: ") +
                           error.what());
  }
}

} // namespace ciuic::rt
