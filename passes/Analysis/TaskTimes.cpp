//===- TaskTimes.cpp - What a task takes ----------------------------------===//
#include "passes/Analysis/TaskTimes.h"

using namespace mlir;
using namespace ciuic::sched;

/// Of the rate of products, what attention reaches: its products are small
/// and a softmax lies between them.
static constexpr double kAttentionShare = 0.5;

static ViewAttr viewOf(TaskOp task, unsigned view) {
  return cast<ViewAttr>(task.getViews()[view]);
}

static double bytesOf(TaskOp task, unsigned view) {
  return static_cast<double>(viewOf(task, view).getBytes());
}

/// Each view once, twice if it is read and written.
static double bytesOfViews(TaskOp task) {
  double bytes = 0;
  for (Attribute attr : task.getViews()) {
    auto view = cast<ViewAttr>(attr);
    bytes += static_cast<double>(view.getBytes()) *
             (view.getAccess() == Access::Update ? 2 : 1);
  }
  return bytes;
}

/// 2 M N K of [M x N] += op(A) op(B).
static double productFlops(TaskOp task) {
  auto a = viewOf(task, 0).getType(), c = viewOf(task, 2).getType();
  if (a.getNumElements() == 0)
    return 0;
  auto inner = static_cast<double>(a.getDimSize(task.getInts()[0] ? 0 : 1));
  return 2 * static_cast<double>(c.getNumElements()) * inner;
}

/// Of `products` causal products of rows with their own sequence, each of
/// which reads half of it.
static double attentionFlops(TaskOp task, unsigned q, double products) {
  auto elements =
      static_cast<double>(viewOf(task, q).getType().getNumElements());
  return products * elements * static_cast<double>(task.getInts()[0]);
}

TaskWork ciuic::sched::workOf(TaskOp task) {
  TaskWork work;
  auto ranks = static_cast<double>(getRanks(task));
  double others = (ranks - 1) / ranks;
  work.bytes = bytesOfViews(task);
  switch (task.getKind()) {
  case Kind::Gemm:
    work.flops = productFlops(task);
    break;
  case Kind::AttentionForward:
    work.flops = attentionFlops(task, 0, 2);
    break;
  case Kind::AttentionBackward:
    // The scores again, then four products.
    work.flops = attentionFlops(task, 1, 5);
    break;
  case Kind::Embedding:
    // Of the table only the rows that are looked up.
    work.bytes = bytesOf(task, 0) + 2 * bytesOf(task, 2);
    break;
  case Kind::AllGather:
    work.sent = others * bytesOf(task, 1);
    break;
  case Kind::ReduceScatter:
    work.sent = others * bytesOf(task, 0);
    break;
  case Kind::AllReduce:
    work.sent = 2 * others * bytesOf(task, 0);
    break;
  default:
    break;
  }
  return work;
}

static bool isOf16Bits(TaskOp task) {
  return !task.getViews().empty() &&
         viewOf(task, 0).getType().getElementTypeBitWidth() == 16;
}

static bool isCollective(TaskOp task) {
  return llvm::is_contained(
      {Kind::AllGather, Kind::ReduceScatter, Kind::AllReduce}, task.getKind());
}

double ciuic::sched::microsecondsOf(TaskOp task, const Rates &rates) {
  constexpr double second = 1e6;
  TaskWork work = workOf(task);
  // A copy between memories moves its bytes once; a collective and a task of
  // one memory read and write.
  switch (task.getStream()) {
  case Stream::H2D:
  case Stream::D2H:
    return rates.launch + second * work.bytes / 2 / rates.link;
  case Stream::Disk:
    return rates.hostTask + second * work.bytes / 2 / rates.disk;
  case Stream::Host:
    return rates.hostTask + second * work.bytes / rates.host;
  case Stream::Compute:
  case Stream::Gather:
  case Stream::Reduce:
    break;
  }
  double inMemory = second * work.bytes / rates.memory;
  if (isCollective(task))
    return rates.collective +
           std::max(inMemory, second * work.sent / rates.devices);
  bool attends = task.getKind() == Kind::AttentionForward ||
                 task.getKind() == Kind::AttentionBackward;
  double reached = (isOf16Bits(task) ? rates.f16 : rates.f32) *
                   (attends ? kAttentionShare : 1);
  return rates.launch + std::max(inMemory, second * work.flops / reached);
}

double ciuic::sched::transferMicroseconds(double bytes, const Rates &rates) {
  return rates.launch + 1e6 * bytes / rates.link;
}

double ciuic::sched::gatherMicroseconds(double wholeBytes, int64_t ranks,
                                        const Rates &rates) {
  double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return rates.collective + 1e6 * wholeBytes * others / rates.devices;
}
