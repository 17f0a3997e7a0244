//===- FuseLoss.cpp - Makes one task of a loss and its gradient -----------===//
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Sched/Passes.h"
#include "passes/Sched/TaskOrder.h"

namespace ciuic::sched {
#define GEN_PASS_DEF_FUSELOSSPASS
#include "passes/Sched/Passes.h.inc"

using namespace mlir;

/// Places of the views of the two kinds; see abi::TaskKind.
enum LossView { Logits, Labels, Loss, Count, Lse };
enum GradView { Seed, GradLogits, GradLabels, GradLse, DLogits };

static ViewAttr viewOf(TaskOp task, unsigned i) {
  return cast<ViewAttr>(task.getViews()[i]);
}

/// Whether two views are the same bytes, whatever is done to them.
static bool samePlace(ViewAttr a, ViewAttr b) {
  return a.getBuffer() == b.getBuffer() && a.getOffset() == b.getOffset() &&
         a.getRankStride() == b.getRankStride() && a.getType() == b.getType();
}

static SmallVector<ViewAttr> touchesOf(TaskOp task) {
  SmallVector<ViewAttr> views;
  for (Attribute view : task.getViews())
    views.push_back(cast<ViewAttr>(view));
  if (task.getSkip())
    views.push_back(*task.getSkip());
  if (task.getScratch())
    views.push_back(*task.getScratch());
  return views;
}

namespace {
struct FuseLoss : impl::FuseLossPassBase<FuseLoss> {
  void runOnOperation() final {
    ModuleOp module = getOperation();
    ranks = getRanks(module);
    SymbolTable symbols(module);
    for (auto program : module.getOps<ProgramOp>()) {
      // What touches each buffer, to find who else wants an lse.
      users.clear();
      SmallVector<TaskOp> gradients;
      for (auto task : program.getBody().getOps<TaskOp>()) {
        for (ViewAttr view : touchesOf(task))
          users[view.getBuffer().getAttr()].push_back(task);
        if (task.getKind() == Kind::CrossEntropyGrad)
          gradients.push_back(task);
      }
      for (TaskOp gradient : gradients)
        fuse(gradient, symbols);
    }
  }

  /// Whether the tasks touch the same bytes, one of them writing.
  bool conflict(TaskOp a, TaskOp b) const {
    for (ViewAttr x : touchesOf(a))
      for (ViewAttr y : touchesOf(b))
        if (x.getBuffer() == y.getBuffer() && touch(x).conflicts(touch(y)))
          return true;
    return false;
  }
  Touch touch(ViewAttr view) const {
    int64_t reach = (ranks - 1) * view.getRankStride() + view.getBytes();
    return {0, view.getOffset(), view.getOffset() + reach, view.writes()};
  }

  static void missed(TaskOp gradient, const Twine &why) {
    remark::missed(gradient.getLoc(),
                   remark::RemarkOpts::name("LossNotFused").category("sched"))
        << remark::reason("{0}", why.str());
  }

  /// The loss whose lse the gradient reads, if the two alone use it.
  TaskOp lossOf(TaskOp gradient) {
    ViewAttr lse = viewOf(gradient, GradLse);
    TaskOp loss;
    for (TaskOp user : users.lookup(lse.getBuffer().getAttr())) {
      if (user == gradient)
        continue;
      if (loss || user.getKind() != Kind::CrossEntropy ||
          !user->isBeforeInBlock(gradient) ||
          !samePlace(viewOf(user, Lse), lse)) {
        missed(gradient, "\"" + user.getName() + "\" uses " +
                             lse.getBuffer().getValue() + " too");
        return {};
      }
      loss = user;
    }
    if (!loss ||
        !samePlace(viewOf(loss, Logits), viewOf(gradient, GradLogits)) ||
        !samePlace(viewOf(loss, Labels), viewOf(gradient, GradLabels))) {
      missed(gradient, "no loss of the same logits and labels makes its " +
                           lse.getBuffer().getValue());
      return {};
    }
    return loss;
  }

  void fuse(TaskOp gradient, SymbolTable &symbols) {
    TaskOp loss = lossOf(gradient);
    if (!loss)
      return;
    if (loss.getStream() != gradient.getStream() || loss.getSkip() ||
        gradient.getSkip() || loss.getScratch() || gradient.getScratch())
      return missed(gradient, "it runs under other conditions than the loss");

    // What needs the loss moves behind the gradient, which must not need it.
    SmallVector<TaskOp> later = {loss};
    for (Operation *op = loss->getNextNode(); op != gradient;
         op = op->getNextNode()) {
      auto task = dyn_cast<TaskOp>(op);
      if (!task)
        return missed(gradient, "between them is what is no task");
      if (llvm::none_of(later,
                        [&](TaskOp other) { return conflict(other, task); }))
        continue;
      if (task.getStream() != loss.getStream())
        return missed(gradient, "\"" + task.getName() + "\" on " +
                                    stringifyStream(task.getStream()) +
                                    " needs the loss before");
      if (conflict(task, gradient))
        return missed(gradient, "\"" + task.getName() +
                                    "\" needs the loss, or what the gradient "
                                    "replaces, before");
      later.push_back(task);
    }
    for (TaskOp task : later)
      if (!task.getAfter().empty() || !task.getDone().use_empty())
        return missed(gradient, "the tasks are ordered already");
    if (!gradient.getAfter().empty() || !gradient.getDone().use_empty())
      return missed(gradient, "the tasks are ordered already");

    OpBuilder builder(gradient);
    SmallVector<Attribute> views = {
        viewOf(gradient, Seed), viewOf(loss, Logits),
        viewOf(loss, Labels),   viewOf(loss, Loss),
        viewOf(loss, Count),    viewOf(gradient, DLogits)};
    auto fused = TaskOp::create(
        builder, loss.getLoc(), loss.getDone().getType(),
        KindAttr::get(&getContext(), Kind::CrossEntropyWithGrad),
        loss.getNameAttr(), loss.getStreamAttr(), ValueRange{},
        /*kernel=*/FlatSymbolRefAttr(), builder.getArrayAttr(views),
        builder.getDenseI64ArrayAttr({}), builder.getDenseF64ArrayAttr({}),
        /*skip=*/ViewAttr(), /*scratch=*/ViewAttr());
    Operation *last = fused;
    for (TaskOp task : ArrayRef(later).drop_front()) {
      task->moveAfter(last);
      last = task;
    }
    remark::passed(loss.getLoc(),
                   remark::RemarkOpts::name("LossFused").category("sched"))
        << remark::add("{0}: a pass less over {1} bytes of logits",
                       loss.getName(), viewOf(loss, Logits).getBytes());
    auto lse =
        symbols.lookup<BufferOp>(viewOf(loss, Lse).getBuffer().getAttr());
    // Later gradients look among the tasks that are still there.
    for (TaskOp gone : {gradient, loss}) {
      for (ViewAttr view : touchesOf(gone))
        llvm::erase(users[view.getBuffer().getAttr()], gone);
      gone.erase();
    }
    for (ViewAttr view : touchesOf(fused))
      users[view.getBuffer().getAttr()].push_back(fused);
    if (lse && lse.getProgram())
      symbols.erase(lse);
  }

  int64_t ranks = 1;
  llvm::DenseMap<StringAttr, SmallVector<TaskOp>> users;
};
} // namespace
} // namespace ciuic::sched
