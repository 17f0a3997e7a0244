//===- DeviceQueue.cpp - The thread that enqueues a device's work ---------===//
#include "runtime/task/cuda/DeviceQueue.h"

#include "runtime/base/Quote.h"
#include "runtime/task/cuda/HostAccess.h"

#include <algorithm>

namespace ciuic::rt {

Result<std::unique_ptr<DeviceQueue>>
DeviceQueue::create(CudaShared &shared, const CudaDevice &device,
                    RankRange ranks, ProductChoices &choices) {
  std::unique_ptr<DeviceQueue> queue(new DeviceQueue(shared, device, ranks));
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  for (uint32_t lane = 0; lane < ranks.count * abi::kStreams; ++lane) {
    auto kind = static_cast<abi::Stream>(lane % abi::kStreams);
    bool exchanges = kind == abi::Stream::Gather || kind == abi::Stream::Reduce;
    CIUIC_TRY_ASSIGN(CudaStream stream, CudaStream::create(exchanges));
    queue->lanes.push_back(std::move(stream));
  }
  for (Row &row : queue->rows) {
    row.queue = queue.get();
    CIUIC_TRY_ASSIGN(row.end, CudaEvent::create(CudaEvent::Use::Order));
  }
  CIUIC_TRY_ASSIGN(queue->flagWait,
                   StreamFlagWait::find(queue->hostOf(0),
                                        shared.hostTasks->flagOf(ranks.first)));
  CIUIC_TRY_ASSIGN(queue->products, CublasLt::create(queue->device, choices,
                                                     shared.options.cuda.tune,
                                                     shared.settings.tf32));
  CIUIC_TRY_ASSIGN(queue->attentions,
                   AttentionTasks::create(shared.options.cuda.attention,
                                          shared.settings.cudnn));
  return queue;
}

DeviceQueue::~DeviceQueue() {
  stop();
  if (cudaSetDevice(device.index) != cudaSuccess)
    cudaGetLastError();
  programs.clear();
}

Status DeviceQueue::prepare() {
  CIUIC_TRY_CUDA(cudaSetDevice, device.index);
  DeviceContext context{shared, device, ranks, products.get(),
                        attentions.get()};
  uint32_t needed = 0;
  for (uint32_t i = 0; i < shared.bundle.programCount; ++i) {
    CIUIC_TRY_ASSIGN(std::unique_ptr<DeviceProgram> program,
                     prepareProgram(context, shared.bundle.programs[i]));
    needed = std::max(needed, program->plan.events);
    programs.push_back(std::move(program));
  }
  while (events.size() < needed) {
    CIUIC_TRY_ASSIGN(CudaEvent event, CudaEvent::create(CudaEvent::Use::Order));
    events.push_back(std::move(event));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// The thread
//===----------------------------------------------------------------------===//

void DeviceQueue::start() {
  thread = std::thread([this] { work(); });
}

void DeviceQueue::stop() {
  {
    std::scoped_lock lock(shared.state.mutex);
    stopping = true;
  }
  shared.state.changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void DeviceQueue::post(const Work &work) {
  {
    std::scoped_lock lock(shared.state.mutex);
    posted.push_back(work);
  }
  shared.state.changed.notify_all();
}

bool DeviceQueue::canGoOn() const {
  if (suspended)
    return shared.hostTasks->reached(suspendedFor, suspendedValue);
  return !posted.empty();
}

void DeviceQueue::work() {
  MachineState &state = shared.state;
  if (cudaError_t error = cudaSetDevice(device.index); error != cudaSuccess)
    return state.fail(toStatus(error, "cudaSetDevice"));
  while (true) {
    Work next;
    {
      std::unique_lock lock(state.mutex);
      state.changed.wait(
          lock, [&] { return stopping || (!state.failed() && canGoOn()); });
      if (stopping)
        return;
      if (!suspended) {
        next = posted.front();
        posted.pop_front();
      }
    }
    Status status;
    if (suspended) {
      suspended = false;
      hostaccess::joins(shared.hostTasks->token(suspendedFor));
      status = goOn();
    } else if (next.program >= 0) {
      status = beginProgram(static_cast<uint32_t>(next.program));
    } else {
      status = copy(next).during([&] {
        return "copying " + std::to_string(next.bytes) +
               (next.piece->write ? " bytes to rank " : " bytes from rank ") +
               std::to_string(next.rank);
      });
    }
    if (!status.ok())
      state.fail(std::move(status));
  }
}

//===----------------------------------------------------------------------===//
// What it enqueues
//===----------------------------------------------------------------------===//

Status DeviceQueue::copy(const Work &work) {
  cudaStream_t stream = computeOf(work.rank - ranks.first);
  StagingPiece &piece = *work.piece;
  hostaccess::label(stream, "a copy of the host");
  if (piece.write)
    CIUIC_TRY_CUDA(cudaMemcpyAsync, work.address, piece.data, work.bytes,
                   cudaMemcpyHostToDevice, stream);
  else
    CIUIC_TRY_CUDA(cudaMemcpyAsync, piece.data, work.address, work.bytes,
                   cudaMemcpyDeviceToHost, stream);
  CIUIC_TRY_CUDA(cudaEventRecord, piece.copied.get(), stream);
  Staging::enqueued(shared.state, piece);
  return {};
}

Status DeviceQueue::beginProgram(uint32_t index) {
  current = programs[index].get();
  nextStep = nextTask = 0;
  // The first run is not captured: libraries load then what they need.
  replaying = current->hasRun;
  current->hasRun = true;
  return goOn();
}

Status DeviceQueue::launch(const PlanStep &step) {
  const PlanGraph &graph = current->plan.graphs[step.index];
  cudaStream_t stream = lanes[step.lane].get();
  uint32_t rank = ranks.first + step.lane / abi::kStreams;
  if (!current->graphs[step.index])
    CIUIC_TRY(capture(step));
  // Within a graph no collective can be watched by itself.
  CIUIC_TRY(shared.watch->begin(rank - shared.ranks.first,
                                current->records->name, nullptr, stream,
                                /*timed=*/true));
  hostaccess::label(stream, current->records->name);
  CIUIC_TRY(toStatus(cudaGraphLaunch(current->graphs[step.index], stream),
                     "cudaGraphLaunch")
                .during([&] {
                  return "starting a graph of program " +
                         quote(current->records->name) + " on rank " +
                         std::to_string(rank);
                }));
  CIUIC_TRY(shared.watch->end(rank - shared.ranks.first, stream));
  for (uint32_t i = 0; i < graph.tasks; ++i)
    ++counts[static_cast<size_t>(current->tasks[nextTask++].task->kind)];
  nextStep = graph.end;
  return {};
}

Status DeviceQueue::capture(const PlanStep &step) {
  const PlanGraph &planned = current->plan.graphs[step.index];
  cudaStream_t stream = lanes[step.lane].get();
  auto during = [&] {
    return "capturing program " + quote(current->records->name);
  };
  CIUIC_TRY(
      toStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture")
          .during(during));
  capturing = true;
  size_t firstTask = nextTask;
  Status status;
  // If others fail meanwhile, it does not come to its end.
  for (uint32_t i = planned.begin;
       i < planned.end && status.ok() && !shared.state.failed(); ++i)
    status = enqueue(current->plan.steps[i]);
  nextTask = firstTask;
  capturing = false;
  cudaGraph_t graph = nullptr;
  cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  CIUIC_TRY(std::move(status));
  Status made = toStatus(ended, "cudaStreamEndCapture");
  if (made.ok())
    made =
        toStatus(cudaGraphInstantiate(&current->graphs[step.index], graph, 0),
                 "cudaGraphInstantiate");
  if (graph && cudaGraphDestroy(graph) != cudaSuccess)
    cudaGetLastError();
  return std::move(made).during(during);
}

Status DeviceQueue::goOn() {
  const std::vector<PlanStep> &steps = current->plan.steps;
  while (nextStep < steps.size()) {
    // Others may have failed: what they would send does not come.
    if (shared.state.failed())
      return {};
    const PlanStep &step = steps[nextStep++];
    if (step.kind == PlanStep::Kind::Graph && replaying)
      CIUIC_TRY(launch(step));
    else
      CIUIC_TRY(enqueue(step));
    if (suspended)
      return {};
  }
  return endProgram();
}

Status DeviceQueue::enqueue(const PlanStep &step) {
  if (step.kind != PlanStep::Kind::Run)
    return enqueueStep(step).during([&] {
      std::string before =
          nextTask < current->tasks.size()
              ? "before " + quote(current->tasks[nextTask].task->name) + " "
              : "";
      return "ordering the streams of rank " +
             std::to_string(ranks.first + step.lane / abi::kStreams) + " " +
             before + "in program " + quote(current->records->name);
    });
  PreparedTask &task = current->tasks[nextTask++];
  return runTask(task, lanes[step.lane].get()).during([&] {
    return "running " +
           nameTask(shared.bundle, *current->records, *task.task, task.rank) +
           ", of program " + quote(current->records->name);
  });
}

Status DeviceQueue::enqueueStep(const PlanStep &step) {
  cudaStream_t stream = lanes[step.lane].get();
  switch (step.kind) {
  case PlanStep::Kind::Run:
  case PlanStep::Kind::Graph:
    return {};
  case PlanStep::Kind::Record:
    CIUIC_TRY_CUDA(cudaEventRecord, events[step.index].get(), stream);
    return {};
  case PlanStep::Kind::Wait:
    CIUIC_TRY_CUDA(cudaStreamWaitEvent, stream, events[step.index].get(), 0);
    return {};
  case PlanStep::Kind::Release: {
    current->awaited[step.index] =
        shared.hostTasks->expect(current->chains[step.index]);
    CIUIC_TRY_CUDA(
        cudaLaunchHostFunc, stream,
        [](void *chain) {
          HostTasks::release(static_cast<HostTasks::Chain *>(chain));
        },
        current->chains[step.index]);
    return {};
  }
  case PlanStep::Kind::Await: {
    const HostTasks::Chain *chain = current->chains[step.index];
    uint32_t value = current->awaited[step.index];
    if (flagWait.available())
      return flagWait.enqueue(stream, shared.hostTasks->flag(chain), value);
    suspended = true;
    suspendedFor = chain;
    suspendedValue = value;
    return {};
  }
  }
  return {};
}

Status DeviceQueue::runTask(PreparedTask &task, cudaStream_t stream) {
  uint32_t row = task.rank - shared.ranks.first;
  bool watched = task.collective && !capturing;
  if (hostaccess::labels)
    hostaccess::label(stream, nameTask(shared.bundle, *current->records,
                                       *task.task, task.rank));
  if (watched)
    CIUIC_TRY(shared.watch->begin(row, current->records->name, task.task,
                                  stream, /*timed=*/true));
  if (shared.isTimed())
    CIUIC_TRY_CUDA(cudaEventRecord, task.begin.get(), stream);
  CIUIC_TRY(task.run->enqueue(stream));
  if (shared.isTimed())
    CIUIC_TRY_CUDA(cudaEventRecord, task.end.get(), stream);
  if (watched)
    CIUIC_TRY(shared.watch->end(row, stream));
  if (!capturing)
    ++counts[static_cast<size_t>(task.task->kind)];
  return {};
}

Status DeviceQueue::endProgram() {
  const char *name = current->records->name;
  for (uint32_t row = 0; row < ranks.count; ++row)
    CIUIC_TRY(endOnRank(row).during([&] {
      return "ending program " + quote(name) + " on rank " +
             std::to_string(ranks.first + row);
    }));
  current = nullptr;
  return {};
}

Status DeviceQueue::endOnRank(uint32_t row) {
  const char *name = current->records->name;
  uint32_t local = ranks.first + row - shared.ranks.first;
  CIUIC_TRY(shared.watch->begin(local, name, nullptr, computeOf(row),
                                /*timed=*/false));
  CIUIC_TRY(shared.watch->end(local, computeOf(row)));
  // Told on the host stream, so that the next program need not wait for it.
  CIUIC_TRY_CUDA(cudaEventRecord, rows[row].end.get(), computeOf(row));
  CIUIC_TRY_CUDA(cudaStreamWaitEvent, hostOf(row), rows[row].end.get(), 0);
  CIUIC_TRY_CUDA(
      cudaLaunchHostFunc, hostOf(row),
      [](void *data) {
        auto *row = static_cast<Row *>(data);
        MachineState &state = row->queue->shared.state;
        {
          std::scoped_lock lock(state.mutex);
          ++row->finished;
        }
        state.changed.notify_all();
      },
      &rows[row]);
  return {};
}

double DeviceQueue::measureProducts(abi::DType dtype) {
  return products->measurePeak(dtype);
}

uint64_t DeviceQueue::executed(abi::TaskKind kind) const {
  return counts[static_cast<size_t>(kind)].load();
}

} // namespace ciuic::rt
