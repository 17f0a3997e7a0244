//===- ShardApplyStep.cpp - The optimizer step on buckets -----------------===//
//
// @apply_step of one device reads gradients, sums their squares and updates
// each parameter. Afterwards it brings gradients together where the stage
// does so once a step, sums squares and metrics over ranks, and has one group
// of update, rounding, gather and writes for each bucket.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Comm/Shard.h"
#include "passes/Comm/UseGroups.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace ciuic;
using namespace ciuic::comm;
using train::Role;
using train::StateOp;

namespace {
class ApplyStep {
public:
  ApplyStep(func::FuncOp function, const ShardContext &context)
      : function(function), context(context), symbols(context.symbols) {}

  LogicalResult run();

private:
  LogicalResult findUpdates();
  LogicalResult checkUpdate(LogicalParameter &parameter);
  LogicalResult checkUniform(const Bucket &bucket);
  void readGradients(Operation *anchor);
  LogicalResult replaceSquareSums();
  void sumMetrics();
  void updateBucket(unsigned index, Operation *anchor);
  void setDecay(Operation *update, const Bucket &bucket);
  Value gather(OpBuilder &builder, Location loc, Value chunk,
               const Bucket &bucket);
  void eraseDead();

  StringAttr use(const Bucket &bucket, StringRef what) {
    return StringAttr::get(function.getContext(), bucket.stateName(what));
  }

  func::FuncOp function;
  const ShardContext &context;
  SymbolTable &symbols;
  /// Operations of the unsharded step, in order: erased once replaced.
  llvm::SetVector<Operation *> dead;
  /// The mean gradient of a bucket, in the layout of its optimizer states.
  llvm::DenseMap<unsigned, Value> gradient;
  int64_t gatheredBytes = 0, reducedBytes = 0;
};
} // namespace

static bool isUpdate(Operation &op) {
  return isa<train::AdamOp, train::SGDOp>(op);
}

/// Whether `op` writes `state`.
static bool writes(Operation *op, StateOp state) {
  auto write = dyn_cast<train::WriteOp>(op);
  return write && state && write.getState() == state.getSymName();
}

LogicalResult ApplyStep::run() {
  if (failed(findUpdates()))
    return failure();
  for (const Bucket &bucket : context.plan.buckets)
    if (bucket.trainable && failed(checkUniform(bucket)))
      return failure();

  Operation *first = nullptr, *lastUpdate = nullptr;
  for (Operation &op : function.front()) {
    if (!first && (isUpdate(op) || isa<train::SquareSumOp>(op)))
      first = &op;
    if (isUpdate(op))
      lastUpdate = &op;
  }
  if (first)
    readGradients(first);
  if (failed(replaceSquareSums()))
    return failure();
  sumMetrics();
  if (lastUpdate)
    for (unsigned i = 0; i < context.plan.buckets.size(); ++i)
      if (context.plan.buckets[i].trainable)
        updateBucket(i, lastUpdate);
  function.walk([&](train::GradScaleOp op) {
    double slots = op.getSlots().convertToDouble();
    op.setSlots(APFloat(slots * double(context.axis.getSize())));
  });
  eraseDead();

  remark::analysis(function.getLoc(), remark::RemarkOpts::name("ApplyStep")
                                          .category("comm")
                                          .function(function.getName()))
      << remark::add("@{0} gathers {1} bytes and reduces {2} bytes over {3} "
                     "ranks",
                     function.getName(), gatheredBytes, reducedBytes,
                     context.axis.getSize());
  return success();
}

//===----------------------------------------------------------------------===//
// What the unsharded step says
//===----------------------------------------------------------------------===//

/// Every update has the form that a bucket's can replace, and all that it
/// takes and gives is noted in `dead`.
LogicalResult ApplyStep::findUpdates() {
  for (auto &[name, parameter] : context.parameters)
    if (parameter.update && failed(checkUpdate(parameter)))
      return failure();
  return success();
}

