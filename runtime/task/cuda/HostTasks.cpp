//===- HostTasks.cpp - The CPU's part of a device program -----------------===//
#include "runtime/task/cuda/HostTasks.h"

#include "runtime/abi/Sizes.h"
#include "runtime/base/Quote.h"
#include "runtime/kernels/host/Operations.h"
#include "runtime/kernels/host/Workspace.h"
#include "runtime/task/cuda/HostAccess.h"

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

namespace ciuic::rt {
namespace {

/// Bit i: view i of a task of this kind is written.
[[maybe_unused]] uint32_t writtenViews(abi::TaskKind kind) {
  using abi::TaskKind;
  switch (kind) {
  case TaskKind::Zero:
    return 0b1;
  case TaskKind::Copy:
  case TaskKind::Accumulate:
  case TaskKind::SquareSum:
  case TaskKind::SumSlots:
  case TaskKind::LearningRate:
    return 0b10;
  case TaskKind::Advance:
    return 0b100;
  case TaskKind::GradScale:
    return 0b111000;
  case TaskKind::UpdateLossScale:
    return 0b1111100000;
  case TaskKind::Adam:
    return 0b100001101;
  case TaskKind::Sgd:
    return 0b1000101;
  default:
    return ~0u;
  }
}

/// Rank flags lie on cache lines of their own.
constexpr size_t flagStride = 64;

} // namespace

/// A host task of a rank; its runs are never two at a time.
struct HostTask {
  OperationPtr operation;                 ///< Not of a copy from or to a file,
  std::unique_ptr<DiskTransfer> transfer; ///< which has this.
  std::chrono::steady_clock::time_point begin;
  const char *program = nullptr;
  uint32_t index = 0;
  uint64_t runs = 0, nanoseconds = 0;
  const abi::Task *task = nullptr;
  const float *skip = nullptr;
  TimeKind timeKind = TimeKind::Other;
  std::vector<Tensor> views;
};

class HostTasks::Chain {
public:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

  HostTasks::Impl *owner = nullptr;
  uint32_t rank = 0;
  uint32_t slot = 0; ///< Of its rank and stream.
  bool onDisk = false;
  std::deque<HostTask> tasks;
  std::deque<Node> nodes;
  uint64_t token = 0;
};

class HostTasks::Impl {
public:
  Impl(MachineState &state, const CudaMemory &memory, DiskMemory &disk,
       uint32_t ranks, int threads, bool timing)
      : state(state), memory(memory), disk(disk), ranks(ranks), timing(timing),
        threads(threads > 0 ? threads
                            : static_cast<int>(std::max(
                                  1u, std::thread::hardware_concurrency()))),
        arena(this->threads, 0), slots(2 * memory.ranks().count) {
    // TBB makes one thread a processor; more only where asked for. None of
    // them is ours: releasing does not lend a thread.
    if (this->threads >= tbb::info::default_concurrency())
      control.emplace(tbb::global_control::max_allowed_parallelism,
                      static_cast<size_t>(this->threads) + 1);
    arena.execute([&] { graph.emplace(); });
  }

  ~Impl() {
    drain();
    arena.execute([&] {
      graph->wait_for_all();
      chains.clear();
      graph.reset();
    });
  }

  void drain() {
    std::unique_lock lock(state.mutex);
    // A chain that was released ends by itself.
    state.changed.wait(lock, [&] { return running == 0; });
  }

  Result<HostTask> prepare(const abi::Program &program, const abi::Task &task,
                           uint32_t rank);
  Status prepareCopy(const abi::Program &program, const abi::Task &task,
                     uint32_t rank, HostTask &made);
  void execute(HostTask &task, const Chain &chain);
  bool isSkipped(const HostTask &task, const Chain &chain);
  /// Makes copies from and to files from the `next` on, then ends the chain.
  void copyFrom(Chain &chain, size_t next);
  void endCopy(Chain &chain, size_t index, Status status);
  void fail(const HostTask &task, const Chain &chain, Status status);
  void note(HostTask &task, bool skipped);
  void finish(Chain &chain);

  std::atomic_ref<uint32_t> flagOf(uint32_t slot) const {
    return std::atomic_ref<uint32_t>(
        *reinterpret_cast<uint32_t *>(flags.base() + slot * flagStride));
  }

