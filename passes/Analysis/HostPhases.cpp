//===- HostPhases.cpp - Host memory of a process beside arenas ------------===//
#include "passes/Analysis/HostPhases.h"

#include "dialect/Train/Train.h"
#include "runtime/abi/Staging.h"
#include "runtime/kernels/host/Scratch.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::sched;

/// Sums stay below; nothing real comes near.
static constexpr int64_t kMost = int64_t(1) << 58;

/// Of a task, and again for each rank that runs it: its records, its operation
/// and its node of the flow graph. Measured 625 bytes a rank and 350 more with
/// 22,000 tasks on x86-64.
static constexpr int64_t kTaskBytes = 1024;

/// Of a tensor of a checkpoint: its entries in tables and in JSON.
static constexpr int64_t kTensorBytes = 4096;

/// Threads have pages of their own.
static constexpr int64_t kPage = 4096;

static int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return llvm::MulOverflow(a, b, product) ? kMost : std::min(product, kMost);
}

int64_t HostPhase::bytes() const {
  int64_t sum = 0;
  for (const HostPart &part : parts)
    sum = std::min(kMost, sum + part.bytes);
  return sum;
}

const HostPhase &
ciuic::sched::highestPhase(const std::vector<HostPhase> &phases) {
  const HostPhase *highest = &phases.front();
  for (const HostPhase &phase : phases)
    if (phase.bytes() > highest->bytes())
      highest = &phase;
  return *highest;
}

static RankedTensorType typeOf(TaskOp task, unsigned view) {
  return cast<ViewAttr>(task.getViews()[view]).getType();
}

