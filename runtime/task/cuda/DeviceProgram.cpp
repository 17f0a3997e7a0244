//===- DeviceProgram.cpp - A program prepared for one device --------------===//
#include "runtime/task/cuda/DeviceProgram.h"

#include "runtime/base/Quote.h"
#include "runtime/blas/cublaslt/CublasLt.h"
#include "runtime/comm/nccl/NcclRanks.h"
#include "runtime/comm/shared_device/SharedCollectives.h"
#include "runtime/task/cuda/AttentionTasks.h"

#include <algorithm>

namespace ciuic::rt {

DeviceProgram::~DeviceProgram() {
  for (cudaGraphExec_t graph : graphs)
    if (graph && cudaGraphExecDestroy(graph) != cudaSuccess)
      cudaGetLastError();
}

std::string nameTask(const abi::Bundle &bundle, const abi::Program &program,
                     const abi::Task &task, uint32_t rank) {
  constexpr size_t most = 8;
  std::vector<std::string_view> names;
  for (uint32_t i = task.views.begin; i < task.views.end; ++i) {
    std::string_view name = bundle.buffers[program.views[i].buffer].name;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  std::string text =
      "task " + quote(task.name) + " of rank " + std::to_string(rank);
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += (i == 0 ? ", with " : ", ") + quote(names[i]);
  return text + (names.size() > most ? ", ..." : "");
}

namespace {

class Preparer {
public:
  Preparer(const DeviceContext &context, const abi::Program &records)
      : context(context), shared(context.shared), records(records) {}

  Result<std::unique_ptr<DeviceProgram>> prepare() {
    auto program = std::make_unique<DeviceProgram>();
    program->records = &records;
    PlanOptions options;
    options.ranks = context.ranks.count;
    options.sharedCollectives = !shared.nccl;
    options.graphs = shared.options.cuda.graphs && !shared.isTimed();
    program->plan = planProgram(records, options);
    program->graphs.resize(program->plan.graphs.size());
    for (const PlanStep &step : program->plan.steps)
      if (step.kind == PlanStep::Kind::Run) {
        auto made = prepareTask(step.index, context.ranks.first + step.rank);
        if (!made.ok())
          return made.takeStatus().during([&] {
            return "preparing " +
                   nameTask(shared.bundle, records, records.tasks[step.index],
                            context.ranks.first + step.rank) +
                   " of program " + quote(records.name);
          });
        program->tasks.push_back(std::move(*made));
      }
    for (const HostStretch &stretch : program->plan.stretches) {
      CIUIC_TRY_ASSIGN(
          HostTasks::Chain * chain,
          shared.hostTasks->add(records, stretch.tasks,
                                context.ranks.first + stretch.rank));
      program->chains.push_back(chain);
    }
    program->awaited.resize(program->chains.size());
    return program;
  }

private:
  Result<PreparedTask> prepareTask(uint32_t index, uint32_t rank) {
    const abi::Task &task = records.tasks[index];
    PreparedTask made;
    made.task = &task;
    made.index = index;
    made.rank = rank;
    made.collective = isCollective(task.kind);
    CIUIC_TRY_ASSIGN(made.run, makeTask(task, rank));
    if (shared.isTimed()) {
      CIUIC_TRY_ASSIGN(made.begin, CudaEvent::create(CudaEvent::Use::Measure));
      CIUIC_TRY_ASSIGN(made.end, CudaEvent::create(CudaEvent::Use::Measure));
    }
    return made;
  }

  Result<DeviceTaskPtr> makeTask(const abi::Task &task, uint32_t rank) {
    bool collective = isCollective(task.kind);
    bool together = collective && !shared.nccl;
    std::vector<Tensor> views;
    bool onDevice = true;
    for (uint32_t i = task.views.begin; i < task.views.end; ++i)
      onDevice &= shared.memory.arenaOf(records.views[i]) == abi::Arena::Device;
    for (uint32_t r = rank; r < rank + (together ? context.ranks.count : 1);
         ++r)
      for (uint32_t i = task.views.begin; i < task.views.end; ++i)
        views.push_back(shared.memory.resolve(records.views[i], r));
    DeviceTaskArguments arguments;
    arguments.task = &task;
    arguments.records = records.views + task.views.begin;
    arguments.views = views;
    arguments.ints = {records.ints + task.ints.begin,
                      task.ints.end - task.ints.begin};
    arguments.reals = {records.reals + task.reals.begin,
                       task.reals.end - task.reals.begin};
    arguments.device = &context.device;
    arguments.rank = rank;
    arguments.ranks = shared.bundle.ranks;
    if (task.scratchView >= 0)
      arguments.scratch =
          shared.memory.resolve(records.views[task.scratchView], rank);
    if (!onDevice && task.kind != abi::TaskKind::Copy)
      return Status::invalid("a device task with a view of host memory");
    if (collective)
      return together
                 ? makeSharedCollective(arguments, shared.bundle.cudaReduce)
                 : shared.nccl->makeCollective(arguments);
    if (task.kind == abi::TaskKind::Copy && !onDevice)
      return makeTransfer(arguments);
    // Updates see for themselves whether they are skipped: the copy in 16 bits
    // that others take is made in any case.
    bool isUpdate =
        task.kind == abi::TaskKind::Adam || task.kind == abi::TaskKind::Sgd;
    if (task.skipView >= 0 && !isUpdate) {
      const abi::View &skip = records.views[task.skipView];
      if (shared.memory.arenaOf(skip) != abi::Arena::Device)
        return Status::invalid("a device task that host memory skips");
      arguments.skip = shared.memory.resolve(skip, rank).as<const float>();
    }
    if (task.kind == abi::TaskKind::Gemm) {
      if (arguments.skip)
        return Status::invalid("a product that can be skipped");
      return context.products->makeProduct(arguments);
    }
    if (task.kind == abi::TaskKind::AttentionForward ||
        task.kind == abi::TaskKind::AttentionBackward)
      return context.attention->make(arguments);
    if (task.launch)
      return makeLauncher(arguments);
    if (!arguments.skip && task.kind == abi::TaskKind::Copy)
      return makeTransfer(arguments);
    if (!arguments.skip && task.kind == abi::TaskKind::Zero)
      return makeClear(arguments);
    return Status::invalid("the bundle has no launcher for it");
  }

  const DeviceContext &context;
  CudaShared &shared;
  const abi::Program &records;
};

} // namespace

Result<std::unique_ptr<DeviceProgram>>
prepareProgram(const DeviceContext &context, const abi::Program &records) {
  return Preparer(context, records).prepare();
}

} // namespace ciuic::rt
