//===- OrderTasks.cpp - Says which tasks each task must wait for ----------===//
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Analysis/Timeline.h"
#include "passes/Sched/JustInTime.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/TaskOrder.h"
#include "passes/Sched/TouchIndex.h"
#include "llvm/Support/Format.h"

#include <queue>

namespace ciuic::sched {
#define GEN_PASS_DEF_ORDERTASKSPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

namespace {

/// Transfers on a stream of their own for one use, and the buffers they fill or
/// drain.
struct Transfer {
  unsigned task;    ///< The first of them, and
  unsigned last;    ///< the last, in program order.
  unsigned edge;    ///< First task that uses what they fill; or that fills it.
  unsigned lastUse; ///< Of what they fill.
};

struct OrderTasks : impl::OrderTasksPassBase<OrderTasks> {
  using OrderTasksPassBase::OrderTasksPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    if (prefetch < 0 || depth < 1 || !(slack >= 0)) {
      module.emitError() << "prefetch is " << prefetch.getValue() << ", depth "
                         << depth.getValue() << " and slack "
                         << slack.getValue()
                         << ", expected at least 0, 1 and 0";
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (auto program : module.getOps<ProgramOp>())
      order(program, symbols);
  }

  void order(ProgramOp program, SymbolTable &symbols) {
    TaskOrder tasks(program, /*withEvents=*/false);
    unsigned count = tasks.tasks().size();
    // Waits that keep the side streams from running ahead, by task.
    SmallVector<SmallVector<unsigned, 2>> throttles(count);
    JustInTime inTime(tasks, slack);
    throttleFills(tasks, symbols, inTime, throttles);
    throttleDrains(tasks, symbols, throttles);
    throttleReads(tasks, symbols, throttles);

    // Touches of each buffer so far, as tasks are gone through in order.
    llvm::DenseMap<StringAttr, TouchIndex> before;
    SmallVector<SmallVector<std::pair<StringAttr, Touch>>> mine(count);
    for (auto &[buffer, touches] : tasks.touches())
      for (const Touch &touch : touches)
        mine[touch.task].push_back({buffer, touch});

    unsigned events = 0;
    for (unsigned task = 0; task < count; ++task) {
      SmallVector<unsigned, 2> needed = throttles[task];
      for (auto &[buffer, touch] : mine[task])
        before[buffer].forEachConflict(touch, [&](const Touch &other) {
          needed.push_back(other.task);
          return true;
        });
      // Latest first: they imply the most.
      llvm::sort(needed, std::greater<>());
      SmallVector<Value> added;
      for (unsigned earlier : needed)
        if (tasks.addWait(task, earlier))
          added.push_back(TaskOp(tasks.tasks()[earlier]).getDone());
      tasks.finish(task);
      TaskOp(tasks.tasks()[task]).getAfterMutable().assign(added);
      events += added.size();
      for (auto &[buffer, touch] : mine[task])
        before[buffer].add(touch);
    }
    remark::analysis(program.getLoc(),
                     remark::RemarkOpts::name("Ordered").category("sched"))
        << remark::add("program {0}: {1} tasks, {2} events",
                       program.getSymName(), count, events);
    reportTimes(program);
  }

  /// What the program takes, and which streams work for how long.
  static void reportTimes(ProgramOp program) {
    Timeline times = playProgram(program, getRates(program));
    std::string busy;
    llvm::raw_string_ostream os(busy);
    for (auto [stream, microseconds] : llvm::enumerate(times.busy))
      if (microseconds > 0)
        os << ", " << stringifyStream(static_cast<Stream>(stream)) << " "
           << llvm::format("%.1f %%", 100 * microseconds / times.total);
    remark::analysis(program.getLoc(),
                     remark::RemarkOpts::name("Timed").category("time"))
        << remark::add("program {0}: {1:f1} us{2}", program.getSymName(),
                       times.total, busy);
  }

  /// Whether `buffer` belongs to a program: its bytes are reused.
  static bool isTransient(SymbolTable &symbols, StringAttr buffer) {
    auto op = symbols.lookup<BufferOp>(buffer);
    return op && op.getProgram();
  }