  /// Of a rank and one of its two streams.
  struct Slot {
    std::atomic<uint32_t> expected{0}; ///< Chains enqueued so far.
    uint32_t done = 0;                 ///< Guarded by the state's mutex.
    uint64_t token = 0;
  };

  MachineState &state;
  const CudaMemory &memory;
  DiskMemory &disk;
  const uint32_t ranks;
  const bool timing;
  const int threads;
  std::optional<tbb::global_control> control;
  tbb::task_arena arena;
  std::optional<tbb::flow::graph> graph;
  Workspace workspace;
  PinnedArena flags;
  std::vector<Slot> slots;
  std::vector<std::unique_ptr<Chain>> chains;
  uint32_t running = 0; ///< Released chains; guarded by the state's mutex.
  std::array<std::atomic<uint64_t>, timeKinds> nanoseconds{};
  std::array<std::atomic<uint64_t>, abi::kTaskKinds> executed{};
};

Result<HostTask> HostTasks::Impl::prepare(const abi::Program &program,
                                          const abi::Task &task,
                                          uint32_t rank) {
  HostTask made;
  made.task = &task;
  made.timeKind = timeKindOf(task);
  if (task.skipView >= 0) {
    const abi::View &skip = program.views[task.skipView];
    if (memory.arenaOf(skip) != abi::Arena::Host)
      return Status::invalid("a host task that device memory skips");
    made.skip = memory.resolve(skip, rank).as<const float>();
  }
  if (task.stream == abi::Stream::Disk) {
    CIUIC_TRY(prepareCopy(program, task, rank, made));
    return made;
  }
  for (uint32_t i = task.views.begin; i < task.views.end; ++i) {
    const abi::View &view = program.views[i];
    if (memory.arenaOf(view) != abi::Arena::Host)
      return Status::invalid("a host task with a view of device memory");
    made.views.push_back(memory.resolve(view, rank));
  }
  TaskArguments arguments;
  arguments.kind = task.kind;
  arguments.views = made.views;
  arguments.ints = {program.ints + task.ints.begin,
                    task.ints.end - task.ints.begin};
  arguments.reals = {program.reals + task.reals.begin,
                     task.reals.end - task.reals.begin};
  arguments.kernel = task.kernel;
  arguments.rank = rank;
  arguments.ranks = ranks;
  arguments.workspace = &workspace;
  CIUIC_TRY_ASSIGN(made.operation, makeHostOperation(arguments));
  return made;
}

Status HostTasks::Impl::prepareCopy(const abi::Program &program,
                                    const abi::Task &task, uint32_t rank,
                                    HostTask &made) {
  const abi::View &inMemory = disk.memoryOf(program, task);
  if (memory.arenaOf(inMemory) != abi::Arena::Host)
    return Status::invalid("a copy between a file and device memory");
  made.views.push_back(memory.resolve(inMemory, rank));
  made.transfer = std::make_unique<DiskTransfer>();
  return disk.prepare(program, task, rank, made.views[0].data, *made.transfer);
}

Result<HostTasks::Chain *> HostTasks::add(const abi::Program &program,
                                          std::span<const uint32_t> tasks,
                                          uint32_t rank) {
  auto chain = std::make_unique<Chain>();
  chain->owner = impl.get();
  chain->rank = rank;
  chain->onDisk = !tasks.empty() &&
                  program.tasks[tasks.front()].stream == abi::Stream::Disk;
  chain->slot = 2 * (rank - impl->memory.ranks().first) + chain->onDisk;
  Status status;
  impl->arena.execute([&] {
    for (uint32_t t : tasks) {
      auto made = impl->prepare(program, program.tasks[t], rank);
      if (!made.ok()) {
        status = made.takeStatus().during([&] {
          return "preparing task " + std::to_string(t) + " " +
                 quote(program.tasks[t].name) + " of program " +
                 quote(program.name);
        });
        return;
      }
      made->program = program.name;
      made->index = t;
      chain->tasks.push_back(std::move(*made));
    }
    Chain *all = chain.get();
    for (size_t i = 0; chain->onDisk && i < chain->tasks.size(); ++i)
      chain->tasks[i].transfer->done = [this_ = impl.get(), all,
                                        i](Status status) {
        this_->endCopy(*all, i, std::move(status));
      };
    for (HostTask &task : chain->tasks) {
      if (chain->onDisk)
        break;
      bool last = &task == &chain->tasks.back();
      chain->nodes.emplace_back(*impl->graph,
                                [this_ = impl.get(), all, &task,
                                 last](const tbb::flow::continue_msg &message) {
                                  this_->execute(task, *all);
                                  if (last)
                                    this_->finish(*all);
                                  return message;
                                });
    }
    for (size_t i = 1; i < chain->nodes.size(); ++i)
      tbb::flow::make_edge(chain->nodes[i - 1], chain->nodes[i]);
  });
  CIUIC_TRY(std::move(status));
  impl->chains.push_back(std::move(chain));
  return impl->chains.back().get();
}

void HostTasks::release(Chain *chain) {
  Impl &impl = *chain->owner;
  chain->token = hostaccess::released();
  {
    std::scoped_lock lock(impl.state.mutex);
    ++impl.running;
  }
  if (chain->onDisk)
    return impl.copyFrom(*chain, 0);
  // Enqueued, since a message put from here could have to wait for a thread.
  impl.arena.enqueue(
      [chain] { chain->nodes.front().try_put(tbb::flow::continue_msg()); });
}

void HostTasks::Impl::execute(HostTask &task, const Chain &chain) {
  // After a failure the chains drain without doing anything.
  if (state.failed())
    return;
  auto isWritten = [&](size_t view) {
    // Nothing says what a kernel writes: a last view of its own, at least.
    if (task.task->kind == abi::TaskKind::Launch)
      return view + 1 == task.views.size();
    return view < 32 && (writtenViews(task.task->kind) >> view & 1);
  };
  bool skipped = isSkipped(task, chain);
  if (skipped) {
    // An update that is skipped still makes the copy in 16 bits, which a copy
    // to the device takes in any case.
    if (task.task->kind != abi::TaskKind::Adam &&
        task.task->kind != abi::TaskKind::Sgd)
      return;
  }
  for (size_t i = 0; i < task.views.size(); ++i) {
    const Tensor &view = task.views[i];
    for (int64_t row = 0; row < (view.isDense() ? 1 : view.rows()); ++row)
      hostaccess::touches(chain.token,
                          view.as<std::byte>() +
                              row * view.strides[0] *
                                  static_cast<int64_t>(byteSize(view.dtype)),
                          static_cast<size_t>(view.isDense() ? view.elements()
                                                             : view.columns()) *
                              byteSize(view.dtype),
                          isWritten(i), task.task->name);
  }
  if (timing)
    task.begin = std::chrono::steady_clock::now();
  Status status;
  try {
    status = task.operation->run();
  } catch (const std::exception &error) {
    status = Status::machine(error.what());
  }
  if (!status.ok())
    return fail(task, chain, std::move(status));
  note(task, skipped);
}

bool HostTasks::Impl::isSkipped(const HostTask &task, const Chain &chain) {
  if (!task.skip)
    return false;
  hostaccess::touches(chain.token, task.skip, sizeof(float), false,
                      task.task->name);
  return *task.skip != 0.0f;
}

void HostTasks::Impl::copyFrom(Chain &chain, size_t next) {
  for (; next < chain.tasks.size(); ++next) {
    HostTask &task = chain.tasks[next];
    if (state.failed() || isSkipped(task, chain))
      continue;
    hostaccess::touches(chain.token, task.transfer->memory,
                        task.transfer->bytes, !task.transfer->write,
                        task.task->name);
    if (timing)
      task.begin = std::chrono::steady_clock::now();
    return disk.submit(*task.transfer);
  }
  finish(chain);
}

void HostTasks::Impl::endCopy(Chain &chain, size_t index, Status status) {
  HostTask &task = chain.tasks[index];
  if (status.ok())
    note(task, /*skipped=*/false);
  else
    fail(task, chain, std::move(status));
  copyFrom(chain, index + 1);
}

void HostTasks::Impl::fail(const HostTask &task, const Chain &chain,
                           Status status) {
  state.fail(std::move(status).during([&] {
    return "running task " + quote(task.task->name) + " of rank " +
           std::to_string(chain.rank);
  }));
}

/// That a task has run.
void HostTasks::Impl::note(HostTask &task, bool skipped) {
  if (!skipped)
    executed[static_cast<size_t>(task.task->kind)].fetch_add(
        1, std::memory_order_relaxed);
  if (!timing)
    return;
  auto elapsed = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now() - task.begin)
          .count());
  nanoseconds[static_cast<size_t>(task.timeKind)].fetch_add(
      elapsed, std::memory_order_relaxed);
  task.nanoseconds += elapsed;
  ++task.runs;
}