LogicalResult ApplyStep::checkUpdate(LogicalParameter &parameter) {
  Operation *op = parameter.update;
  StringRef name = parameter.state.getSymName();
  // Operands: value, gradient, moments; results: value, moments.
  unsigned moments = op->getNumResults() - 1;
  StateOp target = parameter.master ? parameter.master : parameter.state;
  auto follows = [&](Value value, Role role) {
    StateOp state = readState(value, role, symbols);
    return state && state.getOf() == name ? state : StateOp();
  };

  bool updatesTarget =
      readState(op->getOperand(0), target.getRole(), symbols) == target;
  if (!updatesTarget)
    return op->emitOpError() << "does not update @" << target.getSymName()
                             << ", the most precise copy of @" << name;
  if (!follows(op->getOperand(1), Role::Gradient))
    return op->emitOpError() << "takes for @" << name
                             << " a gradient that is not train.read of its "
                                "gradient state";
  for (Operation *user : op->getResult(0).getUsers()) {
    auto narrow = dyn_cast<arith::TruncFOp>(user);
    bool known = writes(user, target) ||
                 (narrow && llvm::all_of(narrow->getUsers(), [&](auto *writer) {
                    return writes(writer, parameter.state);
                  }));
    if (!known)
      return user->emitOpError() << "uses the updated @" << name
                                 << ", expected only writes of it and of its "
                                    "rounded copy";
    dead.insert(user);
    dead.insert_range(user->getUsers());
  }
  for (unsigned i = 0; i < moments; ++i) {
    StateOp moment = follows(op->getOperand(2 + i), Role::Moment);
    if (!moment)
      return op->emitOpError() << "takes for @" << name
                               << " a moment that is not train.read of one of "
                                  "its moments";
    for (Operation *user : op->getResult(1 + i).getUsers()) {
      if (!writes(user, moment))
        return user->emitOpError()
               << "uses the updated @" << moment.getSymName()
               << ", expected only a write of it";
      dead.insert(user);
    }
  }
  dead.insert(op);
  for (unsigned i = 0; i < 2 + moments; ++i)
    dead.insert(op->getOperand(i).getDefiningOp());
  return success();
}

/// Attributes that all updates of a bucket must share: all but decay, which
/// may be one value for some members and 0 for others.
static NamedAttrList sharedAttributes(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  for (StringRef own : {StringRef("decay"), StringRef("undecayed"),
                        StringRef(train::kBlockAttr)})
    attributes.erase(own);
  return attributes;
}

static double decayOf(Operation *op) {
  return TypeSwitch<Operation *, double>(op).Case<train::AdamOp, train::SGDOp>(
      [](auto update) { return update.getDecay().convertToDouble(); });
}

static ArrayRef<int64_t> undecayedOf(Operation *op) {
  return TypeSwitch<Operation *, ArrayRef<int64_t>>(op)
      .Case<train::AdamOp, train::SGDOp>(
          [](auto update) { return update.getUndecayed(); });
}