static int64_t columnsOf(RankedTensorType type) {
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

/// Bytes that one thread uses while it runs a task on a CPU; 0: none.
static int64_t threadBytes(TaskOp task) {
  ArrayRef<int64_t> ints = task.getInts();
  switch (task.getKind()) {
  case Kind::Gemm:
    return rt::gemmMostScratch;
  case Kind::AttentionForward:
    return 4 * rt::attentionForwardScratch(columnsOf(typeOf(task, 0)) /
                                           std::max<int64_t>(1, ints[1]));
  case Kind::AttentionBackward:
    return 4 * rt::attentionBackwardScratch(ints[0],
                                            columnsOf(typeOf(task, 1)) /
                                                std::max<int64_t>(1, ints[1]));
  default:
    return 0;
  }
}

namespace {
/// What the phases are put together from.
class Parts {
public:
  Parts(ModuleOp module, const ProcessFacts &facts)
      : module(module), facts(facts), cuda(isForCuda(module)),
        ranks(getRanks(module)),
        local(llvm::divideCeilSigned(ranks, facts.processes)) {}

  std::vector<HostPart> always();
  std::vector<HostPart> filling(bool fresh);
  std::vector<HostPart> saving(bool all);

private:
  HostPart taskScratch();
  int64_t tensors(bool all);

  ModuleOp module;
  const ProcessFacts &facts;
  const bool cuda;
  const int64_t ranks, local;
};
} // namespace

HostPart Parts::taskScratch() {
  int64_t most = 0, widest = 0;
  for (auto program : module.getOps<ProgramOp>())
    for (auto task : program.getBody().getOps<TaskOp>()) {
      if (!cuda || task.getStream() == Stream::Host)
        most = std::max(most, threadBytes(task));
      if (task.getKind() == Kind::ReduceScatter ||
          task.getKind() == Kind::AllReduce)
        widest = std::max<int64_t>(
            widest, typeOf(task, 0).getElementTypeBitWidth() / 8);
    }
  HostPart part{"scratch of tasks", "the largest of any task, for each thread",
                times(llvm::alignTo(most, kPage), facts.threads)};
  // Devices reduce among processes by themselves.
  if (facts.processes > 1 && widest > 0 && !cuda) {
    part.source += ", and what a reduction sends to other processes at once";
    part.bytes += abi::exchangeStaging(ranks, local, widest);
  }
  return part;
}

/// What a process holds from its start to its end.
std::vector<HostPart> Parts::always() {
  std::vector<HostPart> parts;
  for (const ProcessReserve &reserve : facts.reserve)
    parts.push_back(
        {reserve.name, reserve.source,
         times(reserve.bytes, reserve.ofThread ? facts.threads : 1)});
  int64_t tasks = 0, inputs = 0;
  for (auto program : module.getOps<ProgramOp>())
    tasks +=
        static_cast<int64_t>(program.getBody().front().getOperations().size());
  for (auto buffer : module.getOps<BufferOp>())
    if (!buffer.getState() && !buffer.getProgram() && !buffer.getConstant())
      inputs += static_cast<int64_t>(buffer.getBytes());
  parts.push_back({"tasks",
                   std::to_string(tasks) + " tasks of " +
                       std::to_string(local) + " ranks, " +
                       std::to_string(kTaskBytes) +
                       " bytes for each and each of its ranks",
                   times(times(tasks, local + 1), kTaskBytes)});
  parts.push_back({"batch", "the tokens and labels of a rank's micro-step",
                   std::min(inputs, kMost)});
  parts.push_back(taskScratch());
  if (cuda)
    parts.push_back(
        {"pinned staging",
         std::to_string(abi::kPinnedPieces) + " pieces of " +
             std::to_string(abi::kPinnedPieceBytes) + " bytes for each rank",
         times(local, abi::kPinnedPieces * int64_t(abi::kPinnedPieceBytes))});
  return parts;
}

/// Tensors of a checkpoint, or of weights alone.
int64_t Parts::tensors(bool all) {
  int64_t parameters = 0;
  llvm::StringSet<> slots;
  for (auto state : module.getOps<train::StateOp>()) {
    if (state.getBucket())
      ++parameters;
    if (state.getRole() == train::Role::Moment && state.getSlot())
      slots.insert(*state.getSlot());
  }
  return parameters * (all ? 1 + static_cast<int64_t>(slots.size()) : 1);
}

/// What states are given their first values with, or those of a checkpoint.
std::vector<HostPart> Parts::filling(bool fresh) {
  HostPart filling{"staging of values",
                   "what all threads read and convert at once, at most",
                   abi::kFillStagingBytes};
  if (fresh && !cuda) {
    // Products are measured when states are filled.
    int64_t side = abi::kMeasuredProduct;
    HostPart measured{
        "measured products",
        "three matrices of " + std::to_string(side) + " rows, and scratch",
        3 * 4 * side * side + times(rt::gemmMostScratch, facts.threads)};
    if (measured.bytes > filling.bytes)
      filling = measured;
  }
  return {filling,
          {"tensors of files", "the tables of what files hold",
           times(tensors(!fresh), kTensorBytes)}};
}

/// What states are written to files with.
std::vector<HostPart> Parts::saving(bool all) {
  return {{"staging of a tensor",
           "a piece of one tensor that is collected, and its conversion",
           abi::kSaveStagingBytes},
          {"tensors of files", "the tables of what files hold",
           times(tensors(all), kTensorBytes)}};
}

std::vector<HostPhase> ciuic::sched::findHostPhases(ModuleOp module,
                                                    const ProcessFacts &facts) {
  Parts parts(module, facts);
  const std::vector<HostPart> always = parts.always();
  std::vector<HostPhase> phases;
  auto add = [&](const char *name, std::vector<HostPart> more) {
    phases.push_back({name, always});
    llvm::append_range(phases.back().parts, std::move(more));
  };
  add("start", parts.filling(/*fresh=*/true));
  add("step", {});
  add("checkpoint", parts.saving(/*all=*/true));
  add("resume", parts.filling(/*fresh=*/false));
  add("export", parts.saving(/*all=*/false));
  return phases;
}