  /// Of a task that moves: (from, to) are views 0 and 1.
  static bool moves(TaskOp task) { return task.getViews().size() >= 2; }

  static bool fillsScalar(TaskOp task) {
    return cast<ViewAttr>(task.getViews()[1]).getType().getRank() == 0;
  }

  static StringAttr bufferOf(TaskOp task, unsigned view) {
    return cast<ViewAttr>(task.getViews()[view]).getBuffer().getAttr();
  }

  /// What transfers of a stream are counted with: copies for uses apart from
  /// others, those of states apart from those of what a program computes.
  static unsigned classOf(SymbolTable &symbols, TaskOp task) {
    if (!task->hasAttr(kUseAttr))
      return 0;
    return isTransient(symbols, bufferOf(task, 0)) ? 2 : 1;
  }
  static constexpr unsigned classes = 3;

  /// The transfers of `stream` of a class; those for one use are one. `find`
  /// says of a task's number what it fills or drains, if it counts.
  template <typename Fn>
  SmallVector<Transfer> collect(TaskOrder &tasks, SymbolTable &symbols,
                                Stream stream, unsigned ofClass, Fn find) {
    SmallVector<Transfer> found;
    StringAttr lastUse;
    for (auto [number, task] : llvm::enumerate(tasks.tasks())) {
      TaskOp op = task;
      if (op.getStream() != stream || !moves(op) ||
          classOf(symbols, op) != ofClass)
        continue;
      std::optional<Transfer> one = find(static_cast<unsigned>(number), op);
      if (!one)
        continue;
      auto use = op->getAttrOfType<StringAttr>(kUseAttr);
      if (use && use == lastUse) {
        Transfer &all = found.back();
        all.last = one->last;
        all.edge = std::min(all.edge, one->edge);
        all.lastUse = std::max(all.lastUse, one->lastUse);
      } else {
        found.push_back(*one);
      }
      lastUse = use;
    }
    return found;
  }

  /// Gathers and copies fill a buffer ahead of its use.
  void throttleFills(TaskOrder &tasks, SymbolTable &symbols,
                     const JustInTime &inTime,
                     SmallVector<SmallVector<unsigned, 2>> &throttles) {
    auto find = [&](unsigned number, TaskOp op) -> std::optional<Transfer> {
      // A scalar that the host reads all along holds back no bucket. What the
      // host computes and sends up is held back by what drains it there.
      if (fillsScalar(op) || !isTransient(symbols, bufferOf(op, 1)) ||
          (op.getStream() == Stream::H2D && !op->hasAttr(kUseAttr) &&
           isTransient(symbols, bufferOf(op, 0))))
        return std::nullopt;
      Transfer fill{number, number, 0, 0};
      for (const Touch &touch : tasks.touches().find(bufferOf(op, 1))->second) {
        if (touch.task <= number)
          continue;
        fill.edge = fill.edge ? fill.edge : touch.task;
        fill.lastUse = touch.task;
      }
      return fill.edge ? std::optional(fill) : std::nullopt;
    };
    for (Stream stream : {Stream::Gather, Stream::D2H, Stream::H2D})
      for (unsigned of = 0; of < classes; ++of)
        throttleFills(tasks, collect(tasks, symbols, stream, of, find), inTime,
                      throttles);
    // What a program kept on the host comes back where it says, no earlier.
    for (const Transfer &fill :
         collect(tasks, symbols, Stream::H2D, /*ofClass=*/2, find))
      for (unsigned earlier = fill.task; earlier-- > 0;)
        if (tasks.streamOf(earlier) == unsigned(Stream::Compute)) {
          throttles[fill.task].push_back(earlier);
          break;
        }
  }

