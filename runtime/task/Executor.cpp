//===- Executor.cpp - Runs compiled programs over all ranks ---------------===//
#include "runtime/task/Executor.h"

#include "runtime/base/Quote.h"
#include "runtime/blas/Gemm.h"
#include "runtime/comm/remote/RemoteCollectives.h"
#include "runtime/kernels/host/Workspace.h"
#include "runtime/task/CheckBundle.h"
#include "runtime/task/CollectiveThread.h"

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace ciuic::rt {

class Executor::Impl {
public:
  Impl(const abi::Bundle &bundle, const RankArenas &arenas,
       const ExecutorOptions &options)
      : bundle(bundle), arenas(arenas), ranks(arenas.ranks()),
        timing(options.timing), measured(options.timing || options.profile),
        threads(options.threads > 0
                    ? options.threads
                    : static_cast<int>(
                          std::max(1u, std::thread::hardware_concurrency()))),
        arena(threads), collectiveArena(threads), gemms(threads) {
    disk = options.disk;
    if (options.group && options.group->processes() > 1)
      world = std::make_unique<RemoteWorld>(*options.group, bundle.ranks);
    // TBB makes one thread a processor; more only where asked for.
    if (threads > tbb::info::default_concurrency())
      control.emplace(tbb::global_control::max_allowed_parallelism,
                      static_cast<size_t>(threads));
  }

  ~Impl() {
    collectives.reset();
    // A graph belongs to the arena it was made in.
    arena.execute([&] { programs.clear(); });
  }

  Status prepare();
  Status run(std::string_view name);
  Tensor resolve(const abi::View &view, uint32_t rank) const;

  /// One task of one rank, or of all ranks.
  struct Node {
    OperationPtr operation;                 ///< Not of a copy on disk, which
    std::unique_ptr<DiskTransfer> transfer; ///< has this.
    const abi::Task *task = nullptr;
    const float *skip = nullptr;
    uint32_t rank = 0;
    TimeKind timeKind = TimeKind::Other;
    bool collective = false;
    int64_t remote = -1;      ///< Its place in the order of remote collectives.
    int64_t onDisk = -1;      ///< Its place among copies from and to files.
    uint64_t runs = 0;        ///< Where measured.
    uint64_t nanoseconds = 0; ///< Of all runs.
  };

  using Message = tbb::flow::continue_msg;
  using FlowNode = tbb::flow::continue_node<Message>;
  /// What a collective that other processes take part in becomes: it is left to
  /// the thread and goes on when that is done.
  using RemoteNode = tbb::flow::async_node<Message, Message>;

  /// What a copy from or to a file becomes: the queue has it until it is done.
  struct DiskNode {
    DiskNode(tbb::flow::graph &graph, Impl &impl, Node &node)
        : node(node), flow(graph, tbb::flow::unlimited,
                           [this, &impl](const Message &,
                                         RemoteNode::gateway_type &gateway) {
                             impl.beginDisk(*this, gateway);
                           }) {
      node.transfer->done = [this, &impl](Status status) {
        impl.endDisk(*this, std::move(status));
      };
    }

    Node &node;
    RemoteNode flow;
    RemoteNode::gateway_type *gateway = nullptr;
    std::chrono::steady_clock::time_point begin;
  };

  struct Program {
    const abi::Program *records = nullptr;
    std::vector<Node> nodes;
    std::optional<tbb::flow::graph> graph;
    std::optional<tbb::flow::broadcast_node<tbb::flow::continue_msg>> start;
    std::deque<FlowNode> flowNodes;
    std::deque<RemoteNode> remoteNodes;
    std::deque<DiskNode> diskNodes;
    std::vector<size_t> diskOrder;   ///< Nodes, by Node::onDisk.
    std::vector<size_t> remoteOrder; ///< Nodes, in the program's order.
    std::vector<RemoteNode::gateway_type *> gateways;

    ~Program() {
      // Nodes go before the graph that they are in.
      remoteNodes.clear();
      diskNodes.clear();
      flowNodes.clear();
      start.reset();
      graph.reset();
    }
  };

  Result<Node> makeNode(const abi::Program &program, const abi::Task &task,
                        uint32_t rank);
  Status prepareProgram(const abi::Program &records);
  void connect(Program &program, const std::vector<uint32_t> &firstNode);
  void execute(Node &node);
  void executeRemote(size_t index);
  void beginDisk(DiskNode &disk, RemoteNode::gateway_type &gateway);
  void endDisk(DiskNode &disk, Status status);
  void note(Node &node, std::chrono::steady_clock::time_point begin);
  void fail(const Node &node, Status status);

  Program *find(std::string_view name) {
    for (auto &program : programs)
      if (name == program->records->name)
        return program.get();
    return nullptr;
  }

  const abi::Bundle &bundle;
  const RankArenas &arenas;
  const RankRange ranks; ///< Of this process.
  const bool timing;
  const bool measured; ///< In each node too.
  const int threads;
  std::optional<tbb::global_control> control;
  tbb::task_arena arena;
  /// Of the thread of collectives: it never waits for a place in the other.
  tbb::task_arena collectiveArena;
  DiskMemory *disk = nullptr;         ///< Null for a job without files.
  std::unique_ptr<RemoteWorld> world; ///< Null where all ranks are here.
  std::unique_ptr<CollectiveThread> collectives;
  Program *running = nullptr;
  Workspace workspace;
  GemmCache gemms;
  std::vector<std::unique_ptr<Program>> programs;

  std::atomic<bool> failed{false};
  std::mutex failureMutex;
  Status failure;

  std::array<std::atomic<uint64_t>, timeKinds> nanoseconds{};
  std::array<std::atomic<uint64_t>, abi::kTaskKinds> executed{};
};

Tensor Executor::Impl::resolve(const abi::View &view, uint32_t rank) const {
  const abi::Buffer &buffer = bundle.buffers[view.buffer];
  std::byte *base = buffer.arena == abi::Arena::Device ? arenas.deviceBase(rank)
                                                       : arenas.hostBase(rank);
  Tensor tensor;
  tensor.data = base + buffer.offset + view.offset +
                static_cast<int64_t>(rank) * view.rankStride;
  tensor.dtype = view.dtype;
  tensor.rank = view.rank;
  for (int d = 0; d < 2; ++d) {
    tensor.shape[d] = view.shape[d];
    tensor.strides[d] = view.strides[d];
  }
  return tensor;
}

Result<Executor::Impl::Node>
Executor::Impl::makeNode(const abi::Program &program, const abi::Task &task,
                         uint32_t rank) {
  bool collective = isCollective(task.kind);
  Node node;
  node.task = &task;
  node.rank = rank;
  node.collective = collective;
  node.timeKind = timeKindOf(task);
  if (task.skipView >= 0)
    node.skip = resolve(program.views[task.skipView], rank).as<const float>();
  if (task.stream == abi::Stream::Disk) {
    if (!disk)
      return Status::invalid("copies from or to a file, and there is none");
    node.transfer = std::make_unique<DiskTransfer>();
    void *memory = resolve(disk->memoryOf(program, task), rank).data;
    CIUIC_TRY(disk->prepare(program, task, rank, memory, *node.transfer));
    return node;
  }
  std::vector<Tensor> views;
  for (uint32_t r = rank; r < (collective ? ranks.end() : rank + 1); ++r)
    for (uint32_t i = task.views.begin; i < task.views.end; ++i)
      views.push_back(resolve(program.views[i], r));
  TaskArguments arguments;
  arguments.kind = task.kind;
  arguments.views = views;
  arguments.ints = {program.ints + task.ints.begin,
                    task.ints.end - task.ints.begin};
  arguments.reals = {program.reals + task.reals.begin,
                     task.reals.end - task.reals.begin};
  arguments.kernel = task.kernel;
  arguments.rank = rank;
  arguments.ranks = bundle.ranks;
  arguments.workspace = &workspace;
  arguments.gemms = &gemms;
  CIUIC_TRY_ASSIGN(OperationPtr operation,
                   collective && world ? makeRemoteCollective(arguments, *world)
                                       : makeOperation(arguments));
  node.operation = std::move(operation);
  return node;
}

Status Executor::Impl::prepareProgram(const abi::Program &records) {
  auto program = std::make_unique<Program>();
  program->records = &records;
  // Node of task t on the i-th rank here: firstNode[t] + i, or firstNode[t] for
  // all ranks.
  std::vector<uint32_t> firstNode;
  for (uint32_t t = 0; t < records.taskCount; ++t) {
    const abi::Task &task = records.tasks[t];
    firstNode.push_back(static_cast<uint32_t>(program->nodes.size()));
    uint32_t count = isCollective(task.kind) ? 1 : ranks.count;
    for (uint32_t i = 0; i < count; ++i) {
      auto node = makeNode(records, task, ranks.first + i);
      if (!node.ok())
        return node.takeStatus().during([&] {
          return "preparing task " + std::to_string(t) + " " +
                 quote(task.name) + " of program " + quote(records.name);
        });
      if (node->collective && world) {
        node->remote = static_cast<int64_t>(program->remoteOrder.size());
        program->remoteOrder.push_back(program->nodes.size());
      }
      if (node->transfer) {
        node->onDisk = static_cast<int64_t>(program->diskOrder.size());
        program->diskOrder.push_back(program->nodes.size());
      }
      program->nodes.push_back(std::move(*node));
    }
  }
  connect(*program, firstNode);
  programs.push_back(std::move(program));
  return {};
}

void Executor::Impl::connect(Program &program,
                             const std::vector<uint32_t> &firstNode) {
  tbb::flow::graph &graph = program.graph.emplace();
  auto &start = program.start.emplace(graph);
  for (Node &node : program.nodes)
    program.flowNodes.emplace_back(graph,
                                   [this, &node](const Message &message) {
                                     if (node.operation && node.remote < 0)
                                       execute(node);
                                     return message;
                                   });
  program.gateways.resize(program.remoteOrder.size());
  for (size_t i = 0; i < program.remoteOrder.size(); ++i) {
    auto &node = program.remoteNodes.emplace_back(
        graph, tbb::flow::unlimited,
        [this, &program, i](const Message &,
                            RemoteNode::gateway_type &gateway) {
          gateway.reserve_wait();
          program.gateways[i] = &gateway;
          collectives->markReady(i);
        });
    tbb::flow::make_edge(program.flowNodes[program.remoteOrder[i]], node);
  }

  for (size_t index : program.diskOrder) {
    auto &node =
        program.diskNodes.emplace_back(graph, *this, program.nodes[index]);
    tbb::flow::make_edge(program.flowNodes[index], node.flow);
  }

  const abi::Program &records = *program.records;
  std::array<int64_t, abi::kStreams> lastOnStream;
  lastOnStream.fill(-1);
  std::vector<uint32_t> before;
  std::vector<uint32_t> sources;
  for (uint32_t t = 0; t < records.taskCount; ++t) {
    const abi::Task &task = records.tasks[t];
    before.assign(records.waits + task.waits.begin,
                  records.waits + task.waits.end);
    int64_t &last = lastOnStream[static_cast<size_t>(task.stream)];
    if (last >= 0)
      before.push_back(static_cast<uint32_t>(last));
    last = t;
    bool collective = isCollective(task.kind);
    uint32_t count = collective ? 1 : ranks.count;
    for (uint32_t i = 0; i < count; ++i) {
      sources.clear();
      for (uint32_t earlier : before) {
        uint32_t first = firstNode[earlier];
        if (program.nodes[first].collective)
          sources.push_back(first);
        else if (collective)
          for (uint32_t r = 0; r < ranks.count; ++r)
            sources.push_back(first + r);
        else
          sources.push_back(first + i);
      }
      // Two edges between the same nodes would be counted, but cost twice.
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      FlowNode &to = program.flowNodes[firstNode[t] + i];
      if (sources.empty())
        tbb::flow::make_edge(start, to);
      for (uint32_t source : sources)
        if (int64_t remote = program.nodes[source].remote; remote >= 0)
          tbb::flow::make_edge(program.remoteNodes[static_cast<size_t>(remote)],
                               to);
        else if (int64_t copy = program.nodes[source].onDisk; copy >= 0)
          tbb::flow::make_edge(
              program.diskNodes[static_cast<size_t>(copy)].flow, to);
        else
          tbb::flow::make_edge(program.flowNodes[source], to);
    }
  }
}

Status Executor::Impl::prepare() {
  CIUIC_TRY(checkBundle(bundle));
  RankRange expected = world ? world->local : RankRange{0, bundle.ranks};
  if (ranks.first != expected.first || ranks.count != expected.count)
    return Status::invalid("arenas of ranks [" + std::to_string(ranks.first) +
                           ", " + std::to_string(ranks.end()) +
                           ") for a program of " +
                           std::to_string(bundle.ranks));
  Status status;
  arena.execute([&] {
    for (uint32_t i = 0; i < bundle.programCount && status.ok(); ++i)
      status = prepareProgram(bundle.programs[i]);
  });
  CIUIC_TRY(std::move(status));
  if (world) {
    CIUIC_TRY(world->commit());
    collectives = std::make_unique<CollectiveThread>(
        [this](size_t node) { executeRemote(node); });
  }
  return workspace.commit(threads);
}

void Executor::Impl::fail(const Node &node, Status status) {
  std::scoped_lock lock(failureMutex);
  if (!failure.ok())
    return;
  failure = std::move(status).during([&] {
    return "running task " + quote(node.task->name) +
           (node.collective ? " of all ranks"
                            : " of rank " + std::to_string(node.rank));
  });
  failed.store(true, std::memory_order_release);
}

void Executor::Impl::execute(Node &node) {
  // After a failure the rest of the graph drains without doing anything.
  if (failed.load(std::memory_order_acquire))
    return;
  if (node.skip && *node.skip != 0.0f)
    return;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = measured ? Clock::now() : Clock::time_point();
  try {
    Status status = node.operation->run();
    if (!status.ok())
      return fail(node, std::move(status));
  } catch (const std::exception &error) {
    return fail(node, Status::machine(error.what()));
  }
  note(node, begin);
}

/// That a task has run.
void Executor::Impl::note(Node &node,
                          std::chrono::steady_clock::time_point begin) {
  using Clock = std::chrono::steady_clock;
  executed[static_cast<size_t>(node.task->kind)].fetch_add(
      1, std::memory_order_relaxed);
  if (!measured)
    return;
  auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(
      Clock::now() - begin);
  // A node is never run twice at a time.
  node.runs += 1;
  node.nanoseconds += static_cast<uint64_t>(elapsed.count());
  if (!timing)
    return;
  // A collective occupies every rank.
  uint64_t weight = node.collective ? ranks.count : 1;
  nanoseconds[static_cast<size_t>(node.timeKind)].fetch_add(
      static_cast<uint64_t>(elapsed.count()) * weight,
      std::memory_order_relaxed);
}

void Executor::Impl::beginDisk(DiskNode &copy,
                               RemoteNode::gateway_type &gateway) {
  if (failed.load(std::memory_order_acquire) ||
      (copy.node.skip && *copy.node.skip != 0.0f)) {
    gateway.try_put(Message());
    return;
  }
  copy.gateway = &gateway;
  copy.begin = std::chrono::steady_clock::now();
  gateway.reserve_wait();
  disk->submit(*copy.node.transfer);
}

void Executor::Impl::endDisk(DiskNode &copy, Status status) {
  if (status.ok())
    note(copy.node, copy.begin);
  else
    fail(copy.node, std::move(status));
  copy.gateway->try_put(Message());
  copy.gateway->release_wait();
}

void Executor::Impl::executeRemote(size_t index) {
  Node &node = running->nodes[index];
  // After a failure the others are not waited for: they are told at the end.
  collectiveArena.execute([&] { execute(node); });
  auto *gateway = running->gateways[static_cast<size_t>(node.remote)];
  gateway->try_put(Message());
  gateway->release_wait();
}

Status Executor::Impl::run(std::string_view name) {
  Program *program = find(name);
  if (!program)
    return Status::invalid("the bundle has no program " + quote(name));
  failed.store(false);
  failure = Status();
  running = program;
  if (collectives)
    collectives->begin(program->remoteOrder);
  try {
    arena.execute([&] {
      program->start->try_put(tbb::flow::continue_msg());
      program->graph->wait_for_all();
    });
  } catch (const std::exception &error) {
    return Status::machine("program " + quote(name) + ": " + error.what());
  }
  std::scoped_lock lock(failureMutex);
  return std::move(failure);
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

Executor::Executor(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>>
Executor::create(const abi::Bundle &bundle, const RankArenas &arenas,
                 const ExecutorOptions &options) {
  try {
    auto impl = std::make_unique<Impl>(bundle, arenas, options);
    CIUIC_TRY(impl->prepare());
    return std::unique_ptr<Executor>(new Executor(std::move(impl)));
  } catch (const std::exception &error) {
    return Status::machine(std::string("cannot prepare the program: ") +
                           error.what());
  }
}

bool Executor::has(std::string_view program) const {
  return impl->find(program) != nullptr;
}
Status Executor::run(std::string_view program) { return impl->run(program); }
Tensor Executor::resolve(const abi::View &view, uint32_t rank) const {
  return impl->resolve(view, rank);
}
int Executor::threads() const { return impl->threads; }
uint64_t Executor::scratchBytes() const {
  return impl->workspace.bytes() +
         (impl->world ? impl->world->stagingBytes() : 0);
}

TimeTable Executor::takeTimes() {
  TimeTable table{};
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<double>(impl->nanoseconds[i].exchange(0)) * 1e-9 /
               impl->ranks.count;
  return table;
}

std::vector<TaskTime> Executor::taskTimes() const {
  std::vector<TaskTime> profile;
  for (const auto &program : impl->programs) {
    std::map<const abi::Task *, TaskTime> tasks;
    for (const Impl::Node &node : program->nodes) {
      TaskTime &entry = tasks[node.task];
      entry.runs += node.runs;
      entry.seconds += static_cast<double>(node.nanoseconds) * 1e-9;
    }
    for (auto &[task, entry] : tasks) {
      entry.program = program->records->name;
      entry.task = static_cast<uint32_t>(task - program->records->tasks);
      profile.push_back(entry);
    }
  }
  return profile;
}

uint64_t Executor::executed(abi::TaskKind kind) const {
  return impl->executed[static_cast<size_t>(kind)].load();
}

} // namespace ciuic::rt