void HostTasks::Impl::finish(Chain &chain) {
  {
    std::scoped_lock lock(state.mutex);
    Slot &mine = slots[chain.slot];
    mine.token = chain.token;
    uint32_t value = state.failed() ? mine.expected.load() : ++mine.done;
    hostaccess::signals(chain.token,
                        reinterpret_cast<const uint32_t *>(
                            flags.base() + chain.slot * flagStride),
                        value);
    flagOf(chain.slot).store(value, std::memory_order_release);
    --running;
  }
  state.changed.notify_all();
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

HostTasks::HostTasks(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
HostTasks::~HostTasks() = default;

Result<std::unique_ptr<HostTasks>>
HostTasks::create(MachineState &state, const CudaMemory &memory,
                  DiskMemory &disk, const CudaDevice &device, uint32_t ranks,
                  int threads, bool timing) {
  auto impl =
      std::make_unique<Impl>(state, memory, disk, ranks, threads, timing);
  CIUIC_TRY_ASSIGN(impl->flags,
                   PinnedArena::allocate(device,
                                         2 * memory.ranks().count * flagStride,
                                         "the flags of host tasks"));
  return std::unique_ptr<HostTasks>(new HostTasks(std::move(impl)));
}

Status HostTasks::commit() { return impl->workspace.commit(impl->threads); }

uint32_t HostTasks::expect(const Chain *chain) {
  return ++impl->slots[chain->slot].expected;
}

const uint32_t *HostTasks::flag(const Chain *chain) const {
  return reinterpret_cast<const uint32_t *>(impl->flags.base() +
                                            chain->slot * flagStride);
}

const uint32_t *HostTasks::flagOf(uint32_t rank) const {
  uint32_t local = rank - impl->memory.ranks().first;
  return reinterpret_cast<const uint32_t *>(impl->flags.base() +
                                            2 * local * flagStride);
}

bool HostTasks::reached(const Chain *chain, uint32_t value) const {
  uint32_t flag = impl->flagOf(chain->slot).load(std::memory_order_acquire);
  return static_cast<int32_t>(flag - value) >= 0;
}

uint64_t HostTasks::token(const Chain *chain) const {
  return impl->slots[chain->slot].token;
}

void HostTasks::letGo() {
  {
    std::scoped_lock lock(impl->state.mutex);
    for (uint32_t slot = 0; slot < impl->slots.size(); ++slot)
      impl->flagOf(slot).store(impl->slots[slot].expected.load(),
                               std::memory_order_release);
  }
  impl->state.changed.notify_all();
}

void HostTasks::drain() { impl->drain(); }

int HostTasks::threads() const { return impl->threads; }
uint64_t HostTasks::scratchBytes() const { return impl->workspace.bytes(); }

uint64_t HostTasks::executed(abi::TaskKind kind) const {
  return impl->executed[static_cast<size_t>(kind)].load();
}

void HostTasks::takeTimes(TimeTable &table) {
  for (size_t i = 0; i < table.size(); ++i)
    table[i] += static_cast<double>(impl->nanoseconds[i].exchange(0)) * 1e-9;
}

void HostTasks::taskTimes(std::vector<TaskTime> &rows) const {
  for (const auto &chain : impl->chains)
    for (const HostTask &task : chain->tasks)
      if (task.runs != 0)
        rows.push_back({task.program, task.index, task.runs,
                        static_cast<double>(task.nanoseconds) * 1e-9});
}

} // namespace ciuic::rt