  void throttleFills(TaskOrder &tasks, ArrayRef<Transfer> fills,
                     const JustInTime &inTime,
                     SmallVector<SmallVector<unsigned, 2>> &throttles) {
    int64_t ahead = prefetch;
    for (auto [k, fill] : llvm::enumerate(fills)) {
      // Until the bucket `ahead` before this one is first used, i.e. until
      // the task before that use on its stream is done; later if that is in
      // time.
      if (static_cast<int64_t>(k) >= ahead)
        if (int64_t start = taskBefore(tasks, fills[k - ahead].edge);
            start >= 0 && start < fill.task)
          throttles[fill.task].push_back(
              startInTime(tasks, start, fill, inTime));
      // And until the one before that is used up, so that no more than
      // ahead + 1 are held.
      if (static_cast<int64_t>(k) > ahead &&
          fills[k - ahead - 1].lastUse < fill.task)
        throttles[fill.task].push_back(fills[k - ahead - 1].lastUse);
    }
  }

  /// What is read from files is read as far ahead as program order says: when
  /// all that was read before and is used up by then is.
  void throttleReads(TaskOrder &tasks, SymbolTable &symbols,
                     SmallVector<SmallVector<unsigned, 2>> &throttles) {
    // The last use of what each read before this one fills, the earliest first.
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> uses;
    // Used up before this read; the latest of each stream implies the others.
    std::array<int64_t, kStreams> latest;
    latest.fill(-1);
    for (auto [number, task] : llvm::enumerate(tasks.tasks())) {
      TaskOp op = task;
      if (op.getStream() != Stream::Disk || !moves(op) ||
          !isTransient(symbols, bufferOf(op, 1)))
        continue;
      for (; !uses.empty() && uses.top() < number; uses.pop())
        latest[tasks.streamOf(uses.top())] = uses.top();
      for (int64_t use : latest)
        if (use >= 0)
          throttles[number].push_back(use);
      // One a stream: they may end in any order.
      std::array<int64_t, kStreams> last;
      last.fill(-1);
      for (const Touch &touch : tasks.touches().find(bufferOf(op, 1))->second)
        last[tasks.streamOf(touch.task)] = touch.task;
      for (int64_t use : last)
        if (use > static_cast<int64_t>(number))
          uses.push(use);
    }
  }

  /// The task after which `fill` starts: `start`, or a later one of its stream
  /// that leaves as much time as the fill takes.
  static unsigned startInTime(const TaskOrder &tasks, unsigned start,
                              const Transfer &fill, const JustInTime &inTime) {
    if (tasks.streamOf(start) != tasks.streamOf(fill.edge))
      return start;
    double microseconds = 0;
    for (unsigned task = fill.task; task <= fill.last; ++task)
      if (tasks.streamOf(task) == tasks.streamOf(fill.task))
        microseconds += inTime.microsecondsOf(task);
    return inTime.findStart(start, fill.task, fill.edge, microseconds);
  }

  /// The last task before `task` on its stream; -1 if there is none.
  static int64_t taskBefore(const TaskOrder &tasks, unsigned task) {
    for (int64_t i = static_cast<int64_t>(task) - 1; i >= 0; --i)
      if (tasks.streamOf(i) == tasks.streamOf(task))
        return i;
    return -1;
  }

  /// Reductions, gathers of updates and copies drain a buffer.
  void throttleDrains(TaskOrder &tasks, SymbolTable &symbols,
                      SmallVector<SmallVector<unsigned, 2>> &throttles) {
    auto find = [&](unsigned number, TaskOp op) -> std::optional<Transfer> {
      if (!isTransient(symbols, bufferOf(op, 0)))
        return std::nullopt;
      unsigned first =
          tasks.touches().find(bufferOf(op, 0))->second.front().task;
      // What its own stream filled held nothing back.
      if (first >= number || tasks.streamOf(first) == tasks.streamOf(number))
        return std::nullopt;
      return Transfer{number, number, first, 0};
    };
    for (Stream stream :
         {Stream::Gather, Stream::Reduce, Stream::H2D, Stream::D2H})
      for (unsigned of = 0; of < classes; ++of) {
        auto drains = collect(tasks, symbols, stream, of, find);
        for (size_t k = depth; k < drains.size(); ++k)
          if (drains[k - depth].last < drains[k].edge)
            throttles[drains[k].edge].push_back(drains[k - depth].last);
      }
  }
};
} // namespace
} // namespace ciuic::sched