LogicalResult ApplyStep::checkUniform(const Bucket &bucket) {
  LogicalParameter &head = *bucket.members.front().parameter;
  unsigned moments = head.update->getNumResults() - 1;
  double decay = 0.0;
  for (const Member &member : bucket.members) {
    Operation *op = member.parameter->update;
    auto disagrees = [&](StringRef what) {
      return op->emitOpError()
             << "updates @" << member.parameter->state.getSymName()
             << " with other " << what << " than @" << head.state.getSymName()
             << ", which shares bucket @" << bucket.name;
    };
    if (op->getName() != head.update->getName())
      return disagrees("optimizer");
    if (sharedAttributes(op) != sharedAttributes(head.update))
      return disagrees("hyperparameters");
    if (op->getOperands().drop_front(2 + moments) !=
        head.update->getOperands().drop_front(2 + moments))
      return disagrees("scalars");
    if (decayOf(op) != 0.0 && decay != 0.0 && decayOf(op) != decay)
      return disagrees("weight decay");
    if (decayOf(op) != 0.0)
      decay = decayOf(op);
    for (unsigned i = 0; i < moments; ++i) {
      StateOp own = readState(op->getOperand(2 + i), Role::Moment, symbols);
      StateOp first =
          readState(head.update->getOperand(2 + i), Role::Moment, symbols);
      if (own.getSlot() != first.getSlot() || own.getInit() != first.getInit())
        return disagrees("moments");
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Gradients, norm and metrics
//===----------------------------------------------------------------------===//

/// Reads each bucket's gradient before `anchor`, and brings the ranks' whole
/// ones together where the micro-steps have not done so.
void ApplyStep::readGradients(Operation *anchor) {
  OpBuilder builder(anchor);
  Type f32 = builder.getF32Type();
  for (auto [index, bucket] : llvm::enumerate(context.plan.buckets)) {
    if (!bucket.trainable)
      continue;
    const ZeroRow &row = *bucket.row;
    Location loc = named(anchor, bucket.stateName("grad"));
    Value value = train::ReadOp::create(
        builder, loc, bucket.type(row.gradient, f32), bucket.stateName("grad"));
    if (row.reduceAt == ReduceAt::ApplyStep) {
      Type wire = context.communicationType ? context.communicationType : f32;
      value = convertFloat(builder, loc, value, wire);
      reducedBytes += train::bytesOf(value.getType());
      if (row.optimizer == Layout::Whole)
        value = AllReduceOp::create(builder, loc, value, Reduction::Mean,
                                    context.axis, use(bucket, "grad"));
      else
        value = ReduceScatterOp::create(
            builder, loc, bucket.type(Layout::Chunk, wire), value,
            Reduction::Mean, context.axis, use(bucket, "grad"));
      value = convertFloat(builder, loc, value, f32);
    }
    gradient[index] = value;
  }
}

LogicalResult ApplyStep::replaceSquareSums() {
  for (auto sum :
       llvm::to_vector(function.front().getOps<train::SquareSumOp>())) {
    llvm::SetVector<unsigned> buckets;
    llvm::DenseSet<StringRef> summed;
    for (Value value : sum.getValues()) {
      StateOp state = readState(value, Role::Gradient, symbols);
      if (!state)
        return sum.emitOpError()
               << "sums a value that is not train.read of a gradient";
      auto [index, place] = context.plan.placeOf.at(*state.getOf());
      if (!context.plan.buckets[index].trainable)
        return sum.emitOpError() << "sums the gradient of @" << *state.getOf()
                                 << ", which no optimizer updates";
      buckets.insert(index);
      summed.insert(*state.getOf());
      dead.insert(value.getDefiningOp());
    }
    bool chunked = false;
    SmallVector<Value> values;
    for (unsigned index : buckets.getArrayRef()) {
      const Bucket &bucket = context.plan.buckets[index];
      for (const Member &member : bucket.members)
        if (StringRef name = member.parameter->state.getSymName();
            !summed.contains(name))
          return sum.emitOpError() << "leaves out the gradient of @" << name
                                   << ", which shares bucket @" << bucket.name
                                   << " with gradients that it sums";
      chunked |= bucket.row->optimizer == Layout::Chunk;
    }
    for (unsigned index = 0; index < context.plan.buckets.size(); ++index)
      if (buckets.contains(index))
        values.push_back(gradient[index]);

    OpBuilder builder(sum);
    Value total = train::SquareSumOp::create(builder, sum.getLoc(),
                                             sum.getType(), values);
    // Whole gradients are equal on all ranks already, and so are their sums.
    if (chunked)
      total =
          AllReduceOp::create(builder, sum.getLoc(), total, Reduction::Sum,
                              context.axis, builder.getStringAttr("grad_norm"));
    sum.getResult().replaceAllUsesWith(total);
    dead.insert(sum);
  }
  return success();
}

/// Metrics count each rank's own tokens: what the step reads of them is the
/// sum over ranks.
void ApplyStep::sumMetrics() {
  for (auto read : llvm::to_vector(function.front().getOps<train::ReadOp>())) {
    if (!readState(read, Role::Metric, symbols))
      continue;
    OpBuilder builder(read);
    builder.setInsertionPointAfter(read);
    auto sum = AllReduceOp::create(builder, read.getLoc(), read, Reduction::Sum,
                                   context.axis,
                                   builder.getStringAttr(read.getState()));
    read.getResult().replaceAllUsesExcept(sum.getResult(), sum);
  }
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// `decay` of the members that have one; ranges of those that have none.
void ApplyStep::setDecay(Operation *update, const Bucket &bucket) {
  double decay = 0.0;
  for (const Member &member : bucket.members)
    decay = std::max(decay, decayOf(member.parameter->update));
  SmallVector<int64_t> ranges;
  // Ranges that only alignment separates are one: between members all is 0.
  auto add = [&](int64_t begin, int64_t end) {
    if (!ranges.empty() &&
        llvm::alignTo(ranges.back(), kAlignment) == uint64_t(begin))
      ranges.back() = end;
    else
      ranges.append({begin, end});
  };
  for (const Member &member : bucket.members) {
    Operation *op = member.parameter->update;
    if (decay == 0.0)
      break;
    if (decayOf(op) == 0.0) {
      add(member.offset, member.offset + member.parameter->elements);
      continue;
    }
    ArrayRef<int64_t> own = undecayedOf(op);
    for (size_t i = 0; i + 1 < own.size(); i += 2)
      add(member.offset + own[i],
          member.offset + std::min(own[i + 1], member.parameter->elements));
  }
  TypeSwitch<Operation *>(update).Case<train::AdamOp, train::SGDOp>(
      [&](auto op) {
        op.setDecay(APFloat(decay));
        op.setUndecayed(ranges);
      });
}

Value ApplyStep::gather(OpBuilder &builder, Location loc, Value chunk,
                        const Bucket &bucket) {
  auto whole = AllGatherOp::create(
      builder, loc, bucket.type(Layout::Whole, getElementTypeOrSelf(chunk)),
      chunk, context.axis, use(bucket, "apply"));
  gatheredBytes += train::bytesOf(whole.getType());
  return whole;
}

void ApplyStep::updateBucket(unsigned index, Operation *anchor) {
  const Bucket &bucket = context.plan.buckets[index];
  const ZeroRow &row = *bucket.row;
  LogicalParameter &head = *bucket.members.front().parameter;
  OpBuilder builder(anchor);
  Location loc = named(anchor, bucket.name);
  Type f32 = builder.getF32Type();
  auto read = [&](StringRef part, Layout layout, Type element) -> Value {
    return train::ReadOp::create(builder, named(anchor, bucket.stateName(part)),
                                 bucket.type(layout, element),
                                 bucket.stateName(part));
  };
  auto write = [&](Value value, StringRef part) {
    train::WriteOp::create(builder, loc, value, bucket.stateName(part));
  };

  Value value;
  if (bucket.hasMaster) {
    value = read("master", row.optimizer, f32);
  } else {
    value = read("param", row.parameter, bucket.elementType);
    if (row.parameter == Layout::Whole && row.optimizer == Layout::Chunk)
      value = ChunkOp::create(builder, loc, bucket.type(Layout::Chunk, f32),
                              value, context.axis);
  }

  unsigned moments = head.update->getNumResults() - 1;
  SmallVector<StringRef> slots;
  Operation *update = builder.clone(*head.update);
  update->setLoc(loc);
  update->removeAttr(train::kBlockAttr);
  builder.setInsertionPoint(update);
  update->setOperand(0, value);
  update->setOperand(1, gradient[index]);
  for (unsigned i = 0; i < moments; ++i) {
    StateOp moment =
        readState(head.update->getOperand(2 + i), Role::Moment, symbols);
    slots.push_back(*moment.getSlot());
    update->setOperand(2 + i, read(slots.back(), row.optimizer, f32));
  }
  for (OpResult result : update->getResults())
    result.setType(bucket.type(row.optimizer, f32));
  setDecay(update, bucket);
  if (row.optimizer == Layout::Chunk)
    update->setAttr(kChunkedAttr, builder.getUnitAttr());

  builder.setInsertionPointAfter(update);
  Value next = update->getResult(0);
  if (bucket.hasMaster)
    write(next, "master");
  next = convertFloat(builder, loc, next, bucket.elementType);
  if (row.optimizer == Layout::Chunk && row.parameter == Layout::Whole)
    next = gather(builder, loc, next, bucket);
  write(next, "param");
  for (unsigned i = 0; i < moments; ++i)
    write(update->getResult(1 + i), slots[i]);
}

/// Last to first: a user is erased before what it uses. What is left in use
/// is found by the pass: it names a state that no longer exists.
void ApplyStep::eraseDead() {
  SmallVector<Operation *> order;
  for (Operation &op : function.front())
    if (dead.contains(&op))
      order.push_back(&op);
  for (Operation *op : llvm::reverse(order))
    if (op->use_empty())
      op->erase();
}

LogicalResult comm::shardApplyStep(func::FuncOp function,
                                   const ShardContext &context) {
  return ApplyStep(function, context).run();
}
